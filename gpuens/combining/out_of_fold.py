"""Predictions for each row by the model that was not trained on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..devices.placement import module_of, on_host, to_numpy
from ..estimators.nothing_learned import warn_user
from ..members.classes import common_classes

METHODS = "predict", "predict_proba", "predict_log_proba", "decision_function"


def check_method(method: Any, estimators: Sequence[BaseEstimator], folds: Any) -> None:
    """Raise a ValueError unless all estimators have a method for rows that are held out."""
    if folds is None:
        raise ValueError(
            f"method={method!r} predicts the rows that folds hold out: pass folds too."
        )
    for kind in map(type, estimators):
        if method not in METHODS or not hasattr(kind, method):
            own = [name for name in METHODS if hasattr(kind, name)]
            raise ValueError(f"method must be one of {own} for {kind.__name__}, got {method!r}.")


def order_of(tests: Sequence[Any], n_rows: int) -> np.ndarray:
    """Return the position of each row in what the folds predict, one fold after another. Raises a
    ValueError unless every row is held out once."""
    asked = np.concatenate([np.arange(n_rows)[on_host(test)] for test in tests])
    counts = np.bincount(asked, minlength=n_rows)
    if (counts != 1).any():
        row = int((counts != 1).argmax())
        raise ValueError(
            f"method needs folds that hold out every row once, but row {row} is held out "
            f"{counts[row]} times. Choose other folds, or leave method at None."
        )
    return np.argsort(asked)


def in_order(models: Sequence[Any], tables: Sequence[Any], method: str, order: np.ndarray) -> Any:
    """Return the predictions of each model for its rows, in the order of all rows; a list of them
    for a target of several columns of classes."""
    found = [getattr(model, method)(X) for model, X in zip(models, tables, strict=True)]
    if method == "predict_proba":
        found = _with_all_classes(found, models)
    elif method != "predict":
        common_classes([(f"fold {k}", model) for k, model in enumerate(models)])
    if isinstance(found[0], list):
        return [_joined(parts, order) for parts in zip(*found, strict=True)]
    return _joined(found, order)


def _joined(parts: Sequence[Any], order: np.ndarray) -> Any:
    xp = module_of(parts[0])
    return xp.concat(list(parts))[xp.asarray(order)]


def _with_all_classes(found: list[Any], models: Sequence[Any]) -> list[Any]:
    """Give probabilities a column of zeros for each class that only other folds have, and warn of
    it."""
    classes = [getattr(model, "classes_", None) for model in models]
    if any(own is None or isinstance(own, list) for own in classes):
        return found
    known = [to_numpy(own) for own in classes]
    union = np.unique(np.concatenate(known))
    if lacking := [k for k, own in enumerate(known) if own.size < union.size]:
        warn_user(
            f"The training rows of the folds {lacking} lack classes, whose probabilities are 0 "
            "there. Choose folds with all classes (sklearn.model_selection.StratifiedKFold).",
            RuntimeWarning,
        )
    return [
        part if own.size == union.size else _spread(part, np.searchsorted(union, own), union.size)
        for part, own in zip(found, known, strict=True)
    ]


def _spread(part: Any, columns: np.ndarray, n_columns: int) -> Any:
    xp = module_of(part)
    places = np.full(n_columns, columns.size)
    places[columns] = np.arange(columns.size)
    with_none = xp.concat([part, xp.zeros_like(part[:, :1])], axis=1)
    return with_none[:, xp.asarray(places)]
