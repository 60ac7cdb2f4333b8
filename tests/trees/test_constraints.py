"""Monotone constraints and splits by categories, against brute force."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import xlogy
from sklearn import tree
from sklearn.base import is_classifier

from gpuens import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from tests.trees.test_trees import assert_same_tree

NAN = float("nan")
REGRESSORS = (
    DecisionTreeRegressor,
    ExtraTreeRegressor,
    RandomForestRegressor,
    ExtraTreesRegressor,
)
CLASSIFIERS = (
    DecisionTreeClassifier,
    ExtraTreeClassifier,
    RandomForestClassifier,
    ExtraTreesClassifier,
)
KINDS = [
    *((cls, c) for cls in CLASSIFIERS for c in ("gini", "entropy", "misclassification")),
    *((cls, c) for cls in REGRESSORS for c in ("squared_error", "absolute_error", "poisson")),
]


def made(cls: type, **settings: Any) -> Any:
    forest = cls.__name__.startswith("Random") or "Trees" in cls.__name__
    return cls(**({"n_estimators": 4} if forest else {}), **settings)


class TestMonotoneConstraints:
    @staticmethod
    def data(cls: type, n: int = 250) -> tuple[np.ndarray, np.ndarray]:
        """A weak effect in noise, which contradicts the constraints almost everywhere."""
        rng = np.random.default_rng(1)
        X = rng.normal(size=(n, 3)).round(1)
        X[rng.random(n) < 0.1, 2] = NAN
        y = np.maximum(4 + X[:, 0] - X[:, 1] + 2 * rng.normal(size=n), 0).round(1)
        return X, (y > 4).astype(int) if is_classifier(cls()) else y

    @staticmethod
    def response(model: Any, rows: np.ndarray, feature: int) -> np.ndarray:
        """Predictions along a feature, a line for each row."""
        grid = np.linspace(-4, 4, 161)
        table = np.repeat(rows, grid.size, axis=0)
        table[:, feature] = np.tile(grid, len(rows))
        found = model.predict_proba(table)[:, 1] if is_classifier(model) else model.predict(table)
        return found.reshape(len(rows), grid.size)

    @pytest.mark.parametrize("settings", [
        {}, {"max_leaf_nodes": 12}, {"min_samples_leaf": 5, "max_features": 2},
    ], ids=str)  # fmt: skip
    @pytest.mark.parametrize("cls, criterion", KINDS)
    def test_predictions_rise_and_fall(self, cls, criterion, settings):
        X, y = self.data(cls)
        model = made(cls, criterion=criterion, monotonic_cst=[1, -1, 0], **settings).fit(X, y)
        steps = [
            sign * np.diff(self.response(model, X[:40], feature), axis=1)
            for feature, sign in ((0, 1), (1, -1))
        ]
        assert np.min(steps) >= -1e-12 and np.max(steps) > 0
        free = made(cls, criterion=criterion).fit(X, y)
        assert np.diff(self.response(free, X[:40], 0), axis=1).min() < 0

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("cls, criterion", [
        (DecisionTreeRegressor, "squared_error"), (DecisionTreeClassifier, "gini"),
    ])  # fmt: skip
    def test_the_tree_of_scikit_learn(self, cls, criterion, weighted):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(300, 4)).astype(np.float32)
        y = X[:, 0] - X[:, 1] + rng.normal(size=300)
        y = (y > 0.3).astype(int) if is_classifier(cls()) else y
        weight = rng.exponential(size=300) if weighted else None
        settings = {"criterion": criterion, "monotonic_cst": [1, -1, 0, -1], "min_samples_leaf": 4}
        other = getattr(tree, cls.__name__)(**settings, random_state=0).fit(X, y, weight)
        assert_same_tree(cls(**settings).fit(X, y, weight), other)

    @pytest.mark.parametrize("cls", [DecisionTreeRegressor, RandomForestClassifier])
    def test_no_constraint_at_all(self, cls):
        X, y = self.data(cls)
        prints = {
            made(cls, monotonic_cst=cst).fit(X, y).forest_.fingerprint()
            for cst in (None, [0, 0, 0], np.zeros(3, np.int8))
        }
        assert len(prints) == 1


def impurity(criterion: str, y: np.ndarray, weight: np.ndarray) -> float:
    """Weight times impurity of a set of rows."""
    if criterion == "squared_error":
        return float((weight * (y - np.average(y, weights=weight)) ** 2).sum())
    if criterion == "poisson":
        mean = np.average(y, weights=weight)
        return float((weight * xlogy(y, y / mean)).sum()) if mean > 0 else np.inf
    p = np.bincount(y, weight) / weight.sum()
    if criterion == "gini":
        return float(weight.sum() * (1 - (p * p).sum()))
    return float(-weight.sum() * xlogy(p, p).sum() / np.log(2))


def best_subset(criterion: str, c: np.ndarray, y: np.ndarray, weight: np.ndarray) -> float:
    """The largest gain of all ways to part categories in two."""
    found, whole = -np.inf, impurity(criterion, y, weight)
    categories = np.unique(c)
    for size in range(1, len(categories) // 2 + 1):
        for left in itertools.combinations(categories, size):
            at = np.isin(c, left)
            below = sum(impurity(criterion, y[s], weight[s]) for s in (at, ~at))
            found = max(found, whole - below)
    return found


class TestCategories:
    @pytest.mark.parametrize("n_categories", [2, 3, 5, 9])
    @pytest.mark.parametrize("cls, criterion", [
        (DecisionTreeRegressor, "squared_error"), (DecisionTreeRegressor, "poisson"),
        (DecisionTreeClassifier, "gini"), (DecisionTreeClassifier, "entropy"),
    ])  # fmt: skip
    def test_the_best_of_all_partitions(self, cls, criterion, n_categories):
        for seed in range(5):
            rng = np.random.default_rng(seed)
            c = np.concatenate([np.arange(n_categories), rng.integers(0, n_categories, 40)])
            y = rng.poisson(1.0 + c % 4)
            y = (y > 2).astype(int) if is_classifier(cls()) else y
            weight = rng.integers(1, 5, c.size).astype(float)
            model = cls(max_depth=1, criterion=criterion, categorical_features=[0])
            gain = model.fit(c[:, None], y, weight).tree_.gain[0]
            np.testing.assert_allclose(gain, best_subset(criterion, c, y, weight), 1e-6, 1e-9)

    def test_several_classes_one_against_the_rest(self):
        """The best cut of the orders by the shares of the classes."""
        for seed in range(10):
            rng = np.random.default_rng(seed)
            c, weight = rng.integers(0, 7, 80), rng.integers(1, 4, 80).astype(float)
            y = (c + rng.integers(0, 3, 80)) % 4
            whole, gains = impurity("gini", y, weight), []
            for k in range(4):
                shares = [np.average(y[c == j] == k, weights=weight[c == j]) for j in range(7)]
                order = np.argsort(shares, kind="stable")
                for size in range(1, 7):
                    at = np.isin(c, order[:size])
                    below = sum(impurity("gini", y[s], weight[s]) for s in (at, ~at))
                    gains.append(whole - below)
            model = DecisionTreeClassifier(max_depth=1, categorical_features=[True])
            gain = model.fit(c[:, None], y, weight).tree_.gain[0]
            np.testing.assert_allclose(gain, max(gains))

    @pytest.mark.parametrize("n_categories", [30, 33, 255, 256, 1000])
    @pytest.mark.parametrize("cls", [
        DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor,
    ])  # fmt: skip
    def test_many_categories(self, cls, n_categories):
        rng = np.random.default_rng(0)
        c = np.tile(rng.permutation(n_categories), 3)
        y = rng.integers(0, 2, n_categories)[c]
        X = np.column_stack([rng.normal(size=c.size), c])
        model = cls(categorical_features=[1], max_features=None).fit(X, y)
        np.testing.assert_allclose(model.predict(X), y, atol=1e-12)
        if cls in (DecisionTreeClassifier, DecisionTreeRegressor):
            assert model.get_n_leaves() == 2
            left = model.tree_.categories_left(0)
            value = model.tree_.value[1].argmax() if is_classifier(model) else model.tree_.value[1]
            assert set(left) == set(c[y == np.round(value).item()])

    @pytest.mark.parametrize("cls", [DecisionTreeClassifier, RandomForestRegressor])
    def test_categories_that_training_did_not_have_are_missing_values(self, cls):
        rng = np.random.default_rng(0)
        X = np.column_stack([rng.integers(0, 6, 300) * 10.0, rng.normal(size=300)])
        X[rng.random(300) < 0.1, 0] = NAN
        y = ((X[:, 0] == 20) | np.isnan(X[:, 0]) ^ (X[:, 1] > 1)).astype(int)
        model = made(cls, categorical_features=[0]).fit(X, y)
        Z = X.copy()
        Z[:, 0] = NAN
        expected = model.predict(Z)
        for unknown in (-10.0, 5.0, 60.0, 1e30, np.inf):
            Z[:, 0] = unknown
            np.testing.assert_array_equal(model.predict(Z), expected)
        assert not np.array_equal(model.predict(X), expected)

    @pytest.mark.parametrize("cls", [*CLASSIFIERS, *REGRESSORS])
    def test_data_frames(self, cls):
        rng = np.random.default_rng(0)
        names = np.array(["red", "green", "blue", None], object)[rng.integers(0, 4, 200)]
        number = rng.normal(size=200)
        y = ((names == "green") ^ (number > 1)).astype(int)
        frame = pd.DataFrame({"colour": pd.Categorical(names), "number": number})
        model = made(cls).fit(frame, y)
        assert model.is_categorical_.tolist() == [True, False]
        assert model.score(frame, y) > 0.85
        by_name = made(cls, categorical_features=["colour"])
        by_name.fit(frame.assign(colour=names), y)
        assert by_name.forest_.fingerprint() == model.forest_.fingerprint()
        again = frame.assign(colour=pd.Categorical(names, ["blue", "green", "pink", "red"]))
        np.testing.assert_array_equal(model.predict(again), model.predict(frame))

    @pytest.mark.parametrize("cls", [*CLASSIFIERS, *REGRESSORS])
    def test_a_column_without_values(self, cls):
        rng = np.random.default_rng(0)
        X = np.column_stack([np.full(60, NAN), rng.normal(size=60)])
        y = (X[:, 1] > 0).astype(int)
        model = made(cls, categorical_features=[0]).fit(X, y)
        assert 0 not in model.forest_.feature and model.score(X, y) > 0.6
        Z = X.copy()
        Z[:, 0] = 5.0
        np.testing.assert_array_equal(model.predict(Z), model.predict(X))

    def test_missing_values_are_a_side_of_their_own(self):
        c = np.array([0, 0, 1, 1, NAN, NAN])[:, None]
        y = [0.0, 0.0, 0.0, 0.0, 9.0, 9.0]
        model = DecisionTreeRegressor(categorical_features=[0]).fit(c, y)
        assert model.get_n_leaves() == 2 and model.tree_.categories_left(0).tolist() == [0, 1]
        assert model.predict([[0], [1], [NAN], [7]]).tolist() == [0.0, 0.0, 9.0, 9.0]

    def test_in_a_forest_with_bins_categories_stay_apart(self):
        rng = np.random.default_rng(0)
        c = rng.integers(0, 40, 2000)
        y = rng.normal(size=40)[c]
        settings = {"max_bins": 4, "n_estimators": 5}
        X = c[:, None]
        by_category = RandomForestRegressor(categorical_features=[0], **settings).fit(X, y)
        assert by_category.score(X, y) > 0.99
        assert RandomForestRegressor(**settings).fit(X, y).score(X, y) < 0.9
