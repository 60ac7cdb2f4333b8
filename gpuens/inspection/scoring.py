"""Scores of a model on tables that are predicted together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.utils import Bunch

from ..devices.placement import Device, to_numpy
from ..inputs.arrays import to_input_library

RESPONSES = ("predict", "predict_proba", "predict_log_proba", "decision_function", "score_samples")
Scores = list[Any]


class Scorer:
    """What a model is scored with.

    Parameters
    ----------
    model : fitted estimator
    scoring : str, callable, list, tuple, dict or None
        As in scikit-learn; None is the model's own ``score``.
    device : Device
        Of the tables.

    Raises
    ------
    ValueError, TypeError
        ``scoring`` is none of these, or the model has no ``score``.
    """

    def __init__(self, model: Any, scoring: Any, device: Device) -> None:
        self.model, self.device = model, device
        self.in_one_go = type(model).__module__.partition(".")[0] == "gpuens"
        if isinstance(scoring, str) and scoring not in get_scorer_names():
            raise ValueError(
                "scoring must be a name from sklearn.metrics.get_scorer_names(), a callable "
                f"(estimator, X, y) -> float, several of these, or None, got {scoring!r}."
            )
        if self.in_one_go and scoring is None and (is_classifier(model) or is_regressor(model)):
            scoring = "accuracy" if is_classifier(model) else "r2"  # their ``score``
        self.score: Callable[..., Any] = check_scoring(model, scoring=scoring)

    def of(self, table: Any, n: int, y: Any, weight: Any) -> Scores:
        """Scores of tables that stand below each other.

        Parameters
        ----------
        table : array or data frame, n * n_rows rows
        n : int
            1 for a model of another library.
        y, weight : array, shape (n_rows,), on the host, or None
            Of each of the tables.

        Returns
        -------
        list of n floats, or dicts of these
        """
        weights = {} if weight is None else {"sample_weight": weight}
        if not self.in_one_go:
            return [self.score(self.model, table, y, **weights)]
        asked = _Asked(self.model, table, n)
        parts = asked.parts()
        return [self.score(part, part.table, y, **weights) for part in parts]


class _Asked:
    """A model that has been asked about several tables, each question once."""

    def __init__(self, model: Any, table: Any, n: int) -> None:
        self.model, self.table, self.n = model, table, n
        self.answers: dict[str, np.ndarray] = {}

    def answer(self, method: str) -> np.ndarray:
        if method not in self.answers:
            answer = to_numpy(getattr(self.model, method)(self.table))
            self.answers[method] = answer.reshape(self.n, -1, *answer.shape[1:])
        return self.answers[method]

    def parts(self) -> list[_Part]:
        if self.n == 1:
            return [_Part(self, 0, self.table)]
        n_rows = len(self.table) // self.n
        return [_Part(self, i, self.table[i * n_rows : (i + 1) * n_rows]) for i in range(self.n)]


class _Part:
    """Stands for the model before a scorer that asks about one of the tables; answers on the
    host, where scikit-learn's metrics work."""

    def __init__(self, asked: _Asked, number: int, table: Any) -> None:
        self._asked, self._number, self.table = asked, number, table

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__sklearn_tags__":
            raise AttributeError(name)
        value = getattr(self._asked.model, name)
        if name not in RESPONSES:
            return value

        def answer(X: Any) -> Any:
            if X is not self.table:  # a scorer that asks about other rows
                return to_numpy(value(X))
            return self._asked.answer(name)[self._number]

        answer.__name__ = name
        return answer


def importances_of(baseline: Sequence[Scores], scores: Sequence[Scores]) -> Any:
    """How far scores fell.

    Parameters
    ----------
    baseline : sequence of lists, one for each feature, of length 1 or n_scores
    scores : sequence of lists, one for each feature, of length n_scores
        Floats, or dicts of these by metric.

    Returns
    -------
    Bunch, or dict of Bunch by metric
        ``importances`` (n_features, n_scores), and its rows' ``importances_mean`` and
        ``importances_std`` (n_features,); float64, NumPy.
    """
    if isinstance(baseline[0][0], dict):
        return {
            name: importances_of(_of_metric(baseline, name), _of_metric(scores, name))
            for name in baseline[0][0]
        }
    fall = np.array(baseline, np.float64) - np.array(scores, np.float64)
    return Bunch(
        importances_mean=fall.mean(axis=1), importances_std=fall.std(axis=1), importances=fall
    )


def _of_metric(scores: Sequence[Scores], name: str) -> list[Scores]:
    return [[score[name] for score in row] for row in scores]


def in_library_of(importances: Any, X: Any) -> Any:
    """The same in the array library and on the device of a table."""
    if not isinstance(importances, Bunch):
        return {name: in_library_of(bunch, X) for name, bunch in importances.items()}
    return Bunch(**{name: to_input_library(array, X) for name, array in importances.items()})
