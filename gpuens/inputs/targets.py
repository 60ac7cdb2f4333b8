"""Targets and weights of the rows, and the columns that they are read from.

Readers are called inside ``device.active()``, like ``read_table``.
"""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import check_array, column_or_1d

from ..devices.placement import (
    Device,
    home_of,
    is_gpu_frame,
    module_of,
    on_host,
    to_numpy,
)
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import ONE_WORKER, Workers, largest_of_all
from .frames import EXACT_IN_FLOAT64, is_missing

TINY_WEIGHT = 1e-10
"""Weights that are all below this are scaled: their hessians add up to less than any bound."""
NO_TARGET = "Drop these rows, or fill in their targets."


def read_target(y: Any, n_rows: int, device: Device, *, estimator: Any, name: str = "y") -> Any:
    """Read the target of a regression.

    Parameters
    ----------
    y : array, shape (n_rows,)
        A single column is accepted with a DataConversionWarning.
    n_rows : int
        Of the table.
    device, estimator, name
        As for ``read_table``.

    Returns
    -------
    float64, shape (n_rows,), contiguous, on the device

    Raises
    ------
    ValueError
        y is None, not numeric, of the wrong shape or length, or holds NaN or infinity.
    """
    y = read_column(y, n_rows, device, estimator, name)
    if y.dtype.kind not in "fiub":
        y = _as_numbers(y, name)
    y = home_of(y, device).asarray(y, np.float64, order="C")
    require_finite(y, name, NO_TARGET)  # on the host if y is there: CuPy compiles what it computes
    return device.asarray(_writeable(y))


def read_sample_weight(
    sample_weight: Any,
    n_rows: int,
    device: Device,
    *,
    name: str = "sample_weight",
    workers: Workers = ONE_WORKER,
) -> Any:
    """Read the weights of the rows.

    Parameters
    ----------
    sample_weight : array of shape (n_rows,), number or None
    n_rows : int
        Of the table.
    device, name
        As for ``read_table``.

    Returns
    -------
    float64, shape (n_rows,), contiguous, on the device; or None if that was passed

    Raises
    ------
    ValueError
        A weight is negative, NaN or infinite, all are zero, or shape or length are wrong.
    """
    if sample_weight is None:
        return None
    if isinstance(sample_weight, numbers.Real):
        sample_weight = np.full(n_rows, float(sample_weight))
    if not device.holds(sample_weight):
        sample_weight = _weights_on_host(sample_weight, name)
    if tuple(sample_weight.shape) != (n_rows,):
        raise ValueError(
            f"{name} must hold one weight for each of the {n_rows} rows of X: {name}.shape == "
            f"{tuple(sample_weight.shape)}, expected ({n_rows},)."
        )
    _require_no_nulls(sample_weight, name)
    weight = device.asarray(sample_weight, np.float64, order="C")
    require_finite(
        weight, name, "Give these rows the weight 0, which leaves them out, or drop them."
    )
    smallest, largest = (float(weight.min()), float(weight.max())) if n_rows else (0.0, 0.0)
    if smallest < 0:
        raise ValueError(
            f"Negative values in data passed to `{name}`: the smallest is {smallest}. Weights "
            "must be zero (the row is ignored) or positive."
        )
    if largest_of_all(largest, workers) == 0:
        raise ValueError(f"{name} is zero for every row; at least one must be positive.")
    return _writeable(weight)


def _writeable(values: Array) -> Array:
    """Return an array, or a copy of one that is read-only, as columns of pandas are: kernels are
    compiled ahead for those that are not, and nothing writes to either."""
    is_fixed = isinstance(values, np.ndarray) and not values.flags.writeable
    return values.copy() if is_fixed else values


def _as_numbers(y: np.ndarray, name: str) -> np.ndarray:
    """Return objects (such as decimals and fractions) as float64."""
    if y.dtype.kind == "O":
        require_present(y, name, NO_TARGET)
    try:
        if y.dtype.kind in "mM":  # NumPy would count them in whatever unit they have
            raise TypeError("dates and spans of time have no number without a unit")
        return y.astype(np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must hold numbers for a regression, got dtype {y.dtype} ({error}). "
            "Convert it, or use a classifier."
        ) from error


