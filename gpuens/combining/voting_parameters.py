"""What values the parameters of a vote may have, and the errors for the others."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from ..devices.placement import to_numpy
from .base import check_jobs, check_verbose
from .holdout import is_share
from .named_estimators import check_estimators, is_dropped

LEARNED = ("accuracy", "optimal", "greedy")
"""Weights that are learned from rows that the members have not seen."""


def check_voting_parameters(vote: Any, kind: str) -> None:
    """Check the parameters that do not depend on data; ``device`` where it is resolved.

    Parameters
    ----------
    vote : VotingClassifier or VotingRegressor
    kind : "classifier" or "regressor"

    Raises
    ------
    ValueError, TypeError
        Names the parameter, what it got and what it wants.
    """
    check_estimators(vote, kind)
    parameters = vote.get_params(deep=False)
    for name in ("prefit", "flatten_transform"):
        value = parameters.get(name, True)
        if not isinstance(value, (bool, np.bool_)):
            raise ValueError(f"{name} must be True or False, got {value!r}.")
    check_verbose(vote.verbose)
    fraction = vote.validation_fraction
    number = isinstance(fraction, Integral) and not isinstance(fraction, (bool, np.bool_))
    if not (is_share(fraction) or (number and int(fraction) >= 1)):
        raise ValueError(
            "validation_fraction must be a number in (0, 1) or a number of rows >= 1, got "
            f"{fraction!r}."
        )
    check_jobs(vote.n_jobs)
    given_weights(vote)
    voting = parameters.get("voting", "hard")
    if not (isinstance(voting, str) and voting in ("hard", "soft")):
        raise ValueError(f"voting must be 'hard' or 'soft', got {voting!r}.")
    if kind == "classifier":
        _check_methods(vote)


def _check_methods(vote: Any) -> None:
    if vote.voting == "hard":
        if isinstance(vote.weights, str) and vote.weights == "optimal":
            raise ValueError(
                "weights='optimal' needs probabilities: the share of wrong votes is no smooth "
                "function of the weights. Set voting='soft', or weights='greedy' or 'accuracy'."
            )
        return
    for name, estimator in vote.estimators:
        if not is_dropped(estimator) and not hasattr(estimator, "predict_proba"):
            raise ValueError(
                f"voting='soft' averages probabilities, but {name!r}, a "
                f"{type(estimator).__name__}, has no predict_proba. Use voting='hard', drop it, or "
                "wrap it in sklearn.calibration.CalibratedClassifierCV."
            )


def learns_weights(weights: Any) -> bool:
    """Whether weights are learned, by name or by a function."""
    return isinstance(weights, str) or callable(weights)


def given_weights(vote: Any) -> np.ndarray | None:
    """The weights of the members that are not dropped, None if they are learned.

    Returns
    -------
    float64 ndarray, shape (n_members,), or None

    Raises
    ------
    ValueError
        Wrong word, length or values.
    """
    weights, entries = vote.weights, vote.estimators
    kept = np.array([not is_dropped(entry) for _, entry in entries])
    if weights is None:
        return np.ones(int(kept.sum()))
    if isinstance(weights, str) and weights not in LEARNED:
        raise ValueError(
            f"weights must be None, a list of numbers, {', '.join(map(repr, LEARNED))} or a "
            f"function, got {weights!r}."
        )
    if learns_weights(weights):
        return None
    try:
        values = np.asarray(to_numpy(weights), np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"weights must hold numbers, got {weights!r}.") from None
    if values.shape != (len(entries),):
        got = values.shape[0] if values.ndim == 1 else f"an array of shape {values.shape} as"
        raise ValueError(
            f"Number of `estimators` and weights must be equal; got {got} weights, "
            f"{len(entries)} estimators"
        )
    values = values[kept]
    if not ((values >= 0).all() and np.isfinite(values).all()):
        raise ValueError(f"weights must be finite numbers >= 0, got {values.tolist()}.")
    if not values.sum() > 0:
        raise ValueError(
            "weights sum to zero over the estimators that are not dropped; at least one must be "
            "positive."
        )
    return values
