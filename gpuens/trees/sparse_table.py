"""The bins and codes of sparse tables, whose zeros are counted but never made."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..devices.sparse_tables import SparseTable
from ..inputs.sparse_bins import distinct_values, parts_of
from ..kernels.runtime.dtypes import MAX_BINS


class SparseBins(NamedTuple):
    """The bins of all columns (see ``kernels.cart.problem.CartTable``)."""

    n_bins: np.ndarray
    begin: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def bins_of_sparse(
    table: SparseTable,
    max_bins: int | None,
    of_many: Callable[[int], tuple[np.ndarray, np.ndarray]],
) -> SparseBins:
    """Return a bin for each distinct value.

    Parameters
    ----------
    max_bins : int or None
        The most of a column.
    of_many : callable
        ``of_many(f)`` returns the lowest and highest values in the bins of a column with more
        distinct values.
    """
    lower: list[np.ndarray] = []
    upper: list[np.ndarray] = []
    n_bins = np.empty(table.shape[1], np.int32)
    for features in parts_of(table):
        distinct, _, begin = distinct_values(table, features)
        size = np.diff(begin)
        many = np.flatnonzero(size > max_bins) if max_bins is not None else np.empty(0, np.int64)
        n_bins[features.start : features.stop] = size
        done = 0
        for f in many.tolist():
            low, high = of_many(features[f])
            n_bins[features[f]] = low.size
            lower += [distinct[done : begin[f]], low]
            upper += [distinct[done : begin[f]], high]
            done = begin[f + 1]
        lower.append(distinct[done:])
        upper.append(distinct[done:])
    ends = np.concatenate([[0], np.cumsum(n_bins, dtype=np.int64)])
    return SparseBins(n_bins, ends, np.concatenate(lower), np.concatenate(upper))


def bytes_of_cell(table: SparseTable, max_bins: int | None) -> int:
    """Return the bytes of a value's code."""
    n_distinct = int(table.n_entries.max(initial=0)) + 1
    return 1 if max_bins is not None or n_distinct <= MAX_BINS else 4


def codes_of_sparse(table: SparseTable, bins: SparseBins) -> np.ndarray:
    """Return the bin of each value, zeros included: shape (n_features, n_rows), uint8 or uint32."""
    n_rows, n_features = table.shape
    dtype = np.uint8 if bins.n_bins.max() <= MAX_BINS else np.uint32
    codes = np.empty((n_features, n_rows), dtype)
    indptr, begin = table.entries.indptr.tolist(), bins.begin.tolist()
    for f in range(n_features):
        own, highest = slice(*indptr[f : f + 2]), bins.upper[begin[f] : begin[f + 1]]
        codes[f] = np.searchsorted(highest, 0.0)
        values = table.entries.data[own].astype(np.float64)
        of_entries = np.searchsorted(highest, values)
        of_entries[values != values] = highest.size
        codes[f, table.entries.indices[own]] = of_entries
    return codes
