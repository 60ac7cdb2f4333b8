"""Scorers of scikit-learn for searches whose rows are on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from functools import wraps
from typing import Any

from sklearn.metrics import get_scorer

from ..combining.out_of_fold import METHODS
from ..devices.placement import on_host

SCORERS = "sklearn.metrics._scorer"
"""Module of what scikit-learn's ``make_scorer`` returns."""


class AnswersOnHost:
    """A fitted estimator whose answers to rows on a GPU are copied to the host."""

    def __init__(self, estimator: Any) -> None:
        self._estimator = estimator

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._estimator, name)
        if name not in METHODS:
            return found

        @wraps(found)
        def answer(X: Any, **params: Any) -> Any:
            given = found(X, **params)
            return list(map(on_host, given)) if isinstance(given, list) else on_host(given)

        return answer


class HostScorer:
    """A scorer of scikit-learn for rows on a GPU: its metric gets NumPy arrays."""

    def __init__(self, scorer: Any) -> None:
        self._scorer = scorer

    def __call__(self, estimator: Any, X: Any, y: Any = None, **params: Any) -> Any:
        params = {name: on_host(value) for name, value in params.items()}
        return self._scorer(AnswersOnHost(estimator), X, on_host(y), **params)

    def __getattr__(self, name: str) -> Any:
        if name == "_scorer":  # a copy that is being made has no attributes
            raise AttributeError(name)
        return getattr(self._scorer, name)


def scoring_on_host(scoring: Any) -> Any:
    """Return a search's ``scoring`` with scorers that compute on the host."""
    if isinstance(scoring, Mapping):
        return {name: scoring_on_host(scorer) for name, scorer in scoring.items()}
    if isinstance(scoring, str):
        return HostScorer(get_scorer(scoring))
    if isinstance(scoring, (list, tuple, set)):
        return {name: scoring_on_host(name) for name in scoring}
    return HostScorer(scoring) if type(scoring).__module__ == SCORERS else scoring
