"""Forests whose splits are of projections: sums of a few features with signs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..devices.placement import Device
from ..kernels.binning.project import project
from ..kernels.prediction.traverse import Trees
from ..kernels.runtime.arrays import Array
from ..kernels.scalars.lazy_jit import lazy_property
from .forest import Forest

CELLS_AT_ONCE = 2**21
"""Projections of rows that are in memory together, 16 MB."""


@dataclass(frozen=True, eq=False)
class Projections:
    """Weighted sums of features.

    Parameters
    ----------
    begin : int64, shape (n_projections + 1,)
        Projection j has the entries ``begin[j]:begin[j + 1]``, at least one.
    member : int32, shape (n_entries,)
        Features, ascending in each projection.
    weight : float64, shape (n_entries,)
        Positive or negative powers of two, so that products are exact.
    """

    begin: np.ndarray
    member: np.ndarray
    weight: np.ndarray

    @property
    def n(self) -> int:
        """The number of projections."""
        return self.begin.size - 1

    @property
    def sizes(self) -> np.ndarray:
        """The number of features of each, int64."""
        return np.diff(self.begin)

    def some(self, chosen: np.ndarray) -> Projections:
        """Return some of them, in the order of their numbers in ``chosen``."""
        sizes = self.sizes[chosen]
        begin = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        entries = np.arange(begin[-1]) + np.repeat(self.begin[chosen] - begin[:-1], sizes)
        return Projections(begin, self.member[entries], self.weight[entries])

    def of(self, X: Array, device: Device) -> Array:
        """Return the projections of rows on the device: float64, shape (n, n_rows)."""
        entries = map(device.asarray, (self.begin, self.member, self.weight))
        return project(X, *entries)


@dataclass(frozen=True, eq=False)
class ObliqueForest(Forest):
    """A forest that splits by projections of the features.

    ``feature`` holds numbers of projections, ``n_categories`` has an entry for each projection:
    a feature with categories is a projection by itself. Rows are projected a block at a time, by
    the projections that the trees use.

    Parameters
    ----------
    begin, member, weight
        As in ``Projections``.

    See Also
    --------
    Forest : has the other parameters.
    """

    begin: np.ndarray
    member: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, forest: Forest, n_features: int, projections: Projections) -> ObliqueForest:
        """Return trees that were grown on projections as trees of the features."""
        parts: dict[str, Any] = {f.name: getattr(forest, f.name) for f in fields(Forest)}
        return cls(**parts | {"n_features": n_features} | vars(projections))

    @property
    def projections(self) -> Projections:
        return Projections(self.begin, self.member, self.weight)

    @property
    def n_columns(self) -> int:
        return self.begin.size - 1

    @property
    def used_features(self) -> np.ndarray:
        return np.unique(self._plain[0].member)

    @property
    def categories_of_features(self) -> np.ndarray:
        single = np.flatnonzero(self.projections.sizes == 1)
        result = np.zeros(self.n_features, np.int32)
        result[self.member[self.begin[single]]] = self.n_categories[single]
        return result

    def by_feature(self, of_columns: np.ndarray) -> np.ndarray:
        """Share the value of a projection out to its features, evenly."""
        sizes = np.diff(self.begin)
        shared = np.repeat(of_columns / sizes, sizes, axis=-1)
        result = np.zeros((*of_columns.shape[:-1], self.n_features))
        np.add.at(result.T, self.member, shared.T)
        return result

    def _add_rows(self, raw: Array, X: Array, device: Device) -> None:
        _, plain = self._plain
        for rows, table in self._projected(X, device):
            part = raw[:, rows].copy()
            plain._add_rows(part, table, device)
            raw[:, rows] = part

    def _leaves(self, X: Array, device: Device) -> Array:
        _, plain = self._plain
        leaf = device.xp.empty((X.shape[0], self.n_trees), dtype=device.xp.int32)
        for rows, table in self._projected(X, device):
            leaf[rows] = plain._leaves(table, device)
        return leaf

    def _projected(self, X: Array, device: Device) -> Iterator[tuple[slice, Array]]:
        """Yield the columns that the trees use, of a block of rows at a time."""
        projections, _ = self._plain
        step = max(1, CELLS_AT_ONCE // projections.n)
        for first in range(0, X.shape[0], step):
            rows = slice(first, first + step)
            yield rows, projections.of(X[rows], device).T

    @lazy_property
    def _plain(self) -> tuple[Projections, Forest]:
        """The projections that the trees use, at least one, and the trees on these as columns."""
        used = np.unique(self.feature[self.feature >= 0])
        columns = used if used.size else np.zeros(1, np.int32)
        parts: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(Forest)}
        plain = Forest(**parts)._with_features(columns)
        return self.projections.some(columns), plain

    def _with_features(self, features: np.ndarray) -> ObliqueForest:
        projections, plain = self._plain
        member = np.searchsorted(features, projections.member).astype(np.int32)
        return ObliqueForest.of(plain, features.size, replace(projections, member=member))

    def _on(self, device: Device) -> tuple[Trees, Array]:
        return self._plain[1]._on(device)