def read_column(y: Any, n_rows: int, device: Device, estimator: Any, name: str) -> Any:
    """Return one value a row, in a type that holds each as it is; on the device only if it was
    there."""
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires {name} to be passed, but the "
            f"target {name} is None."
        )
    y = column_or_1d(y, warn=True) if type(y) is np.ndarray else _column_of(y, device, name)
    if y.dtype.kind == "c":
        raise ValueError(f"Complex data not supported\n{name} has dtype {y.dtype}.")
    if len(y) != n_rows:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: {name} has {len(y)} "
            f"values, X has {n_rows} rows. Pass one value for each row."
        )
    return y


def _column_of(y: Any, device: Device, name: str) -> Any:
    """Return the column that something other than an array of NumPy holds, as ``read_column``."""
    if is_gpu_frame(y):
        _require_no_nulls(y, name)
        is_number = getattr(getattr(y, "dtype", None), "kind", "O") in "biuf"
        y = y if is_number else on_host(y)  # arrays of a GPU hold numbers alone
    if device.holds(y):
        return _column_on_device(device.asarray(y), name)
    shape_of(y, name)
    return column_or_1d(y if issparse(y) else array_of(y), warn=True)


def array_of(values: Any) -> np.ndarray:
    """Return values of any library as a NumPy array in which each is what it was.

    NumPy alone rounds large integers of a list that holds a float, makes text of NaN beside text,
    cuts zeros off the end of text, and shows what a mask hides.
    """
    values = on_host(values)
    if isinstance(values, np.ma.MaskedArray):
        shown = np.asarray(values)
        return _without_hidden(shown, values.mask) if np.ma.is_masked(values) else shown
    if str(getattr(values, "dtype", "")).endswith("nt128"):
        return np.array(values.to_list(), object)  # NumPy has no such integers
    array = np.asarray(values)
    is_text = array.dtype.kind == "U" and hasattr(values, "to_list")
    if array.dtype.kind in "biucmMO" or (hasattr(values, "__array__") and not is_text):
        return array
    if array.dtype.kind == "f":
        may_be_rounded = ~(abs(array) < EXACT_IN_FLOAT64)
        if not may_be_rounded.any():
            return array
    objects = np.array(values.to_list() if is_text else values, object)
    if array.dtype.kind == "f":
        large = objects[may_be_rounded].tolist()
        is_same = all(isinstance(value, (float, np.floating)) for value in large)
    else:
        is_same = array.dtype.kind in "US" and array.tolist() == objects.tolist()
        is_same |= array.dtype.kind == "U" and isinstance(values, list) and _mixes_text(values)
    return array if is_same else objects


def _mixes_text(values: list[Any]) -> bool:
    """Return whether a list has numbers beside text that stay apart where all becomes text, as
    scikit-learn reads it: ``["a", 1]``, but not ``["1", 1]`` or ``["a", nan]``."""
    if all(isinstance(value, str) for value in values):
        return False
    if not all(isinstance(value, (str, numbers.Real)) and value == value for value in values):
        return False
    return len(set(map(str, values))) == len(set(values))


def _without_hidden(values: np.ndarray, is_hidden: Any) -> np.ndarray:
    """Return values as objects, None where a mask hides them."""
    objects = values.astype(object)
    objects[is_hidden] = None
    return objects


def _require_no_nulls(column: Any, name: str) -> None:
    """Raise a ValueError for missing values of a column of cuDF, which no array can hold."""
    if is_gpu_frame(column) and column.null_count:
        raise ValueError(
            f"Input {name} contains NaN or None: {column.null_count} values of the column are "
            "missing. Drop those rows."
        )


