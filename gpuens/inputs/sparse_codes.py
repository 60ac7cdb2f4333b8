"""The codes of sparse tables."""

from __future__ import annotations

import numpy as np

from ..devices.placement import Device
from ..devices.sparse_tables import SparseTable
from ..kernels.runtime.dtypes import MISSING, ROW_ALIGNMENT, Codes

ROWS_AT_ONCE = 256
"""Rows that are transposed together."""


def sparse_codes(table: SparseTable, thresholds: tuple[np.ndarray, ...], device: Device) -> Codes:
    """Return the codes of a table on a device, where zeros have theirs as any other value."""
    n_rows, n_features = table.shape
    of_entries, of_zeros = codes_of_entries(table, thresholds)
    columns = np.empty((n_features, n_rows), np.uint8)
    columns[...] = of_zeros[:, None]
    columns[np.repeat(np.arange(n_features), table.n_entries), table.entries.indices] = of_entries
    rows = np.zeros((n_rows, -(-n_features // ROW_ALIGNMENT) * ROW_ALIGNMENT), np.uint8)
    for first in range(0, n_rows, ROWS_AT_ONCE):
        rows[first : first + ROWS_AT_ONCE, :n_features] = columns[:, first : first + ROWS_AT_ONCE].T
    return Codes(device.asarray(rows), device.asarray(columns))


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
