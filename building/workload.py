"""Runs everything whose kernels belong into the library."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import xgboost
from scipy.sparse import csr_array

import gpuens
from gpuens.kernels.growth.frontier import N_NODES, NO_GAIN, allocate
from gpuens.kernels.growth.grow import finished
from gpuens.kernels.growth.params import NO_RULES, FeatureRules, GrowthParams
from gpuens.kernels.runtime.collective import Alone, Workers, sharing
from tests.support.fingerprints import fingerprints

MANY, FEW = 1500, 3
"""Rows that are predicted: enough for every method of prediction."""
OF_BOOSTING = (
    "GradientBoostingRegressor/sparse", "GradientBoostingClassifier/streamed",
    "GradientBoostingRegressor/streamed", "boosting/classifier/focal",
)  # fmt: skip
OF_FORESTS = "ObliqueRandomForest/honest", "survival/forest of pruned trees"
"""The models with fingerprints that run kernels which nothing else here runs. ``tests/native``
fits all 400, a minute of work, and names the kernel that is missing."""


def run_everything(take: Callable[[int], bool], backwards: bool) -> None:
    """Fit and use models of every kind, loss, setting and layout of tables, in the steps that
    ``take`` agrees to, from the first or the last of them on."""
    numbered = list(enumerate(steps()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # three trees leave rows without an estimate
        for number, run in reversed(numbered) if backwards else numbered:
            if take(number):
                run()


def steps() -> list[Callable[[], object]]:
    """Return what there is to run, in parts that any process can run in any order.

    Kernels of boosting are made of the same functions, those of exact trees too, and each process
    compiles the functions that it needs: boosting is at one end, exact trees are at the other.
    """
    regressor, classifier, *others = (partial(use_everywhere, model, y) for model, y in models())
    return [
        regressor, *(partial(fingerprints, [name]) for name in OF_BOOSTING), share_rows, classifier,
        fit_linear_leaves, bin_batches, read_models, finish_trees,
        partial(gpuens.warmup, "cpu", verbose=False),
        *(partial(fingerprints, [name]) for name in OF_FORESTS), *others,
    ]  # fmt: skip


def rows() -> np.ndarray:
    """Return a table with missing values."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(MANY, 5))
    X[rng.random(X.shape) < 0.05] = np.nan
    return X


def layouts(X: np.ndarray) -> Iterator[np.ndarray]:
    """Generate the table in all dtypes, orders and permissions."""
    for dtype in (np.float64, np.float32):
        table = X.astype(dtype)
        wide = np.repeat(table, 2, axis=1)
        for view in (table, np.asfortranarray(table), wide[:, ::2], table[::-1]):
            yield view
            frozen = view.view()
            frozen.flags.writeable = False
            yield frozen


def models() -> Iterator[tuple[Any, np.ndarray]]:
    """Generate models with their targets, a kind of table and of prediction each."""
    y = rows()[:, 0] * 0 + np.arange(MANY) % 7
    y[np.isnan(y)] = 3.0
    few: dict[str, Any] = {"n_estimators": 3, "device": "cpu", "random_state": 0}
    yield gpuens.GradientBoostingRegressor(**few), y
    yield gpuens.GradientBoostingClassifier(**few), y
    yield gpuens.RandomForestRegressor(**few), y + np.arange(MANY) / 7
    yield gpuens.RandomForestClassifier(**few), y
    yield gpuens.IsolationForest(**few), y
    yield gpuens.DecisionTreeRegressor(device="cpu"), y


def use_everywhere(model: Any, y: np.ndarray) -> None:
    """Fit a model, explain it, and use it with all layouts of tables."""
    X = rows()
    explain(model.fit(np.nan_to_num(X) if isinstance(model, gpuens.IsolationForest) else X, y))
    for table in layouts(X):
        use(model, table)


def bin_batches() -> None:
    """Bin tables of both dtypes batch by batch."""
    for dtype in (np.float64, np.float32):
        gpuens.BinnedTable.from_batches(rows().astype(dtype))


