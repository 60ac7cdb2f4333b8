"""gpuens' gradient boosting with the parameters and defaults of scikit-learn's
HistGradientBoosting: ``max_iter`` for ``n_estimators``, 20 rows a leaf, no regularisation, early
stopping on large tables, and all trees kept.

Three private names, through which tests look at what has another name here, are translated too:
``_predictors`` (the trees), ``_should_stop`` (the rule of early stopping), and the loss objects of
``sklearn._loss``. Nothing is computed for the tests alone."""

from __future__ import annotations

from typing import Any

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.estimators.validation import EarlyStopping
from gpuens.forest.view import TreeView
from gpuens.losses import Loss


class _Tree:
    """A tree by the names of scikit-learn's ``TreePredictor``."""

    def __init__(self, tree: TreeView) -> None:
        self.nodes = tree.feature
        self.get_max_depth = lambda: tree.max_depth
        self.get_n_leaf_nodes = lambda: tree.n_leaves


class _Renamed:
    line_search = False
    dropout = skip_dropout = 0.0
    linear_leaves, linear_lambda = False, 0.0
    max_drop, uniform_drop, normalize_drop = None, True, "tree"
    min_sum_hessian = 1e-3
    min_gain_to_split = 0.0
    subsample = colsample_bytree = colsample_bylevel = colsample_bynode = 1.0
    sampling, top_rate, other_rate = "uniform", 0.2, 0.1
    cat_smooth, cat_l2, max_cat_to_onehot, cat_hash_groups = 10.0, 0.0, 4, 1
    keep_best = False
    n_jobs: int | None = None
    device = "cpu"
    callbacks = None

    def _take(self, given: dict[str, Any]) -> None:
        """Set the parameters that ``__init__`` was called with."""
        self.__dict__ |= {name: value for name, value in given.items() if name != "self"}

    @property
    def n_estimators(self) -> int:
        return self.max_iter

    @property
    def _predictors(self) -> list[list[_Tree]]:
        k = self.n_trees_per_iteration_
        trees = [_Tree(TreeView(self.forest_, t, (1,))) for t in range(self.forest_.n_trees)]
        return [trees[first : first + k] for first in range(0, len(trees), k)]

    def _should_stop(self, scores: list[float]) -> bool:
        rule = EarlyStopping(self.n_iter_no_change, self.tol, higher_is_better=True)
        return any(rule.update(round_, score) for round_, score in enumerate(scores))

    def _read_loss(self) -> Loss:
        """One of scikit-learn's loss objects is the objective that its method is."""
        given = self.loss
        self.loss = getattr(given, "gradient_hessian", given)
        try:
            return super()._read_loss()
        finally:
            self.loss = given


class HistGradientBoostingRegressor(_Renamed, GradientBoostingRegressor):
    def __init__(
        self, loss="squared_error", *, quantile=None, learning_rate=0.1, max_iter=100,
        max_leaf_nodes=31, max_depth=None, min_samples_leaf=20, l2_regularization=0.0,
        max_features=1.0, max_bins=255, categorical_features="from_dtype", monotonic_cst=None,
        interaction_cst=None, warm_start=False, early_stopping="auto", scoring="loss",
        validation_fraction=0.1, n_iter_no_change=10, tol=1e-7, verbose=0, random_state=None,
    ):  # fmt: skip
        self._take(locals())


class HistGradientBoostingClassifier(_Renamed, GradientBoostingClassifier):
    def __init__(
        self, loss="log_loss", *, learning_rate=0.1, max_iter=100, max_leaf_nodes=31,
        max_depth=None, min_samples_leaf=20, l2_regularization=0.0, max_features=1.0,
        max_bins=255, categorical_features="from_dtype", monotonic_cst=None,
        interaction_cst=None, warm_start=False, early_stopping="auto", scoring="loss",
        validation_fraction=0.1, n_iter_no_change=10, tol=1e-7, verbose=0, random_state=None,
        class_weight=None,
    ):  # fmt: skip
        self._take(locals())
