"""gpuens' gradient boosting with the parameters and defaults of scikit-learn's
HistGradientBoosting: ``max_iter`` for ``n_estimators``, 20 rows a leaf, no regularisation, early
stopping on large tables. Nothing else is translated."""

from __future__ import annotations

from typing import Any

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor


class _Renamed:
    line_search = False
    min_sum_hessian = 1e-3
    min_gain_to_split = 0.0
    subsample = colsample_bytree = colsample_bylevel = 1.0
    sampling, top_rate, other_rate = "uniform", 0.2, 0.1
    cat_smooth, cat_l2, max_cat_to_onehot = 10.0, 0.0, 4
    n_jobs: int | None = None
    device = "cpu"
    callbacks = None

    @property
    def n_estimators(self) -> int:
        return self.max_iter

    @property
    def colsample_bynode(self) -> float:
        return self.max_features

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **others: Any) -> Any:
        if self.scoring is None:
            return self._with_default_scoring(X, y, sample_weight, **others)
        return super().fit(X, y, sample_weight, **others)

    def _with_default_scoring(self, *data: Any, **others: Any) -> Any:
        self.scoring = self._default_scoring
        try:
            return self.fit(*data, **others)
        finally:
            self.scoring = None


class HistGradientBoostingRegressor(_Renamed, GradientBoostingRegressor):
    _default_scoring = "r2"

    def __init__(
        self, loss="squared_error", *, quantile=None, learning_rate=0.1, max_iter=100,
        max_leaf_nodes=31, max_depth=None, min_samples_leaf=20, l2_regularization=0.0,
        max_features=1.0, max_bins=255, categorical_features="from_dtype", monotonic_cst=None,
        interaction_cst=None, warm_start=False, early_stopping="auto", scoring="loss",
        validation_fraction=0.1, n_iter_no_change=10, tol=1e-7, verbose=0, random_state=None,
    ):  # fmt: skip
        self.loss = loss
        self.quantile = quantile
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.max_features = max_features
        self.max_bins = max_bins
        self.categorical_features = categorical_features
        self.monotonic_cst = monotonic_cst
        self.interaction_cst = interaction_cst
        self.warm_start = warm_start
        self.early_stopping = early_stopping
        self.scoring = scoring
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.verbose = verbose
        self.random_state = random_state


class HistGradientBoostingClassifier(_Renamed, GradientBoostingClassifier):
    _default_scoring = "accuracy"

    def __init__(
        self, loss="log_loss", *, learning_rate=0.1, max_iter=100, max_leaf_nodes=31,
        max_depth=None, min_samples_leaf=20, l2_regularization=0.0, max_features=1.0,
        max_bins=255, categorical_features="from_dtype", monotonic_cst=None,
        interaction_cst=None, warm_start=False, early_stopping="auto", scoring="loss",
        validation_fraction=0.1, n_iter_no_change=10, tol=1e-7, verbose=0, random_state=None,
        class_weight=None,
    ):  # fmt: skip
        self.loss = loss
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.max_features = max_features
        self.max_bins = max_bins
        self.categorical_features = categorical_features
        self.monotonic_cst = monotonic_cst
        self.interaction_cst = interaction_cst
        self.warm_start = warm_start
        self.early_stopping = early_stopping
        self.scoring = scoring
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.verbose = verbose
        self.random_state = random_state
        self.class_weight = class_weight
