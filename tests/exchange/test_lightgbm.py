"""Models of LightGBM score as LightGBM does, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpuens
from tests.support.forest_problems import hard_rows

lightgbm = pytest.importorskip("lightgbm")

N = 600
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 6))
X[:, 3] = RNG.integers(0, 60, N)
X[:, 4] = RNG.integers(0, 3, N)
X[:, 5] *= RNG.random(N) < 0.4
MISSING = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
SCORE = X[:, 0] + np.isin(X[:, 3] % 10, [1, 5, 7]) * 2.0 + X[:, 4] * 0.3 + X[:, 5]
POSITIVE = np.exp(0.2 * SCORE)
BINARY = (SCORE > 1).astype(float)
CLASSES = np.digitize(SCORE, [0.0, 1.5]).astype(float)
PLAIN = {"verbose": -1, "num_leaves": 12, "num_threads": 1, "seed": 0, "min_data_in_leaf": 5}
CATEGORIES = PLAIN | {"categorical_feature": [3, 4]}

SETUPS: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "regression": (PLAIN, X, SCORE),
    "missing values": (PLAIN, MISSING, SCORE),
    "zeros are missing": (PLAIN | {"zero_as_missing": True}, MISSING, SCORE),
    "no missing values": (PLAIN | {"use_missing": False}, MISSING, SCORE),
    "categories": (CATEGORIES, MISSING, SCORE),
    "binary": (CATEGORIES | {"objective": "binary", "sigmoid": 1.7}, MISSING, BINARY),
    "multiclass": (CATEGORIES | {"objective": "multiclass", "num_class": 3}, MISSING, CLASSES),
    "one versus all": (PLAIN | {"objective": "multiclassova", "num_class": 3}, MISSING, CLASSES),
    "dart": (PLAIN | {"boosting": "dart", "drop_rate": 0.5}, MISSING, SCORE),
    "random forest": (
        PLAIN | {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}, MISSING, SCORE,
    ),
    "goss": (PLAIN | {"data_sample_strategy": "goss"}, MISSING, SCORE),
    "l1": (PLAIN | {"objective": "l1"}, MISSING, SCORE),
    "huber": (PLAIN | {"objective": "huber"}, MISSING, SCORE),
    "quantile": (PLAIN | {"objective": "quantile"}, MISSING, SCORE),
    "square root": (PLAIN | {"objective": "regression", "reg_sqrt": True}, MISSING, SCORE),
    "poisson": (PLAIN | {"objective": "poisson"}, MISSING, POSITIVE),
    "gamma": (PLAIN | {"objective": "gamma"}, MISSING, POSITIVE),
    "tweedie": (PLAIN | {"objective": "tweedie"}, MISSING, POSITIVE),
    "cross entropy": (PLAIN | {"objective": "cross_entropy"}, MISSING, BINARY * 0.8 + 0.1),
    "cross entropy lambda": (
        PLAIN | {"objective": "cross_entropy_lambda"}, MISSING, BINARY * 0.8 + 0.1,
    ),
    "lambdarank": (PLAIN | {"objective": "lambdarank"}, MISSING, CLASSES),
    "quantised": (PLAIN | {"use_quantized_grad": True}, MISSING, SCORE),
    "one leaf": (PLAIN | {"min_data_in_leaf": N}, X, SCORE),
}  # fmt: skip


def train(name: str, rounds: int = 12) -> Any:
    parameters, table, target = SETUPS[name]
    group = [N // 4] * 4 if name == "lambdarank" else None
    parameters = dict(parameters)
    categorical = parameters.pop("categorical_feature", "auto")
    data = lightgbm.Dataset(table, target, group=group, categorical_feature=categorical)
    return lightgbm.train(parameters, data, rounds)


@pytest.mark.parametrize("name", SETUPS)
def test_raw_scores_are_those_of_lightgbm(name):
    booster = train(name)
    model = gpuens.from_lightgbm(booster.model_to_string())
    few_rounds = (0, 1) if name == "one leaf" else (2, 5)
    for dtype in (np.float64, np.float32):
        rows = hard_rows(model.forest_, 10_000, dtype)
        expected = booster.predict(rows, raw_score=True)
        np.testing.assert_array_equal(model.predict(rows, output_margin=True), expected)
        few = booster.predict(
            rows,
            raw_score=True,
            start_iteration=few_rounds[0],
            num_iteration=few_rounds[1] - few_rounds[0],
        )
        found = model.predict(rows, output_margin=True, iteration_range=few_rounds)
        np.testing.assert_array_equal(found, few)
    final = booster.predict(rows)
    predicted = (
        model.predict_proba(rows) if hasattr(model, "predict_proba") else model.predict(rows)
    )
    final = np.stack([1 - final, final], 1) if predicted.shape != final.shape else final
    np.testing.assert_allclose(predicted, final, rtol=1e-12, atol=1e-300)
