"""Models of scikit-learn score as scikit-learn does, bit for bit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import gpuens
from tests.support.forest_problems import hard_rows

N = 500
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 5))
MISSING = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
SCORE = X[:, 0] + np.abs(X[:, 1]) + X[:, 4]
BINARY = np.where(SCORE > 1, "yes", "no")
CLASSES = np.digitize(SCORE, [0.0, 1.5]) * 10
TWO = np.stack([SCORE, -SCORE], 1)
FEW = {"n_estimators": 12, "random_state": 0}
HIST = {"max_iter": 12, "random_state": 0}

SETUPS = {
    "tree": (DecisionTreeRegressor(random_state=0), MISSING, SCORE),
    "tree, classes": (DecisionTreeClassifier(max_depth=5), MISSING, CLASSES),
    "tree, several targets": (DecisionTreeRegressor(max_depth=5), X, TWO),
    "forest": (RandomForestRegressor(**FEW), MISSING, SCORE),
    "forest, classes": (RandomForestClassifier(**FEW), MISSING, CLASSES),
    "forest, absolute error": (
        RandomForestRegressor(3, criterion="absolute_error", max_depth=3, random_state=0), X, SCORE,
    ),
    "extra trees": (ExtraTreesClassifier(**FEW), MISSING, BINARY),
    "extra trees, several targets": (ExtraTreesRegressor(**FEW), X, TWO),
    "boosting": (GradientBoostingRegressor(**FEW), X, SCORE),
    "boosting, quantile": (GradientBoostingRegressor(**FEW, loss="quantile"), X, SCORE),
    "boosting from zero": (GradientBoostingRegressor(**FEW, init="zero"), X, SCORE),
    "boosting, two classes": (GradientBoostingClassifier(**FEW), X, BINARY),
    "boosting, exponential": (GradientBoostingClassifier(**FEW, loss="exponential"), X, BINARY),
    "boosting, classes": (GradientBoostingClassifier(**FEW, learning_rate=0.3), X, CLASSES),
    "histograms": (HistGradientBoostingRegressor(**HIST), MISSING, SCORE),
    "histograms, poisson": (
        HistGradientBoostingRegressor(**HIST, loss="poisson"), MISSING, np.exp(0.2 * SCORE),
    ),
    "histograms, gamma": (
        HistGradientBoostingRegressor(**HIST, loss="gamma"), MISSING, np.exp(0.2 * SCORE),
    ),
    "histograms, two classes": (HistGradientBoostingClassifier(**HIST), MISSING, BINARY),
    "histograms, classes": (HistGradientBoostingClassifier(**HIST), MISSING, CLASSES),
}  # fmt: skip


@pytest.mark.parametrize("name", SETUPS)
def test_scores_are_those_of_scikit_learn(name):
    source, table, target = SETUPS[name]
    source = clone(source).fit(table, target)
    model = gpuens.from_sklearn(source)
    of_trees = not name.startswith("histograms")
    with np.errstate(over="ignore"):
        rows = hard_rows(model.forest_, 10_000, infinite=not of_trees)
        rows[np.abs(rows) > 1e38] = 0 if of_trees else np.inf
        rows = np.nan_to_num(rows, nan=0.5) if table is X else rows
    found = model.predict(rows)
    if hasattr(source, "predict_proba"):
        np.testing.assert_array_equal(found, source.predict(rows))
        check = np.testing.assert_array_equal if of_trees and "boost" not in name else close
        check(model.predict_proba(rows), source.predict_proba(rows))
    elif name.endswith(("poisson", "gamma")):
        close(found, source.predict(rows))
    else:
        np.testing.assert_array_equal(found, source.predict(rows))
    raw = getattr(source, "_raw_predict", None)
    if raw is not None:
        expected = raw(rows.astype(np.float32) if of_trees else rows)
        margin = model.predict(rows, output_margin=True)
        np.testing.assert_array_equal(margin.reshape(len(rows), -1), expected)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("text", [True, False])
def test_categories_of_histograms(text):
    frame = pd.DataFrame(MISSING, columns=list("abcde"))
    values = np.array(["red", "green", "blue", "pink"]) if text else np.array([3, 5, 17, 40])
    frame["c"] = RNG.choice(values, N)
    frame["d"] = pd.Categorical(RNG.choice(["u", "v", None], N))
    target = SCORE + (frame.c == values[1]) * 2 + (frame.d == "v")
    source = HistGradientBoostingRegressor(**HIST, categorical_features=["c", "d"])
    source.fit(frame, target)
    model = gpuens.from_sklearn(source)
    rows = frame.copy()
    rows.loc[::7, "c"] = "never seen" if text else 99
    np.testing.assert_array_equal(model.predict(rows), source.predict(rows))
    assert list(model.feature_names_in_) == list("abcde")


def test_categories_of_histograms_in_arrays():
    table = MISSING.copy()
    table[:, 1] = RNG.choice([3, 5, 17, np.nan], N)
    source = HistGradientBoostingClassifier(**HIST, categorical_features=[1])
    source.fit(table, SCORE + (table[:, 1] == 5) * 2 > 1)
    table[::7, 1] = 4
    found = gpuens.from_sklearn(source).predict(table, output_margin=True)
    np.testing.assert_array_equal(found, source.decision_function(table))


def test_what_cannot_be_imported():
    with pytest.raises(gpuens.ImportedModelError, match="estimator must be .*IsolationForest"):
        gpuens.from_sklearn(IsolationForest().fit(X))
    source = GradientBoostingRegressor(n_estimators=2, init=LinearRegression()).fit(X, SCORE)
    with pytest.raises(gpuens.ImportedModelError, match="init is LinearRegression"):
        gpuens.from_sklearn(source)
    source = DecisionTreeClassifier(max_depth=2).fit(X, np.stack([BINARY, BINARY], 1))
    with pytest.raises(gpuens.ImportedModelError, match="n_outputs_ is 2"):
        gpuens.from_sklearn(source)


@pytest.mark.parametrize("make", [
    lambda: GradientBoostingClassifier(n_estimators=2),
    lambda: GradientBoostingClassifier(n_estimators=2, loss="exponential", init="zero"),
    lambda: HistGradientBoostingClassifier(max_iter=2),
    lambda: RandomForestClassifier(3, bootstrap=False),
])  # fmt: skip
def test_classes_that_are_equally_likely(make):
    rows, labels = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array(["a", "b", "a", "b"])
    source = make().fit(rows, labels)
    np.testing.assert_array_equal(source.predict_proba(rows), np.full((4, 2), 0.5))
    np.testing.assert_array_equal(gpuens.from_sklearn(source).predict(rows), source.predict(rows))
