"""Targets, labels and weights of the rows, and the classes of one or several outputs.

Readers are called inside ``device.active()``, like ``read_table``.
"""

from __future__ import annotations

import math
import numbers
import warnings
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import assert_all_finite, check_array, column_or_1d, compute_class_weight

from ..devices.placement import Device, gpu_of, is_gpu_frame, module_of, on_host, to_numpy
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import current_share, largest_of_all
from .few_values import FewValues
from .shared_tables import class_totals

TINY_WEIGHT = 1e-10
"""Weights that are all below this are scaled: their hessians add up to less than any bound."""
_WIDEST_LOOKUP = 2**16
"""Range of integer labels below which a table is cheaper than sorting, however few the rows."""
_EXACT = 2**53
"""Every whole number up to this size is a float64."""


class Labels(NamedTuple):
    """Class labels, ready for the operations.

    classes : ndarray, shape (n_classes,)
        The distinct labels, ascending, as the user wrote them.
    codes : int64 or uint8, shape (n_rows,)
        Their positions in ``classes``, on the device that they were read for.
    """

    classes: np.ndarray
    codes: Array


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
    y = _read_column(y, n_rows, device, estimator, name)
    if y.dtype.kind not in "fiub":
        try:
            y = y.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{name} must hold numbers for a regression, got dtype {y.dtype} ({error}). "
                "Convert it, or use a classifier."
            ) from error
    y = device.asarray(y, np.float64, order="C")
    _require_finite(y, name, estimator)
    return y


def read_labels(
    y: Any, n_rows: int, device: Device, *, estimator: Any, min_classes: int = 1, name: str = "y"
) -> Labels:
    """Read the target of a classification: integers, booleans, strings or whole floats.

    Parameters
    ----------
    y : array or FewValues, shape (n_rows,)
        A single column is accepted with a DataConversionWarning.
    n_rows : int
        Of the table.
    device, estimator, name
        As for ``read_table``.
    min_classes : int
        Fewest classes that the estimator can learn.

    Returns
    -------
    Labels

    Raises
    ------
    ValueError
        y is None, continuous, of the wrong shape or length, has missing values, labels that
        cannot be ordered, or too few classes.
    """
    if isinstance(y, FewValues):
        y = y.present()
        classes, codes = y.values, y.numbers
    else:
        y = _read_column(y, n_rows, device, estimator, name)
        if y.dtype.kind == "f":
            _require_finite(y, name, estimator)
        classes, codes = _encode(y, name)
    if len(classes) < min_classes:
        raise ValueError(
            f"{name} holds {len(classes)} class ({classes[0]} in every row), the number of "
            f"classes must be at least {min_classes}."
        )
    return Labels(classes, device.asarray(codes))


