"""Predictions of several models for the same rows, on which diversity is measured."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from types import ModuleType
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj
from sklearn.base import is_classifier, is_regressor
from sklearn.utils.validation import check_is_fitted

from ..bagging.base import Bagging
from ..devices.placement import Device, gpu_of, to_numpy
from ..inputs.arrays import is_frame, require_readable, to_input_library
from ..inputs.categories import read_features
from ..inputs.labels import as_classes, encode_objects
from ..inputs.targets import array_of
from ..kernels.runtime.arrays import Array
from ..members.fitting import columns_of, device_for, input_tags, prediction_work_of
from ..members.fitting import read_features as read_for_members
from ..trees.cart import CartEstimator

EXACT_ROWS = 2**22
"""Rows whose matrix product is summed at once: float32 counts exactly up to 2**24."""


def on_its_gpu(measure: Callable[..., Any]) -> Callable[..., Any]:
    """Let a measure work on the GPU that holds its first argument or X, whichever is current."""

    @wraps(measure)
    def placed(*args: Any, **settings: Any) -> Any:
        given = (*args[:1], *map(settings.get, ("predictions", "matrix", "X")))
        gpu = next((gpu for gpu in map(gpu_of, given) if gpu is not None), None)
        with nullcontext() if gpu is None else Device("cuda", gpu).active():
            return measure(*args, **settings)

    return placed


class Counts(NamedTuple):
    """Counts of rows on which two models are right or wrong (Kuncheva and Whitaker 2003, table 1),
    as float64 matrices of all pairs: both are right, only the one of the matrix row, only that of
    the column, and none. They sum up to ``n_rows`` everywhere."""

    both: Array
    first: Array
    second: Array
    neither: Array
    n_rows: int


def read_correct(predictions: Any, y: Any, X: Any) -> Array:
    """Return where models are right: bool, shape (n_rows, n_models). Without ``y`` predictions are
    zeros and ones that say it; an ensemble predicts X. Raises a ValueError if y does not fit the
    predictions, or is None although they hold other values; see also ``read_predictions``."""
    if y is None and X is not None:
        raise ValueError(
            "y is None: the members' predictions for X are right or wrong only beside the true "
            "labels. Pass y."
        )
    labels = read_predictions(predictions, X)
    xp = array_namespace(labels)
    if y is None:
        return _read_oracle(labels, xp)
    truth = _beside(y, labels, xp)
    if truth.shape != labels.shape[:1]:
        raise ValueError(
            f"y has the shape {tuple(truth.shape)} and the predictions {tuple(labels.shape)}: pass "
            f"one label for each of the {labels.shape[0]} rows."
        )
    _require_no_missing(truth, "y", xp)
    if _is_text(truth) != _is_text(labels):
        kinds = ("text", "numbers") if _is_text(truth) else ("numbers", "text")
        raise ValueError(
            f"y holds {kinds[0]}, the predictions hold {kinds[1]}, so that none could be right. "
            "Pass labels of one type."
        )
    return labels == truth[:, None]


def read_predictions(predictions: Any, X: Any = None) -> Array:
    """Return the predictions of at least two models, (n_rows, n_models), or those of an ensemble's
    members for X. Raises a ValueError if they are not a matrix, or have no rows or a missing value,
    and for an ensemble without X, or predictions with one."""
    if hasattr(predictions, "predict"):
        if X is None:
            raise ValueError(
                f"X is None: pass the rows that the members of {type(predictions).__name__} "
                "predict."
            )
        predictions = member_predictions(predictions, X)
    elif X is not None:
        raise ValueError(
            "X was passed beside predictions; it is needed only with a fitted ensemble in their "
            "place. Leave one of the two out."
        )
    values = _as_array(predictions, "predictions")
    if values.ndim != 2:
        raise ValueError(
            "predictions must have the shape (n_rows, n_models), a column for each model, got "
            f"{tuple(values.shape)}."
        )
    n_rows, n_models = values.shape
    if n_rows == 0:
        raise ValueError("predictions have no rows: pass at least one.")
    if n_models < 2:
        raise ValueError(
            f"predictions are of {n_models} model(s), but diversity is between models: pass at "
            "least two columns."
        )
    _require_no_missing(values, "predictions", array_namespace(values))
    return values


def pair_counts(correct: Array) -> Counts:
    """Count the four outcomes of every pair of models (n_rows, n_models), by one matrix product."""
    xp = array_namespace(correct)
    n_rows, n_models = correct.shape
    both = joint_counts(correct)
    right = xp.sum(both * xp.eye(n_models, dtype=xp.float64, device=device(correct)), axis=0)
    first, second = right[:, None] - both, right[None, :] - both
    return Counts(both, first, second, n_rows - both - first - second, n_rows)


def joint_counts(marked: Array) -> Array:
    """Count the rows in which two columns are both marked, float64 (n_columns, n_columns). Products
    of zeros and ones are exact in float32, and so are their sums over up to 2**24 rows."""
    xp = array_namespace(marked)
    total: Any = 0.0
    for first in range(0, marked.shape[0], EXACT_ROWS):
        last = min(first + EXACT_ROWS, marked.shape[0])
        part = xp.astype(marked[first:last, :], xp.float32)
        total = total + xp.astype(xp.matmul(part.T, part), xp.float64)
    return total


def label_numbers(predictions: Array) -> tuple[Array, int]:
    """Number the labels from 0 (int64, same shape), and return how many there are."""
    xp = array_namespace(predictions)
    if _is_text(predictions):
        values, numbers = encode_objects(predictions.ravel(), "predictions")
        return numbers.reshape(predictions.shape), len(values)
    found = xp.unique_inverse(predictions)
    return xp.reshape(found.inverse_indices, predictions.shape), found.values.shape[0]


def real_numbers(predictions: Array) -> Array:
    """Return predictions of a regression as float64. Raises a ValueError if they are not numbers,
    or infinite."""
    xp = array_namespace(predictions)
    if _is_text(predictions):
        raise ValueError(
            f"predictions must be numbers for a regression, got dtype {predictions.dtype}."
        )
    values = xp.astype(predictions, xp.float64)
    if not bool(xp.all(xp.isfinite(values))):
        raise ValueError("predictions hold infinite values: leave those rows or models out.")
    return values


def real_target(y: Any, predictions: Array) -> Array:
    """Return the target of a regression as float64, in the library of its predictions. Raises a
    ValueError if it is not a column of finite numbers, one for each row of the predictions."""
    xp = array_namespace(predictions)
    truth = _beside(y, predictions, xp)
    if truth.shape != predictions.shape[:1]:
        raise ValueError(
            f"y has the shape {tuple(truth.shape)} and the predictions {tuple(predictions.shape)}: "
            f"pass one number for each of the {predictions.shape[0]} rows."
        )
    if _is_text(truth):
        raise ValueError(f"y must hold numbers for a regression, got dtype {truth.dtype}.")
    truth = xp.astype(truth, xp.float64)
    if not bool(xp.all(xp.isfinite(truth))):
        raise ValueError("y holds NaN or infinite values: leave those rows out.")
    return truth


def _read_oracle(labels: Array, xp: ModuleType) -> Array:
    if not _is_text(labels) and xp.isdtype(labels.dtype, "bool"):
        return labels
    if _is_text(labels) or not bool(xp.all((labels == 0) | (labels == 1))):
        raise ValueError(
            "y is None, so predictions must say where each model is right: booleans, or zeros and "
            "ones. Pass y for labels."
        )
    return labels == 1


def _as_array(values: Any, name: str) -> Array:
    if is_frame(values):
        values = nw.from_native(values, eager_only=True).to_numpy()
    require_readable(values, name)
    array = values if is_array_api_obj(values) else array_of(values)
    if getattr(array.dtype, "kind", "") not in ("O", "U", "T"):
        return array
    numbers = as_classes(array.astype(object).ravel())  # numbers among objects are none
    return numbers.reshape(array.shape)


def _beside(y: Any, predictions: Array, xp: ModuleType) -> Array:
    """Return labels in the library and on the device of the predictions."""
    y = _as_array(array_of(y) if hasattr(y, "to_numpy") else y, "y")
    homes = gpu_of(y), gpu_of(predictions)
    if None not in homes and homes[0] != homes[1]:
        raise ValueError(
            f"y is on GPU {homes[0]}, the predictions are on GPU {homes[1]}. Copy them to the same "
            "one."
        )
    if array_namespace(y) is xp and homes[0] == homes[1]:
        return y
    host = to_numpy(y) if homes[0] is not None else np.asarray(y)
    if _is_text(host) or isinstance(predictions, np.ndarray):
        return host
    return xp.asarray(host, device=device(predictions))


def _is_text(values: Array) -> bool:
    return getattr(values.dtype, "kind", "") == "O"


def _require_no_missing(values: Array, name: str, xp: ModuleType) -> None:
    if _is_text(values):
        missing = any(v is None or v != v for v in values.ravel().tolist())
    else:
        missing = xp.isdtype(values.dtype, "real floating") and bool(xp.any(xp.isnan(values)))
    if missing:
        raise ValueError(f"There is NaN or None in {name}: leave those rows out.")


def member_predictions(ensemble: Any, X: Any) -> Array:
    """Return what each member of an ensemble predicts for each row.

    Parameters
    ----------
    ensemble : fitted classifier or regressor
        A forest or a bag, or another estimator with a list of fitted ``estimators_`` that
        predict the target, such as scikit-learn's forests, bagging, voting and AdaBoost. Trees
        of gradient boosting predict what is left of the target, so they cannot be compared.
    X : array or data frame, shape (n_rows, n_features)
        The rows to predict.

    Returns
    -------
    array, shape (n_rows, n_models)
        Labels, or float64 numbers; in the library and on the device of X (labels that are text:
        NumPy).

    Raises
    ------
    ValueError, TypeError
        The ensemble has no such members, predicts several outputs, or cannot read X.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuens import RandomForestClassifier
    >>> from gpuens.diversity import member_predictions
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(n_estimators=5, device="cpu").fit(X, y)
    >>> member_predictions(forest, X).shape
    (150, 5)
    """
    check_is_fitted(ensemble)
    if not (is_classifier(ensemble) or is_regressor(ensemble)):
        raise TypeError(
            f"{type(ensemble).__name__} is neither a classifier nor a regressor: its members have "
            "no predictions of a target to compare."
        )
    if getattr(ensemble, "n_outputs_", 1) > 1:
        raise ValueError(
            f"{type(ensemble).__name__} predicts {ensemble.n_outputs_} outputs: pass the members' "
            "predictions of one of them as an array."
        )
    if isinstance(ensemble, CartEstimator):
        return _of_trees(ensemble, X)
    members = getattr(ensemble, "estimators_", None)
    if not isinstance(members, list) or not all(hasattr(m, "predict") for m in members):
        raise TypeError(
            f"{type(ensemble).__name__} has no list estimators_ of models that predict the target. "
            "Pass the models' predictions as an array of shape (n_rows, n_models)."
        )
    return _of_members(ensemble, members, X)


def _of_trees(forest: Any, X: Any) -> Array:
    """Look up the predictions of all trees by their leaves, one label a leaf."""
    device = forest._device_to_predict(X)
    with forest._working_on(device):
        values = read_features(X, device, estimator=forest, reset=False)
        trees = forest.forest_
        node = trees.apply(values, device) + device.asarray(trees.offset[:-1])
        if is_regressor(forest):
            return to_input_library(device.asarray(trees.value[:, 0])[node], X)
        best = trees.value.argmax(axis=1)
        return _labels(forest.classes_, device.asarray(best)[node], device, X)


def _of_members(ensemble: Any, members: list[Any], X: Any) -> Array:
    every = np.arange(ensemble.n_features_in_)
    features = getattr(ensemble, "estimators_features_", [every] * len(members))
    work = prediction_work_of(members, X)
    device = device_for(members[0], getattr(ensemble, "device", "auto"), X, work=work)
    with device.active():
        table = X
        if hasattr(ensemble, "_passes_frames") or not hasattr(members[0], "feature_names_in_"):
            sparse = input_tags(members[0]).sparse
            table = read_for_members(X, device, estimator=ensemble, reset=False, sparse=sparse)
        answers = [
            member.predict(table if columns is every else columns_of(table, columns))
            for member, columns in zip(members, features, strict=True)
        ]
        if is_regressor(ensemble):
            columns = [device.asarray(a, np.float64).reshape(-1) for a in answers]
            return to_input_library(device.xp.stack(columns, axis=1), X)
        if _predict_numbers(ensemble, members):
            codes = [device.asarray(a).astype(np.int64) for a in answers]
            return _labels(ensemble.classes_, device.xp.stack(codes, axis=1), device, X)
        return to_input_library(np.stack([to_numpy(a) for a in answers], axis=1), X)


def _predict_numbers(ensemble: Any, members: list[Any]) -> bool:
    """Return whether the members predict positions in the ensemble's ``classes_`` instead of
    labels."""
    if isinstance(ensemble, Bagging):
        return True
    for member in members:
        if not hasattr(member, "classes_"):
            raise TypeError(
                f"The members of {type(ensemble).__name__} do not predict classes: one is "
                f"{type(member).__name__}. Pass predictions of classifiers as an array of shape "
                "(n_rows, n_models)."
            )
    known = np.asarray(ensemble.classes_).tolist()
    found = {label for member in members for label in np.asarray(member.classes_).tolist()}
    return not found <= set(known)


def _labels(classes: np.ndarray, codes: Array, device: Device, X: Any) -> Array:
    if classes.dtype.kind in "biuf":
        return to_input_library(device.asarray(classes)[codes], X)
    return classes[to_numpy(codes)]
