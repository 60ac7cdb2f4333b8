"""What each member of a fitted ensemble predicts."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.utils.validation import check_is_fitted

from ..bagging.base import Bagging
from ..devices.placement import Device, to_numpy
from ..inputs.arrays import resolve_device, to_input_library
from ..inputs.categories import read_features
from ..members.fitting import device_for, input_tags
from ..members.fitting import read_features as read_for_members
from ..trees.cart import CartEstimator


def member_predictions(ensemble: Any, X: Any) -> Any:
    """What each member of an ensemble predicts for each row.

    Parameters
    ----------
    ensemble : fitted classifier or regressor
        A forest or a bag, or another estimator with a list of fitted ``estimators_`` that
        predict the target, such as scikit-learn's forests, bagging, voting and AdaBoost. Trees
        of gradient boosting predict what is left of the target, so they cannot be compared.
    X : array or data frame, shape (n_rows, n_features)

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


def _of_trees(forest: Any, X: Any) -> Any:
    """From the leaves of all trees at once; a leaf's label is looked up, not computed by row."""
    device = resolve_device(forest.device, X)
    with forest._working_on(device):
        values = read_features(X, device, estimator=forest, reset=False).values
        trees = forest.forest_
        node = trees.apply(values, device) + device.asarray(trees.offset[:-1])
        if is_regressor(forest):
            return to_input_library(device.asarray(trees.value[:, 0])[node], X)
        best = trees.value.argmax(axis=1)
        return _labels(forest.classes_, device.asarray(best)[node], device, X)


def _of_members(ensemble: Any, members: list[Any], X: Any) -> Any:
    every = np.arange(ensemble.n_features_in_)
    features = getattr(ensemble, "estimators_features_", [every] * len(members))
    device = device_for(members[0], getattr(ensemble, "device", "auto"), X)
    with device.active():
        table = X
        if not hasattr(members[0], "feature_names_in_"):
            sparse = input_tags(members[0]).sparse
            table = read_for_members(X, device, estimator=ensemble, reset=False, sparse=sparse)
        answers = [
            member.predict(table if columns.size == every.size and (columns == every).all()
                           else table[:, columns])
            for member, columns in zip(members, features, strict=True)
        ]  # fmt: skip
        if is_regressor(ensemble):
            columns = [device.asarray(a, np.float64).reshape(-1) for a in answers]
            return to_input_library(device.xp.stack(columns, axis=1), X)
        if _predict_numbers(ensemble, members):
            codes = [device.asarray(a).astype(np.int64) for a in answers]
            return _labels(ensemble.classes_, device.xp.stack(codes, axis=1), device, X)
        return to_input_library(np.stack([to_numpy(a) for a in answers], axis=1), X)


def _predict_numbers(ensemble: Any, members: list[Any]) -> bool:
    """Whether the members predict positions in the ensemble's ``classes_``, not the labels."""
    if isinstance(ensemble, Bagging):
        return True
    known = np.asarray(ensemble.classes_).tolist()
    found = {label for member in members for label in np.asarray(member.classes_).tolist()}
    return not found <= set(known)


def _labels(classes: np.ndarray, codes: Any, device: Device, X: Any) -> Any:
    if classes.dtype.kind in "biuf":
        return to_input_library(device.asarray(classes)[codes], X)
    return classes[to_numpy(codes)]
