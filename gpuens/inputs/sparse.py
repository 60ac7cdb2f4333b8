"""Sparse matrices of SciPy and CuPy as tables, and the codes of these."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from ..devices.placement import Device, on_host
from ..devices.sparse_tables import SparseTable
from ..kernels.growth.sparse_codes import SparseCodes
from ..kernels.runtime.arrays import empty_on_line
from ..kernels.runtime.collective import ONE_WORKER, Workers, count_of_all
from ..kernels.runtime.dispatch import Implementation
from ..kernels.runtime.dtypes import MISSING, ROW_ALIGNMENT, Codes
from .arrays import MOST_ROWS, narrowed, require_shape

ROWS_AT_ONCE = 256
"""Rows that are transposed together."""
CELLS_OF_ENTRY = 10
"""A table with fewer cells for each entry has dense codes, which take about as much memory."""
ENTRY_BYTES = 20
"""Bytes of an entry of sparse codes, while they are made."""


def read_sparse(X: Any, *, estimator: Any, reset: bool, name: str) -> SparseTable:
    """Read a sparse matrix.

    Duplicate entries are added up, as SciPy does, and absent ones are zeros. The user's matrix
    does not change.

    Parameters
    ----------
    X : sparse matrix or array of SciPy or CuPy, shape (n_rows, n_features)
        CSR and CSC are read as they are, other formats are converted.
    estimator : object
        Gets ``n_features_in_``, or is compared with it.
    reset : bool
        True in ``fit``, False afterwards.
    name : str
        Name of X in error messages.

    Raises
    ------
    ValueError
        X has no rows or columns or the wrong ones, holds no real numbers, or its indices are not
        those of entries of the matrix.
    """
    X = on_host(X)
    if X.dtype.kind not in "fiub":
        raise ValueError(
            f"{name} is sparse with dtype {X.dtype}, but must hold real numbers. Convert it, for "
            f"example with {name}.astype(np.float64)."
            + ("\nComplex data not supported" if X.dtype.kind == "c" else "")
        )
    require_shape(X.shape, estimator)
    _require_valid(X, name)
    values = check_array(
        X,
        accept_sparse=("csr", "csc"),
        ensure_all_finite=False,
        input_name=name,
        estimator=estimator,
    )
    validate_data(estimator, values, reset=reset, skip_check_array=True)
    if values.shape[0] > MOST_ROWS:
        raise ValueError(
            f"{name} has {values.shape[0]:,} rows; at most {MOST_ROWS:,} can be taken at once."
        )
    return SparseTable(_canonical(values, name))


def _require_valid(X: Any, name: str) -> None:
    """Check the indices, which compiled code follows without looking."""
    if X.format not in ("csr", "csc"):
        return  # conversions of other formats look at them
    own = (csr_array if X.format == "csr" else csc_array)(X)  # checks may cut the arrays
    try:
        own.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(
            f"{name} is not a valid sparse matrix: {error}. Make it again from its entries, for "
            "example with scipy.sparse.coo_array((values, (rows, columns)), shape)."
        ) from error


def _canonical(values: Any, name: str) -> csc_array:
    """Return the entries by columns in the order of the rows, without duplicates and zeros."""
    data = narrowed(values.data, name, False) if values.nnz else values.data.astype(np.float32)
    make = csr_array if values.format == "csr" else csc_array
    entries = csc_array(make((data, values.indices, values.indptr), shape=values.shape))
    if not (entries.has_canonical_format and entries.data.all()):
        entries = entries.copy()
        entries.sum_duplicates()
        entries.eliminate_zeros()
    return entries


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
