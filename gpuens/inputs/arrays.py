"""Reading tables of any array library, and returning results in the same library.

NumPy, CuPy, torch, pandas, polars, pyarrow, cuDF and lists are read; a copy
is only made on another device or of another type. Arrays that readers return must not be
written to: they can be the user's own memory. Readers are called inside ``device.active()``.
"""

from __future__ import annotations

import numbers
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from array_api_compat import is_array_api_obj, is_cupy_array, is_torch_array
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from ..devices.array_library import library_of
from ..devices.lazy_tables import require_in_memory
from ..devices.library_arrays import LibraryArray
from ..devices.memory_plan import format_bytes
from ..devices.placement import (
    Device,
    gpu_of,
    is_gpu_frame,
    is_gpu_sparse,
    is_of_the_standard,
    is_sparse,
    on_host,
    resolve_device,
    to_numpy,
)
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.system import available_memory
from .frames import (
    EXACT_IN_FLOAT32,
    EXACT_IN_FLOAT64,
    frame_to_numpy,
    require_exact,
    require_unique_columns,
    rounded_integer,
)

__all__ = ["Device", "read_table", "resolve_device", "to_input_library"]

MOST_ROWS = 2**31 - 1
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))

_RESHAPE = (
    "Reshape your data either using array.reshape(-1, 1) if your data has a single feature or "
    "array.reshape(1, -1) if it contains a single sample."
)


def read_table(
    X: Any,
    device: Device,
    *,
    estimator: Any,
    reset: bool = True,
    name: str = "X",
    may_round: bool = False,
) -> Array:
    """Read features.

    Floats of 32 and 64 bits are taken as they are. Booleans and integers become float32 if
    it holds them exactly, else float64, which must hold them exactly; objects must be
    numbers.

    Parameters
    ----------
    X : array or data frame, shape (n_rows, n_features)
    device : Device
        Where to put the values.
    estimator : object
        Gets ``n_features_in_`` and ``feature_names_in_``, or is compared with them.
    reset : bool
        True in ``fit``, False afterwards.
    name : str
        Name of X in error messages.
    may_round : bool
        Whether integers that float64 does not hold are rounded, and not refused.

    Returns
    -------
    float32 or float64, shape (n_rows, n_features), any strides
        On the device. NaN is missing; infinities are values.

    Raises
    ------
    ValueError, TypeError
        X is not a table of real numbers with at least one row and one column, column
        names are repeated, or the features are not those of ``fit``.
    """
    if not reset and is_plain(X, device, estimator):
        return X
    form = form_of(X)
    if form == GPU_FRAME:
        if device.is_gpu:
            # Of a frame without rows only the columns are compared.
            validate_data(estimator, X.head(0).to_pandas(), reset=reset, skip_check_array=True)
            require_shape(tuple(X.shape), estimator)
            return on_device(gpu_frame_to_table(X, device, name), device)
        X, form = on_host(X), FRAME
    if form == FRAME:
        check_frame(X, estimator, reset, name)
        return on_device(frame_to_numpy(X, name), device)
    if device.holds(X):
        values: Array = _read_on_device(X, device, estimator, name, may_round)
    else:
        values = read_on_host(X, estimator, name, may_round)
    if reset:  # no names; scikit-learn would make all tags of the estimator first
        vars(estimator).pop("feature_names_in_", None)
        estimator.n_features_in_ = int(values.shape[1])
    else:
        validate_data(estimator, values, reset=False, skip_check_array=True)
    return on_device(values, device)


ARRAY, SPARSE, FRAME, GPU_FRAME, OTHER = "array", "sparse", "frame", "frame of cuDF", "other"
"""The forms of tables: NumPy's arrays, sparse matrices, data frames, and all else."""


def form_of(X: Any) -> str:
    """Return the form of a table, one of the five above."""
    if isinstance(X, np.ndarray):
        return ARRAY
    if is_sparse(X):
        return SPARSE
    if is_gpu_frame(X):
        return GPU_FRAME
    return FRAME if is_frame(X) else OTHER


def means_none(categorical_features: Any, form: str) -> bool:
    """Return whether no feature of a table of some form is to have categories."""
    from_dtype = isinstance(categorical_features, str) and categorical_features == "from_dtype"
    return categorical_features is None or from_dtype and form not in (FRAME, GPU_FRAME)


def is_frame(X: Any) -> bool:
    """Return whether X is a data frame of a library that can be read."""
    return not isinstance(X, np.ndarray) and bool(nw.dependencies.is_into_dataframe(X))


def check_frame(frame: Any, estimator: Any, reset: bool, name: str) -> None:
    """Compare a data frame's columns with the estimator's features, or make them those."""
    require_unique_columns(frame, name)
    validate_data(estimator, frame, reset=reset, skip_check_array=True)
    require_shape(tuple(frame.shape), estimator)


