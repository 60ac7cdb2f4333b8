"""What values the parameters of a bag may have, and the errors for the others."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np

from ..estimators.parameters import is_bool, is_count


def _is_share(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, Integral) and 0 < float(value) <= 1


def _is_jobs(value: Any) -> bool:
    return value is None or (isinstance(value, Integral) and not is_bool(value) and value != 0)


_ALLOWED: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "n_estimators": ("an integer >= 1", is_count),
    "max_samples": (
        "None, an integer >= 1 or a float in (0, 1]",
        lambda value: value is None or is_count(value) or _is_share(value),
    ),
    "max_features": (
        "an integer >= 1 or a float in (0, 1]",
        lambda value: is_count(value) or _is_share(value),
    ),
    "bootstrap": ("True or False", is_bool),
    "bootstrap_features": ("True or False", is_bool),
    "oob_score": ("True, False or a callable", lambda value: is_bool(value) or callable(value)),
    "warm_start": ("True or False", is_bool),
    "n_jobs": ("None or an integer other than 0", _is_jobs),
    "verbose": (
        "a bool or an integer >= 0",
        lambda value: isinstance(value, (Integral, np.bool_)) and int(value) >= 0,
    ),
    "voting": (
        "'auto', 'soft' or 'hard'",
        lambda value: isinstance(value, str) and value in ("auto", "soft", "hard"),
    ),
}


COLUMN_PARAMETERS = ("categorical_features", "monotonic_cst", "interaction_cst")
"""Parameters of estimators that say something about columns by their positions."""


def check_bagging_parameters(bag: Any) -> None:
    """Check the parameters that do not depend on data; ``device`` where it is resolved.

    Raises
    ------
    ValueError, TypeError
        Names the parameter, what it got and what it wants.
    """
    parameters = bag.get_params(deep=False)
    for name, (wanted, is_allowed) in _ALLOWED.items():
        if name in parameters and not is_allowed(parameters[name]):
            raise ValueError(f"{name} must be {wanted}, got {parameters[name]!r}.")
    _check_estimator(parameters["estimator"], parameters.get("voting"))
    if bag.oob_score and not bag.bootstrap:
        raise ValueError(
            "Out of bag estimation only available if bootstrap=True. Set it, or oob_score=False."
        )
    if bag.oob_score and bag.warm_start:
        raise ValueError(
            "Out of bag estimate only available if warm_start=False: the rows can differ between "
            "the calls of fit. Set warm_start=False or oob_score=False."
        )


def _check_estimator(estimator: Any, voting: str | None) -> None:
    if estimator is None:
        return
    needed = ("fit", "predict", "get_params")
    lacking = [name for name in needed if not callable(getattr(estimator, name, None))]
    if lacking or isinstance(estimator, type):
        raise TypeError(
            "estimator must be None or an object with the methods fit, predict and get_params (a "
            f"subclass of sklearn.base.BaseEstimator has the last one), got {estimator!r}."
        )
    if voting == "soft" and not hasattr(estimator, "predict_proba"):
        raise ValueError(
            f"voting='soft' averages probabilities, but {estimator!r} has no predict_proba. Use "
            "voting='hard', or 'auto'."
        )


def check_columns(estimator: Any) -> None:
    """Check that the members of a bag may see a part of the columns.

    Raises
    ------
    ValueError
        A parameter of the estimator tells columns by their position in the whole table.
    """
    for name, value in estimator.get_params(deep=False).items():
        if name in COLUMN_PARAMETERS and not (value is None or isinstance(value, str)):
            raise ValueError(
                f"{name}={value!r} of the estimator means columns of the whole X, but members get "
                "columns drawn at random. Set max_features=1.0 and bootstrap_features=False, or "
                f"{name}=None."
            )
