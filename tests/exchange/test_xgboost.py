"""Models of XGBoost score as XGBoost does, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpuens
from tests.support.forest_problems import hard_rows

xgboost = pytest.importorskip("xgboost")

N = 600
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 6))
X[:, 3] = RNG.integers(0, 12, N)
X[:, 4] = RNG.integers(0, 3, N)
X[RNG.random(X.shape) < 0.1] = np.nan
SCORE = np.nan_to_num(X[:, 0]) + np.isin(X[:, 3], [1, 5, 7]) * 2.0 + np.nan_to_num(X[:, 4]) * 0.3
POSITIVE = np.exp(0.2 * SCORE)
BINARY = (SCORE > 1).astype(float)
CLASSES = np.digitize(SCORE, [0.0, 1.5]).astype(float)
TYPES = ["q", "q", "q", "c", "c", "q"]
HIST = {"tree_method": "hist", "max_depth": 4, "nthread": 1, "seed": 0}
CATEGORIES = HIST | {"feature_types": TYPES}

SETUPS: dict[str, tuple[dict[str, Any], Any]] = {
    "squared error, missing values": (HIST, SCORE),
    "deep": (HIST | {"max_depth": 12, "min_child_weight": 0.1}, SCORE),
    "categories": (CATEGORIES, SCORE),
    "categories one-hot": (CATEGORIES | {"max_cat_to_onehot": 100}, SCORE),
    "binary": (CATEGORIES | {"objective": "binary:logistic"}, BINARY),
    "binary, base": (HIST | {"objective": "binary:logistic", "base_score": 0.3}, BINARY),
    "logitraw": (HIST | {"objective": "binary:logitraw"}, BINARY),
    "hinge": (HIST | {"objective": "binary:hinge"}, BINARY),
    "multiclass": (CATEGORIES | {"objective": "multi:softprob", "num_class": 3}, CLASSES),
    "multiclass, vector leaves": (
        HIST | {"objective": "multi:softprob", "num_class": 3,
                "multi_strategy": "multi_output_tree"},
        CLASSES,
    ),
    "several targets": (HIST, np.stack([SCORE, -SCORE], 1)),
    "several targets, vector leaves": (
        HIST | {"multi_strategy": "multi_output_tree"}, np.stack([SCORE, -SCORE], 1),
    ),
    "dart": (
        HIST | {"booster": "dart", "rate_drop": 0.3, "normalize_type": "forest"}, SCORE,
    ),
    "parallel trees": (HIST | {"num_parallel_tree": 3, "subsample": 0.5}, SCORE),
    "exact": (HIST | {"tree_method": "exact"}, SCORE),
    "approx": (CATEGORIES | {"tree_method": "approx"}, SCORE),
    "quantile": (
        HIST | {"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.5, 0.9]}, SCORE,
    ),
    "absolute error": (HIST | {"objective": "reg:absoluteerror"}, SCORE),
    "pseudo-Huber": (HIST | {"objective": "reg:pseudohubererror"}, SCORE),
    "poisson": (HIST | {"objective": "count:poisson"}, POSITIVE),
    "gamma": (HIST | {"objective": "reg:gamma", "base_score": 1.7}, POSITIVE),
    "tweedie": (HIST | {"objective": "reg:tweedie"}, POSITIVE),
    "logistic regression": (HIST | {"objective": "reg:logistic"}, BINARY * 0.7 + 0.1),
    "rank": (HIST | {"objective": "rank:ndcg"}, CLASSES),
    "lossguide": (HIST | {"grow_policy": "lossguide", "max_leaves": 30, "max_depth": 0}, SCORE),
}  # fmt: skip


def train(name: str, rounds: int = 12) -> Any:
    parameters, target = SETUPS[name]
    data = xgboost.DMatrix(
        X, target, feature_types=parameters.get("feature_types"), enable_categorical=True
    )
    if name == "rank":
        data.set_group([N // 4] * 4)
    parameters = {k: v for k, v in parameters.items() if k != "feature_types"}
    return xgboost.train(parameters, data, rounds)


@pytest.mark.parametrize("name", SETUPS)
def test_raw_scores_are_those_of_xgboost(name):
    booster = train(name)
    rows = hard_rows(gpuens.from_xgboost(booster).forest_, 10_000, infinite=False)
    types = SETUPS[name][0].get("feature_types")
    data = xgboost.DMatrix(rows, feature_types=types, enable_categorical=True)
    expected = booster.predict(data, output_margin=True)
    for form in ("json", "ubj"):
        model = gpuens.from_xgboost(bytes(booster.save_raw(form)))
        for table in (rows, rows.astype(np.float32), np.asfortranarray(rows)):
            found = model.predict(table, output_margin=True)
            assert found.dtype == np.float32
            np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(model.predict(rows[:7], output_margin=True), expected[:7])
    predicted = (
        model.predict_proba(rows) if hasattr(model, "predict_proba") else model.predict(rows)
    )
    if name not in ("logitraw",):
        final = booster.predict(data)
        final = np.stack([1 - final, final], 1) if predicted.shape != final.shape else final
        np.testing.assert_allclose(predicted, final, rtol=2e-6, atol=1e-6)
    few = booster.predict(data, output_margin=True, iteration_range=(2, 5))
    np.testing.assert_array_equal(
        model.predict(rows, output_margin=True, iteration_range=(2, 5)), few
    )
