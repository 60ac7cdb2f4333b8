"""The learners of the state machines, and their data."""

from __future__ import annotations

from typing import Any

import numpy as np

import gpuens
from tests.support.suited import suited

N_ROWS = 80
FAMILIES: dict[str, tuple[tuple[str, dict[str, Any]], ...]] = {
    "boosting": (
        ("GradientBoostingClassifier", {"subsample": 0.7, "max_depth": 2, "early_stopping": False}),
        ("GradientBoostingRegressor", {"loss": "absolute_error", "max_leaf_nodes": 5,
                                       "early_stopping": False}),
        ("GradientBoostingRegressor", {"colsample_bytree": 0.5, "early_stopping": False,
                                       "sampling": "goss"}),
        ("GradientBoostingRegressor", {"linear_leaves": True, "max_leaf_nodes": 5}),
        ("GradientBoostingRegressor", {"dropout": 0.6, "max_leaf_nodes": 5, "loss": "poisson"}),
        ("GradientBoostingClassifier", {"dropout": 0.4, "skip_dropout": 0.3, "max_drop": 2,
                                        "normalize_drop": "forest", "uniform_drop": False}),
        ("GradientBoostingRanker", {"max_leaf_nodes": 5, "subsample": 0.7}),
        ("GradientBoostingRanker", {"loss": "xendcg", "dropout": 0.5, "max_leaf_nodes": 5}),
    ),
    "distributions": tuple(
        ("GradientBoostingRegressor", {"loss": loss, "max_leaf_nodes": 5} | settings)
        for loss, settings in (("normal", {}), ("student_t", {"subsample": 0.7}),
                               ("log_normal", {"dropout": 0.5}), ("negative_binomial", {}))
    ),
    "survival": (
        ("GradientBoostingRegressor", {"loss": "cox", "max_leaf_nodes": 5}),
        ("GradientBoostingRegressor", {"loss": "aft", "max_leaf_nodes": 5, "dropout": 0.5}),
        ("RandomSurvivalForest", {"max_depth": 4, "oob_score": True}),
        ("ExtraSurvivalTrees", {"max_depth": 4}),
    ),
    "forests": (
        ("RandomForestClassifier", {"max_depth": 4}),
        ("ExtraTreesRegressor", {"max_depth": 4}),
        ("QuantileForestRegressor", {"max_depth": 4}),
        ("IsolationForest", {}),
        ("ObliqueRandomForestClassifier", {"max_depth": 4, "feature_combinations": 2}),
        ("ObliqueRandomForestRegressor", {"max_depth": 4, "feature_combinations": 3,
                                          "honest": True, "n_projections": 9}),
    ),
    "trees": (
        ("DecisionTreeClassifier", {"max_depth": 4}),
        ("ExtraTreeRegressor", {"max_depth": 4}),
    ),
    "adaboost": (
        ("AdaBoostClassifier", {}),
        ("AdaBoostRegressor", {}),
        ("StagewiseRegressor", {}),
    ),
    "bagging": (
        ("BaggingClassifier", {"max_samples": 0.7}),
        ("BaggingRegressor", {"max_features": 0.7}),
    ),
    "conformal": tuple(
        ("ConformalRegressor", {"estimator": kind(n_estimators=25, max_depth=2, n_jobs=1,
                                                  device="cpu", random_state=0)} | settings)
        for kind, settings in (
            (gpuens.GradientBoostingRegressor, {"method": "split"}),
            (gpuens.ExtraTreesRegressor, {"method": "cv+", "cv": 3}),
            (gpuens.RandomForestRegressor, {"method": "bag"}),
            (gpuens.GradientBoostingRegressor, {"method": "quantile"}),
        )
    ) + (
        ("ConformalClassifier", {"estimator": gpuens.ExtraTreesClassifier(
            n_estimators=5, n_jobs=1, device="cpu", random_state=0), "conformity_score": "aps"}),
    ),
}  # fmt: skip


def data_of(name: str, loss: Any, which: int) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Return one of two tables with missing values and ties, a target, and further arguments of
    ``fit``."""
    rng = np.random.default_rng(which)
    X = rng.normal(size=(N_ROWS, 4)).round(1).astype(np.float32)
    X[rng.random(X.shape) < 0.05] = np.nan
    y = np.nan_to_num(X[:, 0] * 2 + X[:, 1]) + rng.normal(size=N_ROWS)
    return X, *suited(name, loss, y)
