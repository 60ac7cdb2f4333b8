"""Gradient boosted regression trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..devices.placement import Device, to_numpy
from ..distributions import Distribution
from ..estimators.base import require_fitted
from ..estimators.boosting_docs import BOOSTING, SCORING
from ..estimators.docstrings import documented
from ..estimators.validation import EvalSet
from ..inputs.targets import columns_of, read_target, shape_of
from ..kernels.runtime.arrays import Array
from ..losses import Loss
from ..losses.distributions import DistributionLoss
from ..losses.names import OF_DISTRIBUTIONS, OF_NUMBERS, OF_TIMES
from ..losses.survival import SurvivalLoss
from .survival import SurvivalBoosting


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
class GradientBoostingRegressor(SurvivalBoosting):
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
        columns, name = _columns(rows.y), rows.names[1]
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

    def _read_loss(self) -> Loss:
        loss = super()._read_loss()
        if isinstance(loss, DistributionLoss) and self.line_search:
            raise ValueError(
                f"line_search=True does not go with loss={loss!r}, whose two parameters have steps "
                "of their own: set line_search=False."
            )
        return loss

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _columns(y: Any) -> list[Any]:
    """Return the targets of a regression, one array each; a single column does not change."""
    shape = shape_of(y)
    return columns_of(y) if len(shape) == 2 and shape[1] != 1 else [y]
