"""Imported models score on a GPU as on the CPU, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier

import gpuens
from tests.support.forest_problems import hard_rows

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("cupy")]

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 5))
X[:, 3] = RNG.integers(0, 12, 400)
X[RNG.random(X.shape) < 0.1] = np.nan
Y = np.nan_to_num(X[:, 0]) + np.isin(X[:, 3], [1, 5, 7]) * 2.0
CLASSES = np.digitize(Y, [0.0, 1.0])


def from_xgboost(target=Y, types="qqqqq", rounds=6, missing=np.nan, **parameters):
    xgboost = pytest.importorskip("xgboost")
    data = xgboost.DMatrix(X, target, feature_types=list(types), enable_categorical=True)
    booster = xgboost.train({"max_depth": 4, **parameters}, data, rounds)
    return gpuens.from_xgboost(bytes(booster.save_raw("ubj")), missing=missing)


def from_lightgbm(**parameters):
    lightgbm = pytest.importorskip("lightgbm")
    data = lightgbm.Dataset(X, Y, categorical_feature=[3])
    return gpuens.from_lightgbm(lightgbm.train({"verbose": -1, **parameters}, data, 6))


def from_treelite():
    treelite = pytest.importorskip("treelite")
    xgboost = pytest.importorskip("xgboost")
    booster = xgboost.train({"max_depth": 3}, xgboost.DMatrix(X, Y), 6)
    return gpuens.from_treelite(treelite.frontend.from_xgboost(booster))


MODELS = {
    "xgboost, shallow": from_xgboost,
    "xgboost, deep": lambda: from_xgboost(max_depth=12, min_child_weight=0.1),
    "xgboost, categories": lambda: from_xgboost(types="qqqcq", missing=-999.0),
    "xgboost, classes": lambda: from_xgboost(CLASSES, objective="multi:softprob", num_class=3),
    "xgboost, vector leaves": lambda: from_xgboost(
        np.stack([Y, -Y], 1), tree_method="hist", multi_strategy="multi_output_tree"
    ),
    "lightgbm": from_lightgbm,
    "lightgbm, zeros are missing": lambda: from_lightgbm(zero_as_missing=True),
    "scikit-learn, forest": lambda: gpuens.from_sklearn(
        RandomForestClassifier(6, random_state=0).fit(X, CLASSES)
    ),
    "scikit-learn, histograms": lambda: gpuens.from_sklearn(
        HistGradientBoostingRegressor(max_iter=6, categorical_features=[3]).fit(X, Y)
    ),
    "treelite": from_treelite,
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("n", [3, 1500])
def test_scores_are_those_of_the_cpu(name, n):
    model = MODELS[name]()
    for dtype in (np.float32, np.float64):
        rows = hard_rows(model.forest_, n, dtype)
        rows[rows == 1.0] = -999.0
        results = []
        for device in ("cpu", "cuda"):
            model.set_params(device=device)
            results.append(
                [model.predict(rows, output_margin=True), model.apply(rows), model.predict(rows)]
            )
        for on_cpu, on_gpu in zip(*results, strict=True):
            np.testing.assert_array_equal(on_gpu, on_cpu)
