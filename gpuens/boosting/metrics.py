"""Metrics of the rounds: the loss, scorers of scikit-learn, or a user's functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..custom_metrics import ArrayMetric, CustomMetric
from ..devices.array_functions import contiguous
from ..devices.library_arrays import own_array
from ..devices.placement import Device, to_numpy
from ..inputs.labels import labels_for_metrics
from ..losses import Loss
from ..losses.custom import rows_first
from ..losses.ranking import RankingLoss
from ..losses.survival import SurvivalLoss
from ..numerics.weighted import Later
from ..ranking_metrics import NDCG, ranking_metric_of
from ..survival_metrics import concordance
from .round_data import TrainingRows

CONCORDANCE = "concordance"
"""The name of the metric of survival models."""


class Metric(NamedTuple):
    """A metric. ``compute`` returns a callable that waits for its value on some rows. Functions of
    users need not take weights: they are not ``by_weight``."""

    name: str
    higher_is_better: bool
    compute: Callable[[TrainingRows], Later]
    by_weight: bool = True


def metrics_for(
    scoring: Any, loss: Loss, classes: np.ndarray | None, device: Device
) -> list[Metric]:
    """Read the parameter ``scoring``.

    Parameters
    ----------
    scoring : str, callable ``(estimator, X, y) -> float``, custom metric, or list of these
        "loss" is the loss that is trained, lower is better; other names and callables are
        scorers. None is the score of the estimator, "accuracy" or "r2".
    classes : ndarray or None
        The labels of a classifier; None for a regression.
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

        def mean(rows: TrainingRows) -> Later:
            if rows.mean_of_loss is not None:
                return rows.mean_of_loss()
            own = loss.among(rows.workers)
            return own.mean_later(rows.y, contiguous(rows.raw), rows.weight, device)

        return Metric("loss", False, mean)
    if isinstance(loss, SurvivalLoss) or entry == CONCORDANCE:
        return _of_survival(entry, loss, device)
    if isinstance(loss, RankingLoss) or ranking_metric_of(entry) is not None:
        return _of_ranking(entry, loss, device)
    if entry is None:
        entry = "r2" if classes is None else "accuracy"
    if isinstance(entry, (CustomMetric, ArrayMetric)):
        return _of_functions(entry, loss, device)
    from sklearn.metrics import get_scorer

    scorer = get_scorer(entry) if isinstance(entry, str) else entry
    name = entry if isinstance(entry, str) else getattr(entry, "__name__", repr(entry))
    if classes is not None and isinstance(entry, str):
        classes = labels_for_metrics(classes)

    def score(rows: TrainingRows) -> float:
        y = to_numpy(rows.y.T)
        predictor: Any
        if classes is None:
            predictor = _Regression(loss, rows, device)
        else:
            predictor = _Classification(loss, rows, device, classes)
            y = classes[y.astype(np.int64)]
        weight = {} if rows.weight.size == 0 else {"sample_weight": to_numpy(rows.weight)}
        try:
            return float(scorer(predictor, y.reshape(len(y), -1), y, **weight))
        except TypeError:
            if not weight:
                raise
            return float(scorer(predictor, y.reshape(len(y), -1), y))  # it has no sample_weight

    return Metric(name, True, lambda rows: _known(score(rows)), by_weight=False)


def _of_functions(entry: CustomMetric | ArrayMetric, loss: Loss, device: Device) -> Metric:
    if isinstance(entry, CustomMetric):
        return _custom(entry, loss, device)
    return Metric(
        entry.label,
        entry.higher_is_better,
        lambda rows: _known(_of_arrays(entry, rows)),
        by_weight=False,
    )


def _of_ranking(entry: Any, loss: Loss, device: Device) -> Metric:
    """Return a metric of a ranking; what depends on the rows alone is computed once."""
    metric = ranking_metric_of("ndcg" if entry is None else entry)
    if metric is None and isinstance(entry, (CustomMetric, ArrayMetric)):
        return _of_functions(entry, loss, device)
    if metric is None or not isinstance(loss, RankingLoss):
        raise ValueError(
            f"scoring={entry!r} and loss={loss!r} do not go together: rankings have the metrics "
            "'ndcg', 'ndcg@10', 'map', 'map@10', those of gpuens.ranking_metrics and of "
            "gpuens.custom_metrics, other estimators have all but the first five."
        )
    if isinstance(metric, NDCG) and not isinstance(entry, NDCG):
        metric = NDCG(metric.k, loss.label_gain)
    prepared: dict[int, tuple[TrainingRows, Callable[[Any], Later]]] = {}

    def compute(rows: TrainingRows) -> Later:
        if id(rows) not in prepared:
            relevance, query = rows.y[0], rows.y[1]
            prepared[id(rows)] = rows, metric.on_rows(relevance, query, rows.weight, device)
        return prepared[id(rows)][1](rows.raw[0])

    return Metric(metric.label, True, compute)