def fit_linear_leaves() -> None:
    """Fit models whose leaves are linear, which are not explained, in both dtypes, and predict."""
    X = rows()
    for dtype in (np.float64, np.float32):
        table = X.astype(dtype)
        model = gpuens.GradientBoostingClassifier(n_estimators=3, linear_leaves=True, device="cpu")
        model.fit(table, np.nan_to_num(X[:, 0]) > 0).predict_proba(table)


def finish_trees() -> None:
    """Put the nodes of trees in order, which the host does after their growth on a GPU."""
    params = GrowthParams(31, 6, 20, 1e-3, 0.0, 0.0, 1.0, 1.0, 1.0)
    of_categories = FeatureRules(categorical=np.ones(5, np.bool_))
    for rules in (NO_RULES, of_categories):
        n_bins, keys = np.full(5, 9, np.int32), np.zeros(1, np.uint64)
        frontier = allocate([MANY], keys, params, n_bins, rules)
        frontier.state[N_NODES] = 1  # a root that is not split
        for name in ("parent", "child", "feature"):
            frontier.nodes[name] = -1
        frontier.nodes["gain"] = NO_GAIN
        finished(frontier, params)


def read_models() -> None:
    """Predict with models of XGBoost, which add up values in float32; some have three outputs."""
    X = rows()
    y = np.arange(MANY) % 3
    settings: dict[str, Any] = {"tree_method": "hist", "nthread": 1, "max_depth": 8}
    deep = settings | {"max_depth": 12, "min_child_weight": 0.1}
    of_classes = settings | {"objective": "multi:softprob", "num_class": 3}
    vectors = of_classes | {"multi_strategy": "multi_output_tree"}
    for parameters in (settings, deep, of_classes, vectors):
        model = gpuens.from_xgboost(xgboost.train(parameters, xgboost.DMatrix(X, y), 3))
        for table in layouts(X):
            for part in (table, table[:FEW], table[:1]):
                model.predict(part)


def share_rows() -> None:
    """Fit models of every loss on a table that workers share, here by a single one."""
    X = rows()
    y = np.arange(MANY) % 3
    share = Workers(Alone(), 0, MANY, MANY)
    few: dict[str, Any] = {"n_estimators": 3, "device": "cpu", "min_samples_leaf": 300}
    with sharing(share):
        for loss in ("squared_error", "poisson", "gamma", "tweedie"):
            gpuens.GradientBoostingRegressor(loss=loss, **few).fit(X, y + 1.0)
        for n_classes, loss in ((2, "log_loss"), (3, "log_loss"), (2, "exponential"), (3, "focal")):
            gpuens.GradientBoostingClassifier(loss=loss, **few).fit(X, y % n_classes)
        wide = np.tile(X, 4)
        wide[np.arange(wide.size).reshape(wide.shape) % 13 > 0] = 0.0
        gpuens.GradientBoostingRegressor(**few | {"min_samples_leaf": 3}).fit(csr_array(wide), y)


def use(model: Any, table: np.ndarray) -> None:
    """Fit a copy to the table, and predict many rows and few."""
    if isinstance(model, gpuens.IsolationForest):
        table = np.nan_to_num(table)
    y = np.arange(MANY) % 3
    type(model)(**model.get_params()).fit(table, y)
    for part in (table, table[:FEW], table[:1]):
        model.predict(part)
        if hasattr(model, "apply"):
            model.apply(part)
        if hasattr(model, "predict_proba"):
            model.predict_proba(part)


def explain(model: Any) -> None:
    """Compute Shapley values and interactions in both ways."""
    X = np.nan_to_num(rows())[:40]
    for background in (None, X[:10]):
        explainer = gpuens.TreeExplainer(model, background)
        for table in layouts(X):
            explainer.shap_values(table)
    gpuens.TreeExplainer(model).shap_interaction_values(X[:4])
