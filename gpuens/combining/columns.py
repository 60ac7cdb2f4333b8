"""The predictions of the members of a stack, which are the columns of its meta-model."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..devices.placement import Device
from ..kernels.runtime.arrays import Array
from ..members.classes import check_classes, check_shares, codes_of
from ..members.rows import MemberRows, TrainingSet

METHODS = ("predict_proba", "decision_function", "predict")
"""Methods that ``stack_method="auto"`` looks for, in this order."""


def method_of(name: str, estimator: Any, wanted: str) -> str:
    """Return the method that a member predicts with. Raises a ValueError if it has none of those
    wanted."""
    methods = METHODS if wanted == "auto" else (wanted,)
    for method in methods:
        if hasattr(estimator, method):
            return method
    raise ValueError(
        f"Underlying estimator {name} does not implement the method {' or '.join(methods)}. Its "
        f"class is {type(estimator).__name__}; choose another stack_method, or drop it."
    )


def columns_of(
    name: str, member: Any, method: str, rows: MemberRows, classes: Any, labels: bool
) -> Array:
    """Return the predictions of a member as float64 columns, (n_rows, n_columns); of the
    probabilities of two classes only those of the second. ``labels`` is whether a classifier
    without ``classes_`` predicts labels, not numbers. Raises a ValueError if the answer has a wrong
    shape, holds NaN or infinity, or the member knows other classes."""
    home = rows.home
    answer = getattr(member, method)(rows.table(member))
    if isinstance(classes, np.ndarray):
        check_classes(name, member, classes)
        if method == "predict" and hasattr(member, "classes_"):
            answer = codes_of(answer, member, classes, home, labels)
    columns = _as_columns(answer, home)
    if columns.shape[0] != rows.n:
        raise ValueError(
            f"The member {name!r} gives {columns.shape[0]} rows for {rows.n} rows of X by {method}."
        )
    if method == "predict_proba" and isinstance(classes, np.ndarray):
        check_shares(name, columns, rows.n, len(classes))
        columns = columns[:, 1:] if len(classes) == 2 else columns
    if not bool(abs(columns).max() < np.inf):
        raise ValueError(
            f"The member {name!r} predicts NaN or infinity by {method}. Drop it, or fix its "
            "input data."
        )
    return columns


def _as_columns(answer: Array, home: Device) -> Array:
    if isinstance(answer, list) and answer and getattr(answer[0], "ndim", 0) == 2:
        # Probabilities of several labels, one array each: the first columns follow from the others.
        return home.xp.concat([home.asarray(p, np.float64)[:, 1:] for p in answer], axis=1)
    columns = home.asarray(answer, np.float64)
    return columns.reshape(columns.shape[0], -1)


def fit_and_ask(
    name: str,
    estimator: Any,
    data: TrainingSet,
    seen: np.ndarray,
    asked: np.ndarray,
    method: str,
    classes: Any,
) -> Array:
    """Fit a clone of an estimator on some rows, and return its predictions of others as columns."""
    member = data.part(seen).fit_one(name, estimator)
    return columns_of(name, member, method, data.rows.part(asked), classes, labels=False)
