"""Shapley values of imported models, against those of their libraries and of shap."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_wine
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)

from gpuens import TreeExplainer, from_lightgbm, from_sklearn, from_xgboost

D, Y = load_diabetes(return_X_y=True)
W, L = load_wine(return_X_y=True)
H = np.where(np.random.default_rng(0).random(D.shape) < 0.1, np.nan, D)


def check(model, X, raw, theirs, tolerance):
    """Values add up to the raw scores, and are those of another library (n_rows, n_features,
    n_outputs)."""
    explainer = TreeExplainer(model)
    values = explainer.shap_values(X).reshape(*X.shape, -1)
    total = values.sum(axis=1) + np.atleast_1d(explainer.expected_value)
    scale = max(1.0, np.abs(raw).max())
    assert np.abs(total - raw.reshape(len(X), -1)).max() <= tolerance * scale
    assert np.abs(values - theirs.reshape(values.shape)).max() <= tolerance * scale
    contribs = model.predict(X[:5], pred_contribs=True).reshape(5, -1, X.shape[1] + 1)
    np.testing.assert_array_equal(contribs[:, :, :-1], values[:5].transpose(0, 2, 1))


def test_xgboost_computes_in_float32():
    xgboost = pytest.importorskip("xgboost")
    theirs = xgboost.XGBRegressor(n_estimators=10, max_depth=5).fit(H, Y)
    contribs = theirs.get_booster().predict(xgboost.DMatrix(H), pred_contribs=True)[:, :-1]
    check(from_xgboost(theirs), H, theirs.predict(H, output_margin=True), contribs, 1e-5)
    theirs = xgboost.XGBClassifier(n_estimators=5, max_depth=4).fit(W, L)
    contribs = theirs.get_booster().predict(xgboost.DMatrix(W), pred_contribs=True)[:, :, :-1]
    raw = theirs.predict(W, output_margin=True)
    check(from_xgboost(theirs), W, raw, contribs.transpose(0, 2, 1), 1e-5)


@pytest.mark.parametrize("kind", ["gbdt", "rf"])
def test_lightgbm(kind):
    lightgbm = pytest.importorskip("lightgbm")
    sampling = {"bagging_freq": 1, "bagging_fraction": 0.6} if kind == "rf" else {}
    theirs = lightgbm.LGBMRegressor(n_estimators=8, boosting_type=kind, verbose=-1, **sampling)
    theirs.fit(H, Y)
    contribs = theirs.predict(H, pred_contrib=True)[:, :-1]
    model = from_lightgbm(theirs.booster_)
    check(model, H, theirs.predict(H, raw_score=True), contribs, 1e-12)


def test_scikit_learn():
    shap = pytest.importorskip("shap")
    for theirs, X, y in (
        (GradientBoostingRegressor(n_estimators=8), D, Y),
        (HistGradientBoostingRegressor(max_iter=8), H, Y),
        (RandomForestClassifier(5, random_state=0), W, L),
    ):
        theirs.fit(X, y)
        predict = theirs.predict_proba if hasattr(theirs, "predict_proba") else theirs.predict
        values = shap.TreeExplainer(theirs).shap_values(X)
        check(from_sklearn(theirs), X, predict(X), values, 1e-10)
