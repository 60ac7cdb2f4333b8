"""Predictions for batches of rows."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor, predict_batches

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(500, 3)), columns=["a", "b", "c"])
CLASSES = np.digitize(FRAME["a"], [-0.5, 0.5]).astype(str)
MODEL = GradientBoostingClassifier(n_estimators=3, device="cpu").fit(FRAME, CLASSES)


@pytest.fixture
def rows(tmp_path):
    FRAME[["c", "b", "a"]].assign(id=range(500)).to_parquet(tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
def test_the_iterator(rows, method):
    parts = predict_batches(MODEL, rows, method=method)
    np.testing.assert_array_equal(np.concatenate(list(parts)), getattr(MODEL, method)(FRAME))


def test_a_file_of_classes(rows, tmp_path):
    assert predict_batches(MODEL, rows, method="predict_proba", path=tmp_path / "out") == 500
    written = pd.read_parquet(tmp_path / "out")
    assert list(written.columns) == ["0", "1", "2"]
    np.testing.assert_array_equal(written.to_numpy(), MODEL.predict_proba(FRAME))
    predict_batches(MODEL, rows, path=tmp_path / "out")
    predicted = pd.read_parquet(tmp_path / "out")["prediction"]
    assert predicted.tolist() == MODEL.predict(FRAME).tolist()


def test_several_outputs(tmp_path):
    X = FRAME.to_numpy()
    model = GradientBoostingRegressor(n_estimators=2, device="cpu").fit(X, X[:, :2])
    predict_batches(model, lambda: [(X[:200],), (X[200:],)], path=tmp_path / "out")
    written = pd.read_parquet(tmp_path / "out")
    np.testing.assert_array_equal(written.to_numpy(), model.predict(X))


def test_bad_input(rows, tmp_path):
    with pytest.raises(ValueError, match="method must be one of"):
        predict_batches(MODEL, rows, method="fit")
    with pytest.raises(ValueError, match=r"no columns \['c'\]"):
        list(predict_batches(MODEL, lambda: [(FRAME[["a", "b"]],)]))
    with pytest.raises(ValueError, match="nothing to predict"):
        predict_batches(MODEL, lambda: [], path=tmp_path / "out")
    assert "out" not in os.listdir(tmp_path)
