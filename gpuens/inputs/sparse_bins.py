"""The bins of sparse tables: those of the same table with its zeros, which are only counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ..devices.placement import Device, module_of
from ..devices.sparse_tables import SparseTable
from ..kernels.growth.sparse_codes import SparseCodes
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import ONE_WORKER, Workers
from ..kernels.runtime.dtypes import Codes
from .binning import Binner, cut_points, cut_points_of_distinct, midpoints, sample_rows
from .shared_tables import entries_of_all

ENTRIES_AT_ONCE = 2**21
"""Entries whose columns are sorted together."""


def fit_sparse_binner(
    table: SparseTable, weight: np.ndarray | None, max_bins: int, seed: int
) -> Binner:
    """Choose the cut points that ``Binner.fit`` chooses for the same table with its zeros.

    Parameters
    ----------
    weight : float64, shape (n_rows,), NumPy, or None
    """
    sampled = sample_rows(table.shape[0], seed, weight)
    if sampled is not None:
        table, weight = table[sampled], None if weight is None else weight[sampled]
    if weight is not None and not (weight > 0).all():
        table, weight = table[weight > 0], weight[weight > 0]
    cuts: list[np.ndarray] = []
    for features in parts_of(table):
        cuts += _cuts_of(table, features, weight, max_bins)
    return Binner(tuple(cuts))


def parts_of(table: SparseTable) -> Iterator[range]:
    """Divide the columns into parts whose entries are sorted together."""
    return parts_of_columns(table.entries.indptr, ENTRIES_AT_ONCE)


def parts_of_columns(indptr: np.ndarray, n_entries: int) -> Iterator[range]:
    """Divide columns, whose entries begin at ``indptr``, into parts of not more than so many
    entries, or one column."""
    begin, n_columns = 0, indptr.size - 1
    while begin < n_columns:
        end = int(np.searchsorted(indptr, indptr[begin] + n_entries, side="right")) - 1
        end = max(begin + 1, min(end, n_columns))
        yield range(begin, end)
        begin = end


def distinct_values(
    table: SparseTable, features: range
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct values of some columns, zeros among them but not missing values.

    Returns
    -------
    distinct : float64, shape (n,)
        Of each column ascending, one column after the other.
    count : float64, shape (n,)
        Rows that have the value; absent zeros count as one.
    begin : int64, shape (n_features + 1,)
        Where each column begins.
    """
    n_rows, n = table.shape[0], len(features)
    indptr = table.entries.indptr[features.start : features.stop + 1]
    values = table.entries.data[indptr[0] : indptr[-1]]
    n_entries = np.diff(indptr)
    column = np.repeat(np.arange(n), n_entries)
    known = values == values
    with_zeros = np.flatnonzero(n_entries < n_rows)
    values = np.concatenate([values[known].astype(np.float64), np.zeros(with_zeros.size)])
    column = np.concatenate([column[known], with_zeros])
    order = np.lexsort((values, column))
    values, column = values[order], column[order]
    is_new = np.ones(values.size, np.bool_)
    is_new[1:] = (values[1:] != values[:-1]) | (column[1:] != column[:-1])
    first = np.flatnonzero(is_new)
    count = np.diff(np.append(first, values.size)).astype(np.float64)
    return values[first], count, np.searchsorted(column[first], np.arange(n + 1))


def _cuts_of(
    table: SparseTable, features: range, weight: np.ndarray | None, max_bins: int
) -> list[np.ndarray]:
    n_rows, n_entries = table.shape[0], table.n_entries[features.start : features.stop]
    distinct, mass, begin = distinct_values(table, features)
    middle = midpoints(distinct[:-1], distinct[1:])
    cuts = [middle[a : max(a, b - 1)].copy() for a, b in zip(begin[:-1], begin[1:], strict=True)]
    for f in np.flatnonzero(np.diff(begin) > max_bins).tolist():
        if weight is not None:
            cuts[f] = cut_points(table.column(features[f]), weight, max_bins)
            continue
        own = slice(begin[f], begin[f + 1])
        count = mass[own]
        if n_entries[f] < n_rows:
            count[distinct[own] == 0.0] = n_rows - n_entries[f]
        cuts[f] = cut_points_of_distinct(distinct[own], count, max_bins)
    return cuts


@dataclass(frozen=True)
class NarrowBinner(Binner):
    """Cut points of some columns of the tables: those that trees are grown on.

    Parameters
    ----------
    features : int32 array
        The numbers of the columns, ascending.
    """

    features: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))

    @classmethod
    def of(cls, binner: Binner, features: np.ndarray) -> NarrowBinner:
        """Return the bins of some columns of those of all."""
        return cls(tuple(binner.thresholds[f] for f in features.tolist()), features)

    def numbers(self, features: np.ndarray) -> np.ndarray:
        return np.where(features >= 0, self.features[features], features).astype(np.int32)

    def places(self, features: np.ndarray) -> np.ndarray:
        found = np.searchsorted(self.features, features)
        return np.where(features >= 0, found, features).astype(np.int32)

    def codes_of(
        self, X: Array | SparseTable, device: Device, workers: Workers = ONE_WORKER
    ) -> Codes | SparseCodes:
        if isinstance(X, SparseTable):
            return super().codes_of(X.columns(self.features), device, workers)
        return self.transform(X[:, module_of(X).asarray(self.features)], device)


def columns_that_split(
    table: SparseTable, fewest: int, workers: Workers = ONE_WORKER
) -> np.ndarray:
    """Return the columns that can be split so that each side has at least ``fewest`` rows, of all
    workers where they share these (int32).

    Zeros are in one bin, so that a side without them has no more rows than the column has entries.
    There is one column at least.
    """
    found = np.flatnonzero(entries_of_all(table, workers) >= fewest).astype(np.int32)
    return found if found.size else np.zeros(1, np.int32)