def _of_survival(entry: Any, loss: Loss, device: Device) -> Metric:
    if isinstance(entry, ArrayMetric):
        return _of_functions(entry, loss, device)
    if not isinstance(loss, SurvivalLoss) or entry not in (None, CONCORDANCE):
        raise ValueError(
            f"scoring={entry!r} and loss={loss!r} do not go together: the losses of survival have "
            "the metrics 'loss', 'concordance' and ArrayMetric, others have all but the second."
        )

    def compute(rows: TrainingRows) -> Later:
        truth = loss.right_censored(to_numpy(rows.y))
        weight = to_numpy(rows.weight) if rows.weight.size else None
        risk = loss.risk(to_numpy(rows.raw[0]))
        return _known(concordance(truth, risk, sample_weight=weight))

    return Metric(CONCORDANCE, True, compute)


def _known(value: float) -> Later:
    return lambda: value


def _custom(metric: CustomMetric, loss: Loss, device: Device) -> Metric:
    if loss.coupled and loss.n_outputs > 1:
        raise ValueError(
            f"{metric!r} gets one score a row, but loss={loss!r} has {loss.n_outputs} coupled "
            "scores: use an ArrayMetric."
        )
    formula = metric.formula

    def compute(rows: TrainingRows) -> Later:
        own = loss.among(rows.workers)
        raw = contiguous(rows.raw)
        return own.mean_of(lambda k: formula, rows.y, raw, rows.weight, device)

    return Metric(metric.label, metric.higher_is_better, compute)


def _of_arrays(metric: ArrayMetric, rows: TrainingRows) -> float:
    weight = {} if rows.weight.size == 0 else {"sample_weight": own_array(rows.weight)}
    value = metric.function(
        rows_first(rows.y.astype(np.float64, copy=False)), rows_first(rows.raw), **weight
    )
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{metric!r} must return a number, got {value!r}.") from error


class _Regression(RegressorMixin, BaseEstimator):
    """A fitted model for scorers that predicts its own rows, whatever X it gets."""

    def __init__(self, loss: Loss, rows: TrainingRows, device: Device) -> None:
        self.loss, self.rows, self.device = loss, rows, device

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Any) -> np.ndarray:
        return to_numpy(self.loss.predict(contiguous(self.rows.raw), self.device))


class _Classification(ClassifierMixin, _Regression):
    def __init__(self, loss: Loss, rows: TrainingRows, device: Device, classes: np.ndarray) -> None:
        super().__init__(loss, rows, device)
        self.classes_ = classes

    def predict_proba(self, X: Any) -> np.ndarray:
        return to_numpy(self.loss.predict(contiguous(self.rows.raw), self.device))

    def predict(self, X: Any) -> np.ndarray:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def decision_function(self, X: Any) -> np.ndarray:
        raw = to_numpy(self.rows.raw)
        return raw[0] if raw.shape[0] == 1 else raw.T


class RecordsScores:
    """Estimators that record the metrics of their rounds, as properties of scikit-learn's names."""

    scoring: Any
    n_iter_: int
    evals_result_: dict[str, dict[str, list[float]]]

    @property
    def validation_score_(self) -> np.ndarray:
        """The first metric on the first evaluation set, as scikit-learn gives it."""
        return self._scores("validation")

    @property
    def train_score_(self) -> np.ndarray:
        """The first metric on the training rows: with ``verbose``, or where early stopping watches
        them; else empty."""
        return self._scores("training")

    @property
    def best_iteration_(self) -> int:
        """The round with the best value of the first metric on the first evaluation set, from 1 (0:
        the model without trees); ``n_iter_`` if none was recorded."""
        check_is_fitted(self)
        metrics: dict[str, list[float]] = next(iter(self.evals_result_.values()), {})
        values = np.array(next(iter(metrics.values()), []))
        if np.isnan(values).all():  # also of an empty array
            return self.n_iter_
        several = isinstance(self.scoring, (list, tuple))
        watched = self.scoring[0] if several else self.scoring
        lower = watched == "loss" or not getattr(watched, "higher_is_better", True)
        return int(np.nanargmin(values) if lower else np.nanargmax(values))

    def _scores(self, data: str) -> np.ndarray:
        check_is_fitted(self)
        for name_of_rows, metrics in self.evals_result_.items():
            if name_of_rows.startswith(data):
                name, values = next(iter(metrics.items()))
                return np.array(values) * (-1.0 if name == "loss" else 1.0)
        return np.empty(0)