def _weights_on_host(weights: Any, name: str) -> np.ndarray:
    try:
        return check_array(
            on_host(weights),
            dtype=np.float64,
            ensure_2d=False,
            allow_nd=True,
            ensure_all_finite=False,
            ensure_min_samples=0,
            input_name=name,
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers, one for each row; got {error}") from error


def _column_on_device(y: Array, name: str) -> Array:
    """Check the shape as scikit-learn's ``column_or_1d`` does, with its messages."""
    if y.ndim == 1:
        return y
    if y.ndim != 2 or y.shape[1] != 1:
        raise ValueError(f"{name} should be a 1d array, got an array of shape {y.shape} instead.")
    warnings.warn(
        f"A column-vector {name} was passed when a 1d array was expected. Please change the shape "
        f"of {name} to (n_samples, ), for example using ravel().",
        DataConversionWarning,
        stacklevel=5,
    )
    return y[:, 0]


def require_finite(values: Array, name: str, remedy: str) -> None:
    """Raise a ValueError for NaN and infinity that counts them, names the first row and ends with
    what to do."""
    # By the two ends, which are NaN where a value is: CuPy has to compile ``isfinite`` first.
    if not values.size or (float(values.max()) < np.inf and float(values.min()) > -np.inf):
        return
    xp = module_of(values)
    for what, is_bad in (("NaN", xp.isnan(values)), ("infinity", xp.isinf(values))):
        if is_bad.any():
            raise ValueError(f"Input {name} contains {what}: {found_in(is_bad)}. {remedy}")


def require_finite_table(X: Any, name: str, remedy: str) -> None:
    """Raise a ValueError as ``require_finite`` does, also for a table of objects and for the
    entries of a sparse one."""
    if issparse(X):
        entries = X.tocoo()
        is_bad = ~np.isfinite(entries.data)
        if is_bad.any():
            raise ValueError(
                f"Input {name} contains NaN or infinity: {is_bad.sum()} of {is_bad.size} entries, "
                f"the first in row {entries.row[is_bad].min()} (counted from 0). {remedy}"
            )
    elif X.dtype.kind == "O":
        require_present(X, name, remedy)
    else:
        require_finite(X, name, remedy)


def require_present(values: Array, name: str, remedy: str) -> None:
    """Raise a ValueError for missing values among objects, as ``require_finite`` does."""
    missing = np.fromiter(map(is_missing, values.ravel().tolist()), bool, values.size)
    if missing.any():
        where = found_in(missing.reshape(values.shape))
        raise ValueError(f"Input {name} contains NaN or None: {where}. {remedy}")


def found_in(is_bad: Array) -> str:
    """Return how many values of an array (rows first) a mask marks, and where the first one is."""
    first = int(is_bad.ravel().argmax())
    row, column = divmod(first, is_bad.shape[1] if is_bad.ndim > 1 else 1)
    where = f"row {row}, column {column}" if is_bad.ndim > 1 else f"row {row}"
    return f"{int(is_bad.sum())} of {is_bad.size} values, the first in {where} (counted from 0)"


def weights_in_range(weights: Array, workers: Workers) -> Array:
    """Scale weights that are all tiny, by a power of two, so that the largest is about one."""
    largest = largest_of_all(float(weights.max()), workers)
    if largest > TINY_WEIGHT:
        return weights
    exponent = -math.frexp(largest)[1]
    # In two steps: the factor of a subnormal number is too large for float64.
    return weights * 2.0 ** (exponent // 2) * 2.0 ** (exponent - exponent // 2)


def shape_of(y: Any, name: str = "y") -> tuple[int, ...]:
    """Return the shape of a target, which may be a data frame or a list. Raises a ValueError if the
    entries of a list differ in length."""
    if hasattr(y, "shape"):
        return tuple(y.shape)
    try:
        return np.asarray(on_host(y)).shape
    except ValueError as error:
        raise ValueError(
            f"{name} must have a value, or as many as there are outputs, for each row of X; got a "
            f"{type(y).__name__} whose entries differ in length ({error})."
        ) from error


def columns_of(y: Any) -> list[Any]:
    """Return the outputs of a target, one array each."""
    shape = shape_of(y)
    if len(shape) != 2:
        return [y]
    host = on_host(y)
    if issparse(host):
        raise ValueError("sparse multilabel-indicator for y is not supported. Pass y.toarray().")
    if shape[1] == 0:
        raise ValueError(f"y has the shape {shape}, without a single output: pass a column.")
    if hasattr(host, "iloc"):
        return [host.iloc[:, k] for k in range(shape[1])]
    if hasattr(host, "column"):  # pyarrow
        return [host.column(k) for k in range(shape[1])]
    array = y if hasattr(y, "shape") else array_of(y)
    return [array[:, k] for k in range(shape[1])]


def targets_of(
    y: Any, n_outputs: int, n_rows: int, device: Device, *, estimator: Any, name: str
) -> np.ndarray:
    """Return targets for a fitted model, float64 of shape (n_rows, n_outputs), NumPy.

    Raises
    ------
    ValueError
        As ``read_target`` raises, or the number of outputs differs from the model's.
    """
    columns = columns_of(y)
    if len(columns) != n_outputs:
        raise ValueError(
            f"{name} has {len(columns)} outputs, the model was fitted with {n_outputs}."
        )
    targets = [read_target(c, n_rows, device, estimator=estimator, name=name) for c in columns]
    return np.stack([to_numpy(target) for target in targets], axis=1)
