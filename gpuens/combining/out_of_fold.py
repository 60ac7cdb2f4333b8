"""Predictions for each row by the model that was not trained on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier

from ..devices.placement import CPU, module_of, on_host, to_numpy
from ..estimators.nothing_learned import warn_user
from ..inputs.labels import Labels, places_among, read_labels
from ..inputs.targets import columns_of
from ..members.classes import common_classes
from .folds import require_classes

METHODS = "predict", "predict_proba", "predict_log_proba", "decision_function"


def check_method(method: Any, estimators: Sequence[BaseEstimator], folds: Any) -> None:
    """Raise a ValueError unless all estimators have a method for rows that are held out."""
    if folds is None:
        raise ValueError(
            f"method={method!r} predicts the rows that folds hold out: pass folds too."
        )
    for estimator in estimators:
        # a stack of scikit-learn may know none of its methods before its fit
        known = estimator if hasattr(estimator, "predict") else type(estimator)
        if method not in METHODS or not hasattr(known, method):
            own = [name for name in METHODS if hasattr(known, name)]
            kind = type(estimator).__name__
            raise ValueError(f"method must be one of {own} for this {kind}, got {method!r}.")


def check_decisions(trains: Sequence[Any], y: Any, estimators: Sequence[BaseEstimator]) -> None:
    """Raise a ValueError if rows to train on lack classes: decision functions have no column that
    could stand for one."""
    if y is None or not any(map(is_classifier, estimators)):
        return
    labels, *others = labels_of_outputs(y, estimators[0])
    codes = to_numpy(labels.codes)
    for k, train in enumerate(() if others else trains):
        require_classes(train, codes, labels.classes, f"to train on in fold {k}")


def labels_of_outputs(y: Any, estimator: Any) -> list[Labels]:
    """Return the labels of each output, on the host."""
    columns = columns_of(on_host(y))
    return [read_labels(each, len(each), CPU, estimator=estimator) for each in columns]


def order_of(tests: Sequence[Any], n_rows: int) -> np.ndarray:
    """Return the position of each row in what the folds predict, one fold after another. Raises a
    ValueError unless every row is held out once."""
    try:
        asked = np.concatenate([np.arange(n_rows)[on_host(test)] for test in tests])
    except IndexError as error:
        raise ValueError(
            f"folds must hold out rows of X, which has {n_rows}, by their numbers or by a mask of "
            f"all: {error}."
        ) from error
    counts = np.bincount(asked, minlength=n_rows)
    if (counts != 1).any():
        row = int((counts != 1).argmax())
        raise ValueError(
            f"method needs folds that hold out every row once, but row {row} is held out "
            f"{counts[row]} times. Choose other folds, or leave method at None."
        )
    return np.argsort(asked)


def in_order(
    models: Sequence[Any], tables: Sequence[Any], y: Any, method: str, order: np.ndarray
) -> Any:
    """Return the predictions of each model for its rows, in the order of all rows; a list of them
    for a target of several columns of classes."""
    found = [getattr(model, method)(X) for model, X in zip(models, tables, strict=True)]
    if method == "decision_function":
        common_classes([(f"fold {k}", model) for k, model in enumerate(models)])
    elif method != "predict" and y is not None and hasattr(models[0], "classes_"):
        found = _with_all_classes(found, models, y, is_log=method == "predict_log_proba")
    if isinstance(found[0], list):
        return [_joined(parts, order) for parts in zip(*found, strict=True)]
    return _joined(found, order)


def _joined(parts: Sequence[Any], order: np.ndarray) -> Any:
    xp = module_of(parts[0])
    return xp.concat(list(parts))[xp.asarray(order)]


def _with_all_classes(found: list[Any], models: Sequence[Any], y: Any, is_log: bool) -> list[Any]:
    """Give probabilities a column for each class of y that the rows of a fold lack, of zeros or the
    least logarithm, and warn of it."""
    columns = labels_of_outputs(y, models[0])
    several = isinstance(found[0], list)
    if not several == isinstance(models[0].classes_, list) == (len(columns) > 1):
        return found  # y has a column for each class
    lacking, filled = [], []
    for k, (model, parts) in enumerate(zip(models, found, strict=True)):
        known = model.classes_ if several else [model.classes_]
        places = [
            places_among(to_numpy(own), all_of.classes)
            for own, all_of in zip(known, columns, strict=True)
        ]
        lacking += [k] if any((at < 0).any() for at in places) else []
        outputs = zip(parts if several else [parts], places, strict=True)
        spread = [_spread(part, at, is_log) for part, at in outputs]
        filled.append(spread if several else spread[0])
    if lacking:
        warn_user(
            f"The training rows of the folds {lacking} lack classes, whose probabilities are 0 "
            "there. Choose folds with all classes (sklearn.model_selection.StratifiedKFold).",
            RuntimeWarning,
        )
    return filled


def _spread(part: Any, places: np.ndarray, is_log: bool) -> Any:
    """Return the columns at these places; -1 is one of zeros, or of the least logarithm."""
    if np.array_equal(places, np.arange(part.shape[1])):
        return part
    xp = module_of(part)
    missing = xp.zeros_like(part[:, :1]) + (float(xp.finfo(part.dtype).min) if is_log else 0.0)
    columns = [missing if at < 0 else part[:, at : at + 1] for at in places.tolist()]
    return xp.concat(columns, axis=1)
