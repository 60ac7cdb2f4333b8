"""Methods of models that add up raw predictions: gradient boosting and stagewise modelling."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..devices.lazy_tables import require_in_memory
from ..devices.placement import Device, to_numpy
from ..estimators.base import require_fitted
from ..estimators.docstrings import EXPLAINED, LABELS, PREDICTED, PROBABILITIES, documented
from ..estimators.scores import ScoresClasses, ScoresValues
from ..explanation.explainer import explained
from ..kernels.runtime.arrays import Array
from ..losses import Exponential, Loss
from ..losses.distributions import LogNormal, NegativeBinomial
from ..losses.names import OF_POSITIVE_NUMBERS
from ..members.classes import labels_of


class AdditiveModel:
    """The methods that the two mixins need: both pass raw predictions (n_outputs, n_rows) to a
    function ``finish(raw, device)``, the second after every round."""

    loss: Any
    _fitted_loss: Loss
    _predict: Callable[..., Any]
    _staged: Callable[..., Iterator[Any]]

    def _loss_is(self, *kinds: type[Loss]) -> bool:
        """Whether the parameter ``loss`` is one of these, by its name or as an object."""
        names = [kind.name for kind in kinds]
        return self.loss in names if isinstance(self.loss, str) else isinstance(self.loss, kinds)


class AdditiveClassifier(ScoresClasses, ClassifierMixin, AdditiveModel):
    """Predicts classes by raw predictions: log-odds, or one number for each class."""

    classes_: np.ndarray

    @documented(EXPLAINED, result=LABELS)
    def predict(
        self, X: Any, *, pred_contribs: bool = False, pred_interactions: bool = False
    ) -> Any:
        """Predict the class of each row.

        <shared>
        """
        if pred_contribs or pred_interactions:
            return explained(self, X, pred_contribs, pred_interactions)
        return self._predict(X, self._labels)

    @documented(PREDICTED, result=PROBABILITIES)
    def predict_proba(self, X: Any) -> Any:
        """Predict the probabilities of the classes.

        <shared>
        """
        require_fitted(self)
        return self._predict(X, self._fitted_loss.predict)

    def decision_function(self, X: Any) -> Any:
        """Return the raw predictions.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.

        Returns
        -------
        float64, shape (n_rows,) for two classes (log-odds of the second one), else
        (n_rows, n_classes)
        """
        return self._predict(X, _decision)

    def staged_predict(self, X: Any) -> Iterator[Any]:
        """Yield the classes after every round, as from ``predict``.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        """
        check_is_fitted(self)
        return self._staged(X, self._labels)

    def staged_predict_proba(self, X: Any) -> Iterator[Any]:
        """Yield the probabilities after every round, as from ``predict_proba``.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        """
        check_is_fitted(self)
        return self._staged(X, self._fitted_loss.predict)

    def staged_decision_function(self, X: Any) -> Iterator[Any]:
        """Yield the raw predictions after every round, as from ``decision_function``.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        """
        check_is_fitted(self)
        return self._staged(X, _decision)

    def _labels(self, raw: Array, device: Device) -> Any:
        """Turn raw predictions into class labels, on the device if they are numbers."""
        codes = (raw[0] > 0).astype(np.int8) if raw.shape[0] == 1 else raw.argmax(axis=0)
        return labels_of(codes, self.classes_, device)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = not self._loss_is(Exponential)
        return tags


class AdditiveRegressor(ScoresValues, RegressorMixin, AdditiveModel):
    """Predicts values by raw predictions, one for each target or quantile."""

    @documented(
        EXPLAINED,
        result="""float64, shape (n_rows,), or (n_rows, n_outputs) for several targets or quantiles
        In the array library and on the device of X (NumPy for data frames). Quantiles of a row
        do not cross (see ``gpuens.losses.Quantile``).""",
    )
    def predict(
        self, X: Any, *, pred_contribs: bool = False, pred_interactions: bool = False
    ) -> Any:
        """Predict the target.

        <shared>
        """
        if pred_contribs or pred_interactions:
            return explained(self, X, pred_contribs, pred_interactions)
        require_fitted(self)
        return self._predict(X, self._fitted_loss.predict)

    def staged_predict(self, X: Any) -> Iterator[Any]:
        """Yield the predictions after every round, as from ``predict``.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        """
        check_is_fitted(self)
        return self._staged(X, self._fitted_loss.predict)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R² of the predictions; for several quantiles, the mean share of the pinball loss
        that is explained (``sklearn.metrics.d2_pinball_score``).

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        y : array, shape (n_rows,) or (n_rows, n_targets)
            The true target.
        sample_weight : array of shape (n_rows,), default=None
            Weights of the rows.

        Returns
        -------
        float
        """
        require_in_memory(y, "y")
        require_in_memory(sample_weight, "sample_weight")
        predicted = self.predict(X)
        quantiles = getattr(self._fitted_loss, "quantile", None)
        if not isinstance(quantiles, tuple):
            return self._score_of(y, predicted, sample_weight)
        from sklearn.metrics import d2_pinball_score

        weight = None if sample_weight is None else to_numpy(sample_weight)
        truth, predicted = to_numpy(y), to_numpy(predicted).reshape(-1, len(quantiles))
        scores = [
            d2_pinball_score(truth, predicted[:, k], sample_weight=weight, alpha=quantile)
            for k, quantile in enumerate(quantiles)
        ]
        return float(np.mean(scores))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self._loss_is(
            *OF_POSITIVE_NUMBERS, LogNormal, NegativeBinomial
        )
        return tags


def _decision(raw: Array, device: Device) -> Array:
    return (raw[0] if raw.shape[0] == 1 else raw.T).copy()