def on_device(values: Array, device: Device) -> Array:
    """Return values that were read, on the device. Raises a ValueError if there are more rows than
    int32 counts, which is what nodes count them with. Kernels that step over rows by uint32 rely on
    it too."""
    if values.shape[0] > MOST_ROWS:
        raise ValueError(
            f"The table has {values.shape[0]:,} rows, and rows are counted with 31 bits: at most "
            f"{MOST_ROWS:,} can be taken at once. Pass a sample of them to fit, and parts of them "
            "to predict."
        )
    return device.asarray(values)


def dense_table(X: Any, name: str = "X") -> np.ndarray:
    """Return a sparse matrix as a dense one. Raises a MemoryError if it would not fit; the message
    has its size."""
    X = on_host(X)
    size, available = X.shape[0] * X.shape[1] * X.dtype.itemsize, available_memory()
    if available is not None and size > available:
        raise MemoryError(
            f"{name} is sparse, and as a dense table of {X.shape[0]} x {X.shape[1]} takes "
            f"{format_bytes(size)}; {format_bytes(available)} are free. Pass fewer rows or columns."
        )
    return np.asarray(X.toarray())


def to_input_library(result: Array, like: Any) -> Any:
    """Return a result in the array library and on the device of the input.

    Parameters
    ----------
    result : NumPy or CuPy array
    like : array or data frame
        What the user passed.

    Returns
    -------
    array
        CuPy for CuPy, its sparse matrices and cuDF, torch for torch and any library of the Array
        API standard for itself, on the device of ``like``; NumPy for everything else, and for
        labels that are not numbers (strings), which exist nowhere else.
    """
    if type(like) is np.ndarray and type(result) is np.ndarray:
        return result
    if isinstance(result, LibraryArray) and is_array_api_obj(like):
        if library_of(like) == result.space:
            return result.own
        result = result.to_numpy()
    if is_cupy_array(like) and is_cupy_array(result) and gpu_of(like) == gpu_of(result):
        return result
    if result.dtype.kind in "OUSTV":
        return to_numpy(result)
    if is_cupy_array(like) or is_gpu_frame(like) or is_gpu_sparse(like):
        gpu = gpu_of(like)
        return Device("cuda", 0 if gpu is None else gpu).asarray(result)
    if is_torch_array(like):
        import torch

        if like.is_cuda:
            result = Device("cuda", like.device.index).asarray(result)
            return torch.from_dlpack(result)
        return torch.from_numpy(to_numpy(result)).to(like.device)
    if is_of_the_standard(like):
        return like.__array_namespace__().asarray(to_numpy(result), device=like.device)
    return to_numpy(result)


def is_plain(X: Any, device: Device, estimator: Any) -> bool:
    """Return whether the numbers of X need no conversion; keeps the prediction of few rows fast."""
    if device.kind == "cuda":
        is_there = is_cupy_array(X) and X.device.id == device.index
    else:
        is_there = type(X) is np.ndarray and device.library is None
    return (
        is_there
        and X.ndim == 2
        and X.dtype in _FLOATS
        and X.shape[1] == estimator.n_features_in_
        and 0 < X.shape[0] <= MOST_ROWS
        and not hasattr(estimator, "feature_names_in_")
    )


def read_on_host(X: Any, estimator: Any, name: str, may_round: bool = False) -> np.ndarray:
    """Return the numbers of an array or a list (also of a tensor on a GPU), as NumPy."""
    if not isinstance(X, np.ndarray):
        require_readable(X, name)
        X = on_host(X)
    require_two_axes(X, estimator)
    if isinstance(X, np.ma.MaskedArray) and X.dtype.kind in "fiub":
        if X.dtype.kind in "iu" and X.count() and not may_round:
            require_exact(X.compressed(), name)
        dtype = np.float32 if X.dtype == np.float32 else np.float64
        X = np.ma.filled(X.astype(dtype), np.nan)
    kind = getattr(getattr(X, "dtype", None), "kind", "")
    if kind and kind in "USVmM":
        raise ValueError(
            f"{name} must hold numbers, got dtype {X.dtype}. Name columns of text in "
            "categorical_features or encode them (sklearn.preprocessing.OrdinalEncoder), and turn "
            "dates into days since a date."
        )
    try:
        values = check_array(X, ensure_all_finite=False, input_name=name, estimator=estimator)
        if values.dtype.kind == "O":  # of a list that holds integers beyond uint64
            values = values.astype(np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        if kind != "O" and not isinstance(error, OverflowError):
            raise
        raise (TypeError if isinstance(error, TypeError) else ValueError)(
            f"{name} has dtype object and holds values that are not numbers ({error}). Name their "
            "columns in categorical_features, encode them (sklearn.preprocessing.OrdinalEncoder), "
            "or drop them."
        ) from error
    if kind in ("", "O") and values.dtype.kind == "f" and not may_round:
        _require_exact_objects(X, values, name)
    return narrowed(values, name, may_round)


def _require_exact_objects(X: Any, values: np.ndarray, name: str) -> None:
    """Raise a ValueError for integers among objects, or beside floats in a list, that float64 does
    not hold."""
    is_large = ~(abs(values) < EXACT_IN_FLOAT64)
    if not is_large.any():
        return
    pairs = zip(np.array(X, object)[is_large].tolist(), values[is_large].tolist(), strict=True)
    for given, rounded in pairs:
        if isinstance(given, numbers.Integral) and int(given) != int(rounded):
            raise rounded_integer(int(given), name)


def _read_on_device(X: Any, device: Device, estimator: Any, name: str, may_round: bool) -> Array:
    require_readable(X, name)
    values = device.asarray(X)
    if values.dtype.kind == "c":
        raise ValueError(f"Complex data not supported\n{name} has dtype {values.dtype}.")
    require_shape(values.shape, estimator)
    return narrowed(values, name, may_round)


def require_readable(X: Any, name: str) -> None:
    """Name the containers that look like tables but cannot be read."""
    sparse = "pass a dense one, for example X.toarray() or X.to_dense(), or only some rows at once"
    if is_sparse(X) or (is_torch_array(X) and str(X.layout) != "torch.strided"):
        raise TypeError(f"Sparse data was passed for {name}, but dense data is required: {sparse}.")
    if type(X).__name__ == "BinnedTable":
        raise TypeError(
            f"{name} is a BinnedTable, which fit of gradient boosting, trees and forests takes "
            "in place of X and y; pass an array or a data frame here."
        )
    require_in_memory(X, name)


def require_shape(shape: tuple[int, ...], estimator: Any) -> None:
    """Raise a ValueError for anything but a table with rows and columns.

    These are the shape checks of scikit-learn's ``check_array``, in its words.
    """
    context = f"required by {type(estimator).__name__}."
    if len(shape) < 2:
        kind = "1D" if shape else "scalar"
        raise ValueError(
            f"Expected 2D array, got {kind} array instead, of the shape {shape}. {_RESHAPE}"
        )
    if len(shape) > 2:
        raise ValueError(f"Found array with dim {len(shape)}, while dim <= 2 is {context}")
    for size, what in zip(shape, ("sample", "feature"), strict=True):
        if size == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is {context}"
            )


