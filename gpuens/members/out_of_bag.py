"""Predictions of trees for the rows that they have not seen, added up where the table is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..devices.placement import CPU, Device, module_of, to_numpy
from ..forest.forest import Forest
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import ONE_WORKER, Workers, rows_of_all
from ..kernels.statistics.out_of_bag import add_out_of_bag
from .samples import OutOfBag, left_out, rows_of_share

MOST_LEAVES = 2**24
"""Leaves of rows that are held at a time."""


def bytes_of_sums(n_rows: int, width: int, n_outputs: int, n_trees: int) -> int:
    """Return the bytes that ``OutOfBagTrees`` takes beside the table."""
    n_leaves = max(n_rows, min(n_rows * n_trees, MOST_LEAVES))
    return n_rows * (8 * width + 8 * n_outputs + 4) + 2 * 4 * n_leaves


class OutOfBagTrees:
    """Sums of the out-of-bag predictions of the training rows, ``total``, and their errors. Nothing
    is copied to the host before it is asked for.

    ``counts(t, device)`` says how often each row is in the sample of tree t. ``truth`` has class
    numbers or targets (n_rows, n_outputs), or the shape (0, 0): errors are not measured.
    ``n_classes`` is empty for regression; ``width`` are the columns of a prediction. Where workers
    share the rows, ``values``, ``truth`` and ``total`` have those of this one; ``counts`` is of
    all."""

    def __init__(
        self,
        values: Array,
        counts: Callable[[int, Device], Any],
        truth: Any,
        n_classes: tuple[int, ...],
        width: int,
        device: Device,
        workers: Workers = ONE_WORKER,
    ) -> None:
        self.values, self.counts, self.device, self.workers = values, counts, device, workers
        self.truth = device.asarray(truth, dtype=np.float64, order="C")
        begin = np.cumsum((0, *n_classes)) if n_classes else np.empty(0)
        self.begin = device.asarray(begin.astype(np.int64))
        self.total = OutOfBag(values.shape[0], width, device)
        self._measured: list[tuple[Array, Array]] = []

    def add(self, first: int, forest: Forest) -> None:
        """Add the predictions of trees, from number ``first``, for the rows outside their
        samples."""
        at_once = max(1, MOST_LEAVES // rows_of_all(self.values.shape[0], self.workers))
        for begin in range(0, forest.n_trees, at_once):
            end = min(begin + at_once, forest.n_trees)
            trees = forest.slice(begin, end) if end - begin < forest.n_trees else forest
            leaf = self._leaves(first + begin, trees)
            value = trees._trees_on(self.device).value
            measured = add_out_of_bag(
                leaf, value, self.truth, self.begin, self.total.sums, self.total.n_models,
                self.workers,
            )  # fmt: skip
            self._measured.append(measured)

    def _leaves(self, first: int, forest: Forest) -> Array:
        """Return the node that each row ends in, counted over all trees, -1 where a tree has seen
        the row: int32, shape (n_trees, n_rows)."""
        xp, device = self.device.xp, self.device
        leaf = xp.full((forest.n_trees, self.values.shape[0]), np.int32(-1))
        roots = forest.offset.astype(np.int32)
        if device.is_gpu:  # all rows at once: there the host would have to wait for a choice
            reached = forest.apply(self.values, device)
            for t in range(forest.n_trees):
                outside = self.counts(first + t, device) == 0
                leaf[t] = xp.where(outside, reached[:, t] + roots[t], leaf[t])
            return leaf
        for t in range(forest.n_trees):
            rows = left_out(rows_of_share(self.counts(first + t, CPU), self.workers))
            chosen = self.values[module_of(self.values).asarray(rows)]
            leaf[t, rows] = forest.slice(t, t + 1).apply(chosen, device)[:, 0] + roots[t]
        return leaf

    def of_all_rows(self) -> OutOfBag:
        """Return the sums, of workers that share the rows those of all."""
        return OutOfBag.of_workers(self.total, self.workers)

    def path(self) -> np.ndarray:
        """Return the mean error after each tree, over the rows that have a prediction then; NaN
        without any."""
        if not self._measured:
            return np.empty(0)
        errors, n_new = (
            to_numpy(self.device.xp.concat(a)) for a in zip(*self._measured, strict=True)
        )
        n_known = np.cumsum(n_new)
        path = np.full(errors.shape, np.nan)
        np.divide(errors, n_known, out=path, where=n_known > 0)
        return path