def read_sample_weight(
    sample_weight: Any,
    n_rows: int,
    device: Device,
    *,
    estimator: Any,
    name: str = "sample_weight",
) -> Any:
    """Read the weights of the rows.

    Parameters
    ----------
    sample_weight : array of shape (n_rows,), number or None
    n_rows : int
        Of the table.
    device, estimator, name
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
    _require_finite(weight, name, estimator)
    smallest, largest = (float(weight.min()), float(weight.max())) if n_rows else (0.0, 0.0)
    if smallest < 0:
        raise ValueError(
            f"Negative values in data passed to `{name}`: the smallest is {smallest}. Weights "
            "must be zero (the row is ignored) or positive."
        )
    if largest_of_all(largest) == 0:
        raise ValueError(f"{name} is zero for every row; at least one must be positive.")
    return weight


def _read_column(y: Any, n_rows: int, device: Device, estimator: Any, name: str) -> Any:
    """Return one value a row, in whatever type; on the device only if it was there."""
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires {name} to be passed, but the "
            f"target {name} is None."
        )
    if device.holds(y):
        _require_no_nulls(y, name)
        y = _column_on_device(device.asarray(y), name)
    else:
        shape_of(y, name)
        y = column_or_1d(on_host(y), warn=True)
    if y.dtype.kind == "c":
        raise ValueError(f"Complex data not supported\n{name} has dtype {y.dtype}.")
    if len(y) != n_rows:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: {name} has {len(y)} "
            f"values, X has {n_rows} rows. Pass one value for each row."
        )
    return y


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
        stacklevel=4,
    )
    return y[:, 0]


def _require_finite(values: Array, name: str, estimator: Any) -> None:
    if gpu_of(values) is None:
        with np.errstate(invalid="ignore"):  # the sum of both infinities, which is looked at first
            assert_all_finite(values, estimator_name=type(estimator).__name__, input_name=name)
    elif not bool(abs(values).max() < np.inf):
        raise ValueError(f"Input {name} contains NaN or infinity.")


def _encode(y: Array, name: str) -> tuple[np.ndarray, Array]:
    """Return distinct labels, ascending, and the position of every label among them."""
    if y.dtype.kind in "OUST":
        return _encode_objects(y, name)
    if y.dtype.kind in "mM":
        return _encode_dates(y, name)
    if y.dtype.kind == "V":
        raise ValueError(
            f"Unknown label type: {name} has dtype {y.dtype}, of several fields or none. Use "
            "strings or integers."
        )
    if y.dtype.kind == "f" and not bool((y == y.round()).all()):
        raise ValueError(
            f"Unknown label type: continuous. {name} holds numbers that are not whole; classes "
            "are discrete. Use a regressor, or turn the numbers into classes."
        )
    low, high = y.min().item(), y.max().item()
    if -_EXACT < low and high < _EXACT and high - low < max(len(y), _WIDEST_LOOKUP):
        return _encode_by_table(y.astype(np.int64) - int(low), int(low), y.dtype)
    classes, codes = module_of(y).unique(y, return_inverse=True)
    return to_numpy(classes), codes


def _encode_by_table(y: Array, low: int, dtype: Any) -> tuple[np.ndarray, Array]:
    """Count every integer of the range (from 0, which represents ``low``); no sorting."""
    xp = module_of(y)
    present = xp.bincount(y) > 0
    classes = to_numpy(xp.flatnonzero(present) + low).astype(dtype)
    return classes, (xp.cumsum(present, dtype=np.int64) - 1)[y]


def _encode_dates(y: Array, name: str) -> tuple[np.ndarray, Array]:
    """Sort dates or spans of time, of any unit."""
    xp = module_of(y)
    if xp.isnat(y).any():
        raise ValueError(f"Input {name} contains NaT. Drop the rows without a label.")
    classes, codes = xp.unique(y, return_inverse=True)
    return to_numpy(classes), codes


def _encode_objects(y: Array, name: str) -> tuple[np.ndarray, Array]:
    """Hash every label; only the distinct ones are sorted."""
    labels = y.tolist()
    try:
        distinct = set(labels)
    except TypeError as error:
        raise ValueError(
            f"Unknown label type: {name} holds {error}. Use strings or integers."
        ) from error
    if any(_is_missing(label) for label in distinct):
        raise ValueError(f"Input {name} contains NaN or None. Drop the rows without a label.")
    if all(isinstance(label, numbers.Real) for label in distinct):
        return _encode(np.asarray(labels), name)
    try:
        ordered = sorted(distinct)
    except TypeError as error:
        types = sorted({type(label).__name__ for label in distinct})
        raise ValueError(
            f"Unknown label type: {name} mixes labels of the types {types}, which have no order. "
            "Use strings or integers throughout."
        ) from error
    position = {label: code for code, label in enumerate(ordered)}
    codes = np.fromiter((position[label] for label in labels), np.int64, len(labels))
    classes = np.empty(len(ordered), y.dtype)
    classes[:] = ordered
    return classes, codes


def _is_missing(label: Any) -> bool:
    return label is None or type(label).__name__ == "NAType" or (
        isinstance(label, float) and label != label
    )  # fmt: skip


def weights_in_range(weights: Array) -> Array:
    """Scale weights that are all tiny, by a power of two, so that the largest is about one."""
    largest = largest_of_all(float(weights.max()))
    if largest > TINY_WEIGHT:
        return weights
    exponent = -math.frexp(largest)[1]
    # In two steps: the factor of a subnormal number is too large for float64.
    return weights * 2.0 ** (exponent // 2) * 2.0 ** (exponent - exponent // 2)


def class_factors(
    class_weight: Any, classes: np.ndarray, codes: np.ndarray, weight: np.ndarray | None
) -> np.ndarray:
    """Return the factor of each class.

    Parameters
    ----------
    class_weight : dict or "balanced"
        "balanced" gives every class that occurs the same sum of weights, and leaves their
        total as it is. (scikit-learn's trees count rows here, whatever their weights.)
    classes : ndarray, shape (n_classes,)
    codes : int64, shape (n_rows,)
        Class numbers of the rows.
    weight : float64, shape (n_rows,), or None

    Returns
    -------
    float64, shape (n_classes,)

    Raises
    ------
    ValueError
        A key of the dict is not a class.
    """
    share = current_share()
    if share is None:
        total = np.bincount(codes, weight, minlength=len(classes)).astype(np.float64)
    else:
        total = class_totals(codes, weight, len(classes), share)
    occurs = np.flatnonzero(total)
    factors = np.ones(len(classes))
    if isinstance(class_weight, dict):
        factors[occurs] = compute_class_weight(
            class_weight, classes=classes[occurs], y=classes[occurs]
        )
    else:
        factors[occurs] = total.sum() / (occurs.size * total[occurs])
    return factors


def shape_of(y: Any, name: str = "y") -> tuple[int, ...]:
    """Return the shape of a target, which may be a data frame or a list.

    Raises
    ------
    ValueError
        The entries of a list differ in length.
    """
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
    host, shape = on_host(y), shape_of(y)
    if len(shape) != 2:
        return [y]
    if issparse(host):
        raise ValueError("sparse multilabel-indicator for y is not supported. Pass y.toarray().")
    if shape[1] == 0:
        raise ValueError(f"y has the shape {shape}, without a single output: pass a column.")
    if hasattr(host, "iloc"):
        return [host.iloc[:, k] for k in range(shape[1])]
    if hasattr(host, "column"):  # pyarrow
        return [host.column(k) for k in range(shape[1])]
    array = y if hasattr(y, "shape") else np.asarray(y)
    return [array[:, k] for k in range(shape[1])]


def class_numbers(
    y: Any, known: list[np.ndarray], n_rows: int, device: Device, *, estimator: Any, name: str
) -> np.ndarray:
    """Return labels as class numbers of a fitted model.

    Parameters
    ----------
    y : array, shape (n_rows,) or (n_rows, n_outputs)
    known : list of ndarray
        The classes of each output.
    n_rows, device, estimator, name
        As for ``read_labels``.

    Returns
    -------
    int64, shape (n_rows, n_outputs), NumPy
        -1 for a label that the model does not know.

    Raises
    ------
    ValueError
        As ``read_labels`` raises, or the number of outputs differs from the model's.
    """
    columns = columns_of(y)
    if len(columns) != len(known):
        raise ValueError(
            f"{name} has {len(columns)} outputs, the model was fitted with {len(known)}."
        )
    numbers = []
    for column, classes in zip(columns, known, strict=True):
        labels = read_labels(column, n_rows, device, estimator=estimator, name=name)
        number_of = {label: number for number, label in enumerate(classes.tolist())}
        found = [number_of.get(label, -1) for label in labels.classes.tolist()]
        numbers.append(np.array(found, np.int64)[to_numpy(labels.codes)])
    return np.stack(numbers, axis=1)


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


def side_by_side(labels: list[Array], xp: ModuleType) -> Array:
    """Return the labels of several outputs as the columns of a table, those of one as they are."""
    if len(labels) == 1:
        return labels[0]
    if len({label.dtype.kind in "biuf" for label in labels}) > 1:  # text would swallow numbers
        labels = [to_numpy(label).astype(object) for label in labels]
    return (np if isinstance(labels[0], np.ndarray) else xp).stack(labels, axis=1)
