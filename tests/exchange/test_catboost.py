"""Models of CatBoost score as CatBoost does, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gpuens
from tests.support.forest_problems import hard_rows

catboost = pytest.importorskip("catboost", reason="catboost (100 MB) is not installed")

N = 600
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 5))
MISSING = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
SCORE = X[:, 0] + np.abs(X[:, 1]) + X[:, 4]
BINARY = (SCORE > 1).astype(int)
CLASSES = np.digitize(SCORE, [0.0, 1.5])
PLAIN = {"iterations": 12, "depth": 4, "verbose": 0, "allow_writing_files": False,
         "thread_count": 1, "random_seed": 0}  # fmt: skip
TWO = np.stack([SCORE, -SCORE], 1)

SETUPS: dict[str, tuple[dict[str, Any], Any]] = {
    "oblivious": (PLAIN, SCORE),
    "lossguide": (PLAIN | {"grow_policy": "Lossguide", "max_leaves": 9}, SCORE),
    "depthwise": (PLAIN | {"grow_policy": "Depthwise"}, SCORE),
    "missing values are large": (PLAIN | {"nan_mode": "Max"}, SCORE),
    "binary": (PLAIN | {"loss_function": "Logloss"}, BINARY),
    "cross entropy": (PLAIN | {"loss_function": "CrossEntropy"}, BINARY * 0.8 + 0.1),
    "multiclass": (PLAIN | {"loss_function": "MultiClass"}, CLASSES),
    "multiclass, lossguide": (
        PLAIN | {"loss_function": "MultiClass", "grow_policy": "Lossguide"}, CLASSES,
    ),
    "one versus all": (PLAIN | {"loss_function": "MultiClassOneVsAll"}, CLASSES),
    "several targets": (PLAIN | {"loss_function": "MultiRMSE"}, TWO),
    "uncertainty": (PLAIN | {"loss_function": "RMSEWithUncertainty"}, SCORE),
    "quantile": (PLAIN | {"loss_function": "Quantile:alpha=0.8"}, SCORE),
    "poisson": (PLAIN | {"loss_function": "Poisson"}, np.exp(0.2 * SCORE)),
    "tweedie": (PLAIN | {"loss_function": "Tweedie:variance_power=1.5"}, np.exp(0.2 * SCORE)),
}  # fmt: skip


def saved(model: Any, folder: Path, pool: Any = None) -> Path:
    path = folder / "model.json"
    model.save_model(str(path), format="json", pool=pool)
    return path


@pytest.mark.parametrize("name", SETUPS)
def test_raw_scores_are_those_of_catboost(name, tmp_path):
    parameters, target = SETUPS[name]
    source = catboost.CatBoost(parameters).fit(MISSING, target)
    source.set_scale_and_bias(1.25, source.get_scale_and_bias()[1])
    path = saved(source, tmp_path)
    for model in (gpuens.from_catboost(path), gpuens.from_catboost(source)):
        for dtype in (np.float64, np.float32):
            rows = hard_rows(model.forest_, 10_000, dtype)
            expected = source.predict(rows, prediction_type="RawFormulaVal")
            np.testing.assert_array_equal(model.predict(rows, output_margin=True), expected)


@pytest.mark.parametrize("name", ["binary", "multiclass", "one versus all", "poisson", "tweedie",
                                  "uncertainty"])  # fmt: skip
def test_predictions(name):
    parameters, target = SETUPS[name]
    if isinstance(target[0], np.integer):
        target = np.array(["a", "b", "c"])[target]
        source = catboost.CatBoostClassifier(**parameters).fit(MISSING, target)
        model = gpuens.from_catboost(source)
        np.testing.assert_array_equal(model.predict(X), source.predict(X).ravel())
        np.testing.assert_allclose(model.predict_proba(X), source.predict_proba(X), rtol=1e-12)
        assert list(model.classes_) == list(source.classes_)
    else:
        source = catboost.CatBoostRegressor(**parameters).fit(MISSING, target)
        np.testing.assert_allclose(
            gpuens.from_catboost(source).predict(X), source.predict(X), rtol=1e-12
        )


def test_categories_by_their_values(tmp_path):
    frame = pd.DataFrame(MISSING[:, :2], columns=["a", "b"])
    frame["text"] = RNG.choice(["x", "y", "z", "5"], N)
    frame["number"] = RNG.choice([-3, 5, 17], N)
    target = SCORE + (frame.text == "x") * 2 + (frame.number == 5)
    pool = catboost.Pool(frame, target, cat_features=["text", "number"])
    source = catboost.CatBoostRegressor(**PLAIN, one_hot_max_size=10).fit(pool)
    path = saved(source, tmp_path, pool)
    model = gpuens.from_catboost(json.loads(path.read_text()))
    rows = frame.copy()
    rows.loc[::7, "text"] = "never seen"
    rows.loc[::5, "number"] = 99
    expected = source.predict(rows)
    np.testing.assert_array_equal(model.predict(rows), expected)
    with pytest.warns(UserWarning, match="feature names"):
        np.testing.assert_array_equal(model.predict(rows.to_numpy(object)), expected)
    as_text = rows.assign(number=rows.number.astype(str))
    np.testing.assert_array_equal(model.predict(as_text), expected)
    with pytest.raises(gpuens.ImportedModelError, match="cat_features_hash"):
        gpuens.from_catboost({**json.loads(path.read_text()), "features_info": {
            **json.loads(path.read_text())["features_info"], "cat_features_hash": []}})  # fmt: skip


def test_statistics_of_categories_are_refused(tmp_path):
    frame = pd.DataFrame({"a": X[:, 0], "c": RNG.integers(0, 50, N).astype(str)})
    pool = catboost.Pool(frame, SCORE + (frame.c < "3"), cat_features=["c"])
    source = catboost.CatBoostRegressor(**PLAIN).fit(pool)
    with pytest.raises(gpuens.ImportedModelError, match=r"split_type is 'OnlineCtr'"):
        gpuens.from_catboost(saved(source, tmp_path, pool))