def require_two_axes(X: Any, estimator: Any) -> None:
    """Raise a ValueError for arrays and lists of one axis; scikit-learn's would print all of it."""
    is_list = isinstance(X, (list, tuple)) and len(X) > 0 and np.ndim(X[0]) == 0
    if is_list or (isinstance(X, np.ndarray) and X.ndim < 2):
        require_shape((len(X),) if is_list else X.shape, estimator)


def narrowed(values: Array, name: str, may_round: bool) -> Any:
    """Real numbers as float32 if it holds them exactly, else as float64."""
    if values.dtype in _FLOATS:
        return values
    kind, size = values.dtype.kind, values.dtype.itemsize
    exact = kind == "b" or size <= 2
    if kind in "iu" and not exact:
        if not may_round:
            require_exact(values, name)
        exact = -EXACT_IN_FLOAT32 <= int(values.min()) and int(values.max()) <= EXACT_IN_FLOAT32
    return values.astype(np.float32 if exact or (kind == "f" and size == 4) else np.float64)


def gpu_frame_to_table(frame: Any, device: Device, name: str) -> Array:
    """Return the numbers of a data frame of cuDF on the device, missing values as NaN.

    Columns are read through the array interface, or, with missing values, by ``to_cupy``.

    Parameters
    ----------
    frame : cudf.DataFrame
        With at least one row and one column of floats, integers or booleans.
    name : str
        Name of the frame in error messages.

    Returns
    -------
    array, shape (n_rows, n_columns)
        float32 if that holds every column exactly, else float64, as of frames of the host.

    Raises
    ------
    ValueError
        A column, which is named, holds anything but numbers.
    """
    columns = [frame[label] for label in frame.columns]
    for label, column in zip(frame.columns, columns, strict=True):
        if getattr(column.dtype, "kind", "O") not in "biuf":
            raise ValueError(
                f"{name} must hold numbers, but its column {label!r} has dtype {column.dtype}. "
                "Fit with the column named in categorical_features, encode it as numbers, or drop "
                "it."
            )
    values = [_values_of(column, device) for column in columns]
    dtype = np.result_type(*map(_float_for, columns, values))
    table = device.xp.empty(tuple(frame.shape)[::-1], dtype=dtype).T
    for position, column in enumerate(values):
        if column.dtype.kind in "iu":
            require_exact(column, f"{name}'s column {frame.columns[position]!r}")
        table[:, position] = column
    return table


def _values_of(column: Any, device: Device) -> Array:
    if column.null_count:
        return device.asarray(column.astype("float64").to_cupy(na_value=np.nan))
    return device.asarray(column)


def _float_for(column: Any, values: Array) -> type:
    """Return the float type that holds a column exactly (float64 where none does)."""
    kind, size = column.dtype.kind, column.dtype.itemsize
    if kind == "b" or size <= 2 or column.null_count == len(column):
        return np.float32
    if kind == "f":
        return np.float32 if size == 4 else np.float64
    known = values[values == values]
    fits = -EXACT_IN_FLOAT32 <= float(known.min()) and float(known.max()) <= EXACT_IN_FLOAT32
    return np.float32 if fits else np.float64
