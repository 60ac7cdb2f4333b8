"""Sparse matrices of SciPy and CuPy as tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from ..devices.placement import on_host
from ..devices.sparse_tables import SparseTable
from .arrays import MOST_ROWS, narrowed, require_shape


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
