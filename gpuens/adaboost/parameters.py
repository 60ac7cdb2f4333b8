"""What values the parameters of AdaBoost may have, and the errors for the others."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.utils.validation import has_fit_parameter

from ..estimators.parameters import check_callbacks, is_bool, is_count, threads_of
from ..kernels.runtime.dtypes import MAX_BINS

LOSSES = ("linear", "square", "exponential")

_ALLOWED: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "n_estimators": ("an integer >= 1", lambda value: is_count(value, 1)),
    "learning_rate": (
        "a finite number > 0",
        lambda value: isinstance(value, Real) and not is_bool(value) and 0 < float(value) < np.inf,
    ),
    "loss": (
        "'linear', 'square' or 'exponential'",
        lambda value: isinstance(value, str) and value in LOSSES,
    ),
    "max_bins": (
        f"None or an integer from 2 to {MAX_BINS}",
        lambda value: value is None or (is_count(value, 2) and int(value) <= MAX_BINS),
    ),
    "warm_start": ("True or False", is_bool),
    "verbose": ("a bool or an integer >= 0", lambda value: is_bool(value) or is_count(value, 0)),
}


def check_adaboost_parameters(estimator: Any) -> None:
    """Check the parameters that do not depend on data; ``device`` where it is resolved.

    Raises
    ------
    ValueError, TypeError
        Names the parameter, what it got and what it wants.
    """
    parameters = estimator.get_params(deep=False)
    for name, (wanted, is_allowed) in _ALLOWED.items():
        if name in parameters and not is_allowed(parameters[name]):
            raise ValueError(f"{name} must be {wanted}, got {parameters[name]!r}.")
    check_base_estimator(parameters["estimator"])
    check_callbacks(parameters["callbacks"])
    threads_of(parameters["n_jobs"])


def check_base_estimator(base: Any) -> None:
    """Check that something is an estimator, or None.

    Raises
    ------
    TypeError
        Says what it lacks.
    """
    if base is None:
        return
    needed = ("fit", "predict", "get_params")
    lacking = [name for name in needed if not callable(getattr(base, name, None))]
    if lacking or isinstance(base, type):
        raise TypeError(
            "estimator must be None or an object with the methods fit, predict and get_params (a "
            f"subclass of sklearn.base.BaseEstimator has the last one), got {base!r}."
        )


def check_classifier(base: Any) -> None:
    """Check that boosting by weights can work with a base estimator.

    Raises
    ------
    TypeError
        It is a regressor.
    ValueError
        Its ``fit`` takes no weights.
    """
    check_not_regressor(base, "AdaBoostRegressor")
    if not has_fit_parameter(base, "sample_weight"):
        raise ValueError(
            f"{type(base).__name__} doesn't support sample_weight, by which AdaBoost tells its "
            "learners what to look at. Use an estimator whose fit takes sample_weight, or "
            "BaggingClassifier, which does without."
        )


def check_not_regressor(base: Any, instead: str) -> None:
    """Check that a base estimator is not one for numbers.

    Raises
    ------
    TypeError
        It is a regressor; ``instead`` is what takes these.
    """
    if _says(is_regressor, base):
        raise TypeError(
            f"estimator must be a classifier, got {base!r}, which predicts numbers. Use {instead}."
        )


def check_regressor(base: Any) -> None:
    """Check that a base estimator is not one for classes.

    Raises
    ------
    TypeError
        It is a classifier.
    """
    if _says(is_classifier, base):
        raise TypeError(
            f"estimator must be a regressor, got {base!r}, which predicts classes. Use "
            "AdaBoostClassifier."
        )


def _says(question: Callable[[Any], bool], base: Any) -> bool:
    """An answer from an estimator's tags, which a user's own class may lack."""
    return hasattr(base, "__sklearn_tags__") and question(base)
