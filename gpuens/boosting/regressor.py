"""Gradient boosted regression trees, of numbers and of times that may be censored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..devices.placement import CPU, Device, to_numpy
from ..devices.policy import Work
from ..distributions import Distribution
from ..estimators.base import require_fitted
from ..estimators.boosting_docs import BOOSTING, SCORING
from ..estimators.docstrings import documented
from ..inputs.targets import columns_of, read_sample_weight, read_target, shape_of
from ..kernels.runtime.arrays import Array
from ..kernels.scalars import losses as formulas
from ..kernels.statistics.gradients import row_values
from ..losses import Loss
from ..losses.distributions import DistributionLoss
from ..losses.names import OF_DISTRIBUTIONS, OF_NUMBERS, OF_TIMES
from ..losses.survival import AFT, Cox, SurvivalLoss
from ..survival_metrics import concordance, curve_times
from ..tables.binned_table import BinnedTable
from .additive import AdditiveRegressor
from .data.reading import EvalSet
from .estimator import BoostingEstimator


def _is_of_survival(model: Any) -> bool:
    if model._loss_is(*OF_TIMES):
        return True
    raise AttributeError(
        f"Curves of survival need loss='cox' or loss='aft', but {type(model).__name__} has "
        f"loss={model.loss!r}."
    )


@documented(
    BOOSTING,
    losses="""str, loss object or function, default="squared_error"
        "squared_error", "absolute_error", "huber", "quantile", "expectile", "poisson", "gamma",
        "tweedie", "normal", "log_normal", "student_t", "negative_binomial", "cox" or "aft".
        Absolute, quantile and Huber loss take medians and quantiles of the residuals for the
        leaf values; Poisson, gamma and Tweedie predict exponentials. The four distributions have
        two trees in every round (see ``predict_dist``). "cox" and "aft" are for times that may be
        censored. ``gpuens.losses`` has all as objects with their parameters, and ``CustomLoss``.
        A function of two arrays ``(y, score) -> (gradient, hessian)`` is the objective of an
        ``ArrayLoss``.
    quantile : float or list of float, default=None
        With loss="quantile": the quantiles to predict, in (0, 1). With loss="expectile": the level
        of the expectile, one number in (0, 1).""",
    init="""init : "zero", estimator or None, default=None
        What the raw predictions are before the first round: None is the best constant, "zero" is
        0. Of an estimator, a copy is fitted on the table as the trees read it, and training starts
        from its predictions, or their logarithms where the loss has that link; Shapley values and
        exports, which have trees alone, refuse the model then.
    """,
    class_weight="",
    scoring=SCORING,
    attributes="""init_ : estimator
        The fitted copy of ``init``, where it is an estimator.
    unique_times_ : float64, shape (n_times,)
        Only with the losses "cox" and "aft": the times of events.
    baseline_cumulative_hazard_ : float64, shape (n_times,)
        Only with loss="cox": the cumulative hazard at these times for a prediction of 0, of all
        rows that ``fit`` got.
    """,
)
@dataclass(kw_only=True, eq=False, repr=False)
class GradientBoostingRegressor(AdditiveRegressor, BoostingEstimator):
    """Gradient boosted regression trees on binned features.

    Newton boosting (Friedman 2001; Chen and Guestrin 2016) with histogram trees. The same data
    and seed give the same model, bit for bit, on the CPU with any number of threads and on a
    GPU.

    With the losses "cox" and "aft" ``y`` is a structured array with a boolean field (whether the
    event was observed) and a field of times, as of scikit-survival, or a tuple ``(event, time)``;
    for "aft" it may also be a float array of shape (n_rows, 2) with the bounds of each time (see
    ``predict``). The metrics are "loss" and "concordance", which is also ``score``.

    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuens import GradientBoostingRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = GradientBoostingRegressor(n_estimators=50).fit(X, y)
    >>> round(model.score(X, y), 2) > 0.7
    True
    """

    _losses = OF_NUMBERS + OF_DISTRIBUTIONS + OF_TIMES

    loss: str | Loss | Callable[..., Any] = field(default="squared_error", kw_only=False)
    quantile: float | Sequence[float] | None = None
    init: Any = None

    def _read_y(self, rows: EvalSet, n: int, device: Device, fit: bool) -> Array:
        shape, name = shape_of(rows.y), rows.names[1]
        columns = columns_of(rows.y) if len(shape) == 2 and shape[1] != 1 else [rows.y]
        if not fit or hasattr(self, "forest_"):  # an evaluation set, or a warm start
            if len(columns) != self._n_targets:
                raise ValueError(
                    f"{name} has {len(columns)} targets, the model was trained on "
                    f"{self._n_targets}."
                )
        self._n_targets: int = len(columns)
        targets = [read_target(c, n, device, estimator=self, name=name) for c in columns]
        return targets[0] if len(targets) == 1 else device.xp.stack(targets, axis=1)

    def _bound(self, loss: Loss, target: Array) -> Loss:
        if isinstance(loss, SurvivalLoss):
            return loss
        return loss.for_targets(1 if target.ndim == 1 else target.shape[1])

    def predict_dist(self, X: Any) -> Distribution:
        """Predict the distribution of the target of each row.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.

        Returns
        -------
        gpuens.distributions.Distribution
            With ``mean()``, ``quantile(q)``, ``logpdf(y)``, ``sample(n)`` and ``crps(y)``, on the
            host.

        Raises
        ------
        ValueError
            The loss of the model is not one of distributions.
        """
        require_fitted(self)
        loss = self._fitted_loss
        if not isinstance(loss, DistributionLoss):
            names = ", ".join(repr(cls.name) for cls in OF_DISTRIBUTIONS)
            raise ValueError(
                f"predict_dist needs a loss of distributions ({names}), the model was trained with "
                f"loss={loss!r}."
            )
        raw = self._predict(X, lambda raw, device: raw.T.copy())
        return loss.distribution(to_numpy(raw).T)

    @available_if(_is_of_survival)
    def predict_cumulative_hazard_function(self, X: Any, times: Any = None) -> Any:
        """Predict the cumulative hazard of each row until some times.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        times : array, shape (n_times,), default=None
            Not negative; ``unique_times_`` without it.

        Returns
        -------
        float64, shape (n_rows, n_times)
            In the array library and on the device of X (NumPy for data frames). With "cox" these
            are step functions, the hazard of the baseline (Breslow's or Efron's estimate) times
            the exponential of the prediction; with "aft" those of the distribution.
        """
        return self._curves(X, times, lambda hazard, device: hazard)

    @available_if(_is_of_survival)
    def predict_survival_function(self, X: Any, times: Any = None) -> Any:
        """Predict the probability that each row has no event until some times: the exponential of
        the negative cumulative hazard.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        times : array, shape (n_times,), default=None
            Not negative; ``unique_times_`` without it.

        Returns
        -------
        float64, shape (n_rows, n_times)
            In the array library and on the device of X (NumPy for data frames).
        """
        return self._curves(X, times, _survival)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R² of the predictions; for several quantiles, the mean share of the pinball loss
        that is explained (``sklearn.metrics.d2_pinball_score``); for the losses "cox" and "aft",
        Harrell's concordance (``gpuens.survival_metrics.concordance``).

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
        check_is_fitted(self)
        loss = self._fitted_loss
        if not isinstance(loss, SurvivalLoss):
            return super().score(X, y, sample_weight)
        risk = loss.risk(to_numpy(self.predict(X)))
        truth = loss.right_censored(loss.read_times(y, "y").T)
        return concordance(truth, risk, sample_weight=sample_weight)

    def _training_work(self, X: Any, y: Any) -> Work:
        return super()._training_work(X, None if self._loss_is(*OF_TIMES) else y)

    def _complete(self, training: EvalSet) -> None:
        if not isinstance(self._fitted_loss, SurvivalLoss):
            return
        loss = self._fitted_loss.among(training.workers)
        if isinstance(loss, AFT):
            self.unique_times_ = loss.observed(training.y)
        if isinstance(loss, Cox):
            raw = self._raw_of_training(training.X)
            weight = read_sample_weight(training.weight, raw.size, CPU, workers=training.workers)
            weight = np.empty(0) if weight is None else weight
            found = loss.baseline(training.y.T.copy(), raw, weight, CPU)
            self.unique_times_, self.baseline_cumulative_hazard_ = found

    def _curves(self, X: Any, times: Any, finish: Callable[[Array, Device], Array]) -> Any:
        """Return ``finish(hazard, device)`` of the cumulative hazards at some times."""
        require_fitted(self)
        loss = self._fitted_loss
        if not hasattr(self, "unique_times_"):
            raise ValueError(
                f"{type(self).__name__} has no curves of survival: its training did not end, as "
                "in a checkpoint. Train on with fit(X, y, init=model)."
            )
        at = self.unique_times_ if times is None else curve_times(times)
        if isinstance(loss, Cox):
            place = np.searchsorted(self.unique_times_, at, side="right")
            at = np.concatenate([[0.0], self.baseline_cumulative_hazard_])[place]
        assert isinstance(loss, SurvivalLoss)
        return self._predict(
            X, lambda raw, device: finish(loss.cumulative_hazards(raw[0], at, device), device)
        )

    def _raw_of_training(self, X: Any) -> np.ndarray:
        """Return the raw predictions of the rows of ``fit``, on the host."""
        device = self._device_to_predict(X)
        if not isinstance(X, BinnedTable):
            return to_numpy(self._predict(X, _first))
        with self._working_on(device):
            return to_numpy(X.raw_predict(self.forest_, device)[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _survival(hazard: Array, device: Device) -> Array:
    negative = -hazard.reshape(-1)
    return row_values(formulas.LogLink(), negative, negative, negative[:0]).reshape(hazard.shape)


def _first(raw: Array, device: Device) -> Array:
    return raw[0].copy()
