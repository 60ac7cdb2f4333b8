"""From the path lengths of an isolation forest to scores."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import issparse

from ..devices.placement import Device
from ..forest.forest import Forest
from ..kernels.runtime.dtypes import MAX_BINS
from ..kernels.scalars import isolation
from ..kernels.scalars.primitives import vectorise
from .isolation_trees import average_path_length

DENSE_BYTES = 2**26
"""Memory that the rows of a sparse matrix may take which are looked at together."""
MANY_ROWS = 1000
"""From so many on it pays to look at the trees in parts."""
MOST_CUTS = MAX_BINS - 1
"""Of a feature, for codes of a byte."""
MOST_SPLITS = 255
"""Of a tree whose leaves are numbered in a byte."""

_anomaly_score = vectorise(isolation.anomaly_score)


class IsolationScores:
    """How normal an isolation forest finds rows.

    Parameters
    ----------
    forest : Forest
        Its values are path lengths.
    n_draws : int
        Rows in the sample of a tree.
    """

    def __init__(self, forest: Forest, n_draws: int) -> None:
        self.forest = forest
        self.n_draws = n_draws

    def of(self, values: Any, device: Device) -> Any:
        """Minus the anomaly score.

        Parameters
        ----------
        values : float32 or float64, shape (n_rows, n_features), on the device; or a CSR matrix
        device : Device

        Returns
        -------
        float64, shape (n_rows,), on the device
        """
        average = self.forest.n_trees * average_path_length(np.array([float(self.n_draws)]))
        return -_anomaly_score(self._path_lengths(values, device), device.asarray(average))

    def _path_lengths(self, values: Any, device: Device) -> Any:
        """Sums over the trees."""
        if not issparse(values):
            return self._path_lengths_of_block(values, device)
        step = max(1, DENSE_BYTES // (8 * values.shape[1]))
        starts = range(0, values.shape[0], step)
        blocks = (device.asarray(values[i : i + step].toarray()) for i in starts)
        return device.xp.concatenate([self._path_lengths_of_block(b, device) for b in blocks])

    def _path_lengths_of_block(self, values: Any, device: Device) -> Any:
        parts = self._parts if values.shape[0] >= MANY_ROWS else [self.forest]
        length = parts[0].raw_predict(values, device)
        for part in parts[1:]:  # lengths are whole numbers of units: any order will do
            part.add_to(length, values, device)
        return length[0]

    def __getstate__(self) -> dict[str, Any]:
        return {"forest": self.forest, "n_draws": self.n_draws}

    @cached_property
    def _parts(self) -> list[Forest]:
        return parts_of_few_cuts(self.forest)


def parts_of_few_cuts(forest: Forest) -> list[Forest]:
    """The trees in groups whose features have so few cuts each that codes of a byte tell on
    which side of all of them a value lies: prediction is several times faster then. The forest
    as it is where a tree alone has more."""
    inner = np.flatnonzero(forest.feature >= 0)
    tree = np.searchsorted(forest.offset, inner, side="right") - 1
    shape = forest.n_trees, forest.n_features
    cell = tree * forest.n_features + forest.feature[inner]
    n_cuts = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)
    if n_cuts.max(initial=0) > MOST_CUTS or n_cuts.sum(axis=1).max(initial=0) > MOST_SPLITS:
        return [forest]
    starts, so_far = [0], np.zeros(forest.n_features, np.int64)
    for t in range(forest.n_trees):
        so_far += n_cuts[t]
        if so_far.max() > MOST_CUTS:
            starts.append(t)
            so_far[:] = n_cuts[t]
    ends = [*starts[1:], forest.n_trees]
    return [forest.slice(first, last) for first, last in zip(starts, ends, strict=True)]
