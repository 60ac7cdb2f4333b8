"""The codes of sparse tables."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csc_array

from ..devices.placement import Device
from ..devices.sparse_tables import SparseTable
from ..kernels.growth.sparse_codes import SparseCodes
from ..kernels.runtime.arrays import empty_on_line
from ..kernels.runtime.collective import ONE_WORKER, Workers, count_of_all
from ..kernels.runtime.dispatch import Implementation
from ..kernels.runtime.dtypes import MISSING, ROW_ALIGNMENT, Codes

ROWS_AT_ONCE = 256
"""Rows that are transposed together."""
CELLS_OF_ENTRY = 10
"""A table with fewer cells for each entry has dense codes, which take about as much memory."""
ENTRY_BYTES = 20
"""Bytes of an entry of sparse codes, while they are made."""


def stays_sparse(table: SparseTable, device: Device, workers: Workers = ONE_WORKER) -> bool:
    """Return whether the codes of a table leave out its zeros: on the CPU, if these are many. Where
    workers share the rows, those of all decide."""
    n_rows, n_features = table.shape
    n_entries, n_rows = (count_of_all(n, workers) for n in (table.entries.nnz, n_rows))
    is_rare = CELLS_OF_ENTRY * n_entries < n_rows * n_features
    return is_rare and device.implementation is Implementation.CPU


def sparse_codes(
    table: SparseTable,
    thresholds: tuple[np.ndarray, ...],
    device: Device,
    workers: Workers = ONE_WORKER,
) -> Codes | SparseCodes:
    """Return the codes of a table on a device, where zeros have theirs as any other value."""
    of_entries, of_zeros = codes_of_entries(table, thresholds)
    if stays_sparse(table, device, workers):
        return _left_out(table, thresholds, of_entries, of_zeros)
    n_rows, n_features = table.shape
    columns = np.empty((n_features, n_rows), np.uint8)
    columns[...] = of_zeros[:, None]
    columns[np.repeat(np.arange(n_features), table.n_entries), table.entries.indices] = of_entries
    rows = empty_on_line((n_rows, -(-n_features // ROW_ALIGNMENT) * ROW_ALIGNMENT), np.uint8)
    rows[:, n_features:] = 0
    for first in range(0, n_rows, ROWS_AT_ONCE):
        rows[first : first + ROWS_AT_ONCE, :n_features] = columns[:, first : first + ROWS_AT_ONCE].T
    return Codes(device.asarray(rows), device.asarray(columns))


def _left_out(
    table: SparseTable,
    thresholds: tuple[np.ndarray, ...],
    of_entries: np.ndarray,
    of_zeros: np.ndarray,
) -> SparseCodes:
    """Return codes that leave out the zeros."""
    n_bins = np.array([len(cuts) + 1 for cuts in thresholds], np.int64)
    place_begin = np.cumsum(np.append(0, n_bins + 1))
    places = np.repeat(place_begin[:-1], table.n_entries)
    places += np.where(of_entries == MISSING, np.repeat(n_bins, table.n_entries), of_entries)
    indices, indptr = table.entries.indices, table.entries.indptr
    by_rows = csc_array((places.astype(np.uint32), indices, indptr), shape=table.shape).tocsr()
    return SparseCodes(
        row_begin=by_rows.indptr.astype(np.int64),
        row_places=by_rows.data,
        column_begin=indptr.astype(np.int64),
        column_rows=indices.astype(np.int32),
        column_codes=of_entries,
        zeros=of_zeros,
        place_begin=place_begin,
    )


def codes_of_entries(
    table: SparseTable, thresholds: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the bin of each entry, and that of the zeros of each column (uint8)."""
    values, indptr = table.entries.data, table.entries.indptr.tolist()
    codes = np.empty(values.size, np.uint8)
    of_zeros = np.empty(len(thresholds), np.uint8)
    for f, cuts in enumerate(thresholds):
        own = slice(indptr[f], indptr[f + 1])
        codes[own] = np.searchsorted(cuts, values[own].astype(np.float64), side="left")
        of_zeros[f] = np.searchsorted(cuts, 0.0, side="left")
    codes[values != values] = MISSING
    return codes, of_zeros
