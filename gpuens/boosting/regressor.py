"""Gradient boosted regression trees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_pinball_score, r2_score
from sklearn.utils.validation import check_is_fitted

from ..devices.placement import Device, to_numpy
from ..estimators.docstrings import BOOSTING, documented
from ..inputs.targets import columns_of, read_target
from ..kernels.runtime.arrays import Array
from ..losses import Loss
from ..losses.names import OF_NUMBERS, OF_POSITIVE_NUMBERS
from .estimator import BoostingEstimator


@documented(
    BOOSTING,
    losses="""str, loss object or function, default="squared_error"
        "squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma" or "tweedie".
        Absolute, quantile and Huber loss take medians and quantiles of the residuals for the
        leaf values; Poisson, gamma and Tweedie predict exponentials. ``gpuens.losses`` has them
        as objects with their parameters, and ``CustomLoss``. A function of two arrays
        ``(y, score) -> (gradient, hessian)`` is the objective of an ``ArrayLoss``.
    quantile : float or list of float, default=None
        With loss="quantile": the quantiles to predict, in (0, 1).""",
    class_weight="",
    attributes="",
)
class GradientBoostingRegressor(RegressorMixin, BoostingEstimator):
    """Gradient boosted regression trees on binned features.

    Newton boosting (Friedman 2001; Chen and Guestrin 2016) with histogram trees. The same data
    and seed give the same model, bit for bit, on the CPU with any number of threads and on a
    GPU.

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

    _losses = OF_NUMBERS
    _n_targets: int

    def __init__(
        self,
        loss: Any = "squared_error",
        *,
        quantile: Any = None,
        n_estimators: int = 100,
        learning_rate: Any = 0.1,
        line_search: bool = False,
        max_depth: int | None = None,
        max_leaf_nodes: int | None = 31,
        min_samples_leaf: int = 10,
        min_sum_hessian: float = 1e-3,
        l2_regularization: float = 1.0,
        min_gain_to_split: float = 0.0,
        max_bins: int = 255,
        subsample: float = 1.0,
        sampling: str = "uniform",
        top_rate: float = 0.2,
        other_rate: float = 0.1,
        colsample_bytree: float = 1.0,
        colsample_bylevel: float = 1.0,
        colsample_bynode: float = 1.0,
        categorical_features: Any = "from_dtype",
        cat_smooth: float = 10.0,
        cat_l2: float = 0.0,
        max_cat_to_onehot: int = 4,
        cat_hash_groups: int = 1,
        monotonic_cst: Any = None,
        interaction_cst: Any = None,
        early_stopping: bool | str = False,
        validation_fraction: float | int = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-7,
        keep_best: bool = True,
        scoring: Any = "loss",
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str = "auto",
        verbose: bool | int = False,
        callbacks: Any = None,
    ) -> None:
        self.loss = loss
        self.quantile = quantile
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.line_search = line_search
        self.max_depth = max_depth
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.min_sum_hessian = min_sum_hessian
        self.l2_regularization = l2_regularization
        self.min_gain_to_split = min_gain_to_split
        self.max_bins = max_bins
        self.subsample = subsample
        self.sampling = sampling
        self.top_rate = top_rate
        self.other_rate = other_rate
        self.colsample_bytree = colsample_bytree
        self.colsample_bylevel = colsample_bylevel
        self.colsample_bynode = colsample_bynode
        self.categorical_features = categorical_features
        self.cat_smooth = cat_smooth
        self.cat_l2 = cat_l2
        self.max_cat_to_onehot = max_cat_to_onehot
        self.cat_hash_groups = cat_hash_groups
        self.monotonic_cst = monotonic_cst
        self.interaction_cst = interaction_cst
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.keep_best = keep_best
        self.scoring = scoring
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device
        self.verbose = verbose
        self.callbacks = callbacks

    def predict(self, X: Any) -> Any:
        """Predict the target.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)

        Returns
        -------
        float64, shape (n_rows,), or (n_rows, n_outputs) for several targets or quantiles
            In the array library and on the device of X (NumPy for data frames).
        """
        check_is_fitted(self)
        return self._predict(X, self._fitted_loss.predict)

    def staged_predict(self, X: Any) -> Iterator[Any]:
        """Yield the predictions after every round, as from ``predict``."""
        check_is_fitted(self)
        return self._staged(X, self._fitted_loss.predict)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R² of the predictions; for several quantiles, the mean share of the pinball loss
        that is explained (``sklearn.metrics.d2_pinball_score``).

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)
        y : array, shape (n_rows,) or (n_rows, n_targets)
        sample_weight : array of shape (n_rows,), default=None

        Returns
        -------
        float
        """
        weight = None if sample_weight is None else to_numpy(sample_weight)
        y, prediction = to_numpy(y), to_numpy(self.predict(X))
        quantiles = getattr(self._fitted_loss, "quantile", None)
        if not isinstance(quantiles, tuple):
            return float(r2_score(y, prediction, sample_weight=weight))
        scores = [
            d2_pinball_score(y, prediction[:, k], sample_weight=weight, alpha=quantile)
            for k, quantile in enumerate(quantiles)
        ]
        return float(np.mean(scores))

    def _read_y(self, y: Any, n: int, device: Device, fit: bool, name: str) -> Array:
        columns = _columns(y)
        if not fit or hasattr(self, "forest_"):  # an evaluation set, or a warm start
            if len(columns) != self._n_targets:
                raise ValueError(
                    f"{name} has {len(columns)} targets, the model was trained on "
                    f"{self._n_targets}."
                )
        self._n_targets = len(columns)
        targets = [read_target(c, n, device, estimator=self, name=name) for c in columns]
        return targets[0] if len(targets) == 1 else device.xp.stack(targets, axis=1)

    def _bound(self, loss: Loss, target: Array) -> Loss:
        return loss.for_targets(1 if target.ndim == 1 else target.shape[1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        names = [loss.name for loss in OF_POSITIVE_NUMBERS]
        by_name = isinstance(self.loss, str) and self.loss in names
        tags.target_tags.positive_only = by_name or isinstance(self.loss, OF_POSITIVE_NUMBERS)
        return tags


def _columns(y: Any) -> list[Any]:
    """Return the targets of a regression, one array each; a single column does not change."""
    shape = getattr(y, "shape", None)
    shape = np.asarray(y).shape if shape is None else shape
    return columns_of(y) if len(shape) == 2 and shape[1] != 1 else [y]
