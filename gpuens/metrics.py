"""The metrics that training watches: the loss, or any scorer of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer

from .devices import Device, to_numpy
from .growth import TrainingRows
from .losses import Loss


class Metric(NamedTuple):
    """A name, a direction, and how to compute it from rows with raw predictions."""

    name: str
    higher_is_better: bool
    compute: Callable[[TrainingRows], float]


def metrics_for(
    scoring: Any, loss: Loss, classes: np.ndarray | None, device: Device
) -> list[Metric]:
    """Read the parameter ``scoring``.

    Parameters
    ----------
    scoring : str, callable ``(estimator, X, y) -> float``, or list of these
        "loss" is the loss that is trained, lower is better; all else are scorers.
    classes : ndarray or None
        The labels of a classifier.
    """
    entries = scoring if isinstance(scoring, (list, tuple)) else [scoring]
    metrics: dict[str, Metric] = {}
    for entry in entries:
        metric = _metric(entry, loss, classes, device)
        namesakes = sum(name.partition(" #")[0] == metric.name for name in metrics)
        name = f"{metric.name} #{namesakes + 1}" if namesakes else metric.name
        metrics[name] = metric._replace(name=name)
    return list(metrics.values())


def _metric(entry: Any, loss: Loss, classes: np.ndarray | None, device: Device) -> Metric:
    if entry == "loss":
        return Metric("loss", False, lambda rows: loss.mean(rows.y, rows.raw, rows.weight, device))
    scorer = get_scorer(entry) if isinstance(entry, str) else entry
    name = entry if isinstance(entry, str) else getattr(entry, "__name__", repr(entry))

    def compute(rows: TrainingRows) -> float:
        y = to_numpy(rows.y)
        predictor: Any
        if classes is None:
            predictor = _Regression(loss, rows, device)
        else:
            predictor = _Classification(loss, rows, device, classes)
            y = classes[y.astype(np.int64)]
        weight = {} if rows.weight.size == 0 else {"sample_weight": to_numpy(rows.weight)}
        try:
            return float(scorer(predictor, y[:, None], y, **weight))
        except TypeError:
            if not weight:
                raise
            return float(scorer(predictor, y[:, None], y))  # it takes no weights

    return Metric(name, True, compute)


class _Regression(RegressorMixin, BaseEstimator):
    """Answers a scorer with the raw predictions that are at hand, whatever X it passes."""

    def __init__(self, loss: Loss, rows: TrainingRows, device: Device) -> None:
        self.loss, self.rows, self.device = loss, rows, device

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Any) -> np.ndarray:
        return to_numpy(self.loss.predict(self.rows.raw, self.device))


class _Classification(ClassifierMixin, _Regression):
    def __init__(self, loss: Loss, rows: TrainingRows, device: Device, classes: np.ndarray) -> None:
        super().__init__(loss, rows, device)
        self.classes_ = classes

    def predict_proba(self, X: Any) -> np.ndarray:
        return to_numpy(self.loss.predict(self.rows.raw, self.device))

    def predict(self, X: Any) -> np.ndarray:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def decision_function(self, X: Any) -> np.ndarray:
        raw = to_numpy(self.rows.raw)
        return raw[0] if raw.shape[0] == 1 else raw.T
