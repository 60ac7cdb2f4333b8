"""The weighted pass through trees, beside one that visits every node for every point."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import is_regressor
from sklearn.datasets import load_iris
from sklearn.ensemble import GradientBoostingRegressor as SklearnBoosting
from sklearn.ensemble import RandomForestRegressor as SklearnForest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.inspection import partial_dependence as sklearn_partial_dependence
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeRegressor as SklearnTree

from gpuens import (
    BaggingClassifier,
    BaggingRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    QuantileForestRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from gpuens.forest import recursion
from gpuens.forest.forest import Forest
from gpuens.forest.recursion import weighted_recursion
from gpuens.inspection import partial_dependence
from tests.inspection.test_partial_dependence import C2, EXACT, X, Y
from tests.support.sklearn_trees import random_rows, random_tree, to_forest

NAN = float("nan")
XI, CI = load_iris(return_X_y=True)


def goes_left(forest: Forest, node: int, value: float) -> bool:
    """Where one value goes at one split."""
    begin = forest.category_begin[node]
    if begin < 0:
        return (
            bool(forest.missing_left[node]) if np.isnan(value) else value <= forest.threshold[node]
        )
    if np.isnan(value) or not 0 <= value < forest.n_categories[forest.feature[node]]:
        return bool(forest.missing_left[node])
    word = int(forest.categories[begin + int(value) // 32])
    return bool(word >> (int(value) % 32) & 1)


def weighted_mean(forest: Forest, share: Any, point: dict[int, float]) -> np.ndarray:
    """The mean raw prediction with some features held fast: every tree, node by node."""
    total = forest.base.copy()
    for t in range(forest.n_trees):
        root = forest.offset[t]
        column = slice(forest.output[t], forest.output[t] + forest.width)

        def below(node: int, weight: float, root=root, column=column) -> None:
            feature = int(forest.feature[node])
            if feature < 0:
                total[column] += weight * forest.value[node]
                return
            left, right = root + forest.left[node], root + forest.right[node]
            if feature in point:
                below(left if goes_left(forest, node, point[feature]) else right, weight)
            else:
                below(left, weight * share[left] / share[node])
                below(right, weight * share[right] / share[node])

        below(root, 1.0)
    return total


def point_by_point(forest: Forest, share: Any, features: Any, grid: Any) -> np.ndarray:
    found = [
        weighted_mean(forest, share, dict(zip(features, point, strict=True)))
        for point in product(*grid)
    ]
    return np.array(found).T.reshape(forest.n_outputs, *map(len, grid))


class TestRecursion:
    @pytest.mark.parametrize(
        "features", [[0], [1], [3], [0, 1], [1, 3], [3, 2], [0, 3, 1]], ids=str
    )
    @pytest.mark.parametrize("width", [1, 3])
    def test_random_trees(self, features, width):
        n_categories = [0, 0, 40, 5]
        rng = np.random.default_rng(sum(features) + width)
        for _ in range(10):
            trees = [random_tree(rng, 12, n_categories, width) for _ in range(3)]
            forest = Forest.concatenate(trees)
            rows = random_rows(rng, 9, n_categories)
            grid = []
            for feature in features:
                values = rows[:, feature].copy()
                if n_categories[feature]:  # a value that is no category has come as NaN
                    values[(values < 0) | (values >= n_categories[feature])] = np.nan
                grid.append(np.append(values, [np.nan, values[0]]))
            found = weighted_recursion(forest, forest.cover, features, grid)
            expected = point_by_point(forest, forest.cover, features, grid)
            np.testing.assert_allclose(found, expected, **EXACT)

    def test_a_grid_of_missing_values_only(self):
        forest = random_tree(np.random.default_rng(0), 12, [0, 0, 5], 1)
        for feature in range(3):
            found = weighted_recursion(forest, forest.cover, [feature], [np.array([NAN])])
            expected = point_by_point(forest, forest.cover, [feature], [[NAN]])
            np.testing.assert_allclose(found, expected, **EXACT)

    def test_infinite_values(self):
        forest = random_tree(np.random.default_rng(1), 12, [0, 0], 1)
        grid = [np.array([np.inf, 0.0, -np.inf])]
        found = weighted_recursion(forest, forest.cover, [0], grid)
        expected = point_by_point(forest, forest.cover, [0], grid)
        np.testing.assert_allclose(found, expected, **EXACT)

    def test_trees_in_batches(self, monkeypatch):
        rng = np.random.default_rng(2)
        forest = Forest.concatenate([random_tree(rng, 9, [0, 0, 3], 2) for _ in range(7)])
        grid = [rng.normal(size=8), np.array([0.0, 2.0, NAN])]
        whole = weighted_recursion(forest, forest.cover, [1, 2], grid)
        monkeypatch.setattr(recursion, "NODES_AT_ONCE", 25)
        parts = weighted_recursion(forest, forest.cover, [1, 2], grid)
        np.testing.assert_allclose(parts, whole, **EXACT)

    @pytest.mark.parametrize("features", [[0], [3], [0, 1], [4, 2]], ids=str)
    def test_trees_of_scikit_learn(self, features):
        """The same trees, by scikit-learn's own recursion."""
        weight = np.random.default_rng(0).integers(1, 5, len(Y))
        # Its thresholds are compared with float32 values, as its grid is.
        tree = SklearnTree(random_state=0).fit(X.astype(np.float32), Y, sample_weight=weight)
        axes = [np.linspace(-0.1, 1.1, 21).astype(np.float32) for _ in features]
        points = np.array(list(product(*axes)), np.float32)
        expected = tree._compute_partial_dependence_recursion(points, np.array(features))
        forest = to_forest(tree)
        found = weighted_recursion(forest, forest.cover, features, axes)
        np.testing.assert_allclose(found.ravel(), expected.ravel(), **EXACT)

    @pytest.mark.parametrize("cls", [DecisionTreeRegressor, RandomForestRegressor])
    def test_equal_to_the_mean_over_independent_features(self, cls):
        """Every combination of the features occurs once: the rows below a split are spread over
        the other features as all rows are."""
        levels = [np.arange(4.0), np.arange(5.0), np.arange(3.0)]
        table = np.array(list(product(*levels)))
        y = np.random.default_rng(0).normal(size=len(table))
        settings = {} if cls is DecisionTreeRegressor else {"bootstrap": False, "max_features": 1}
        model = cls(**settings).fit(table, y)
        for features in ([0], [2], [0, 1], [2, 1]):
            fast, slow = (
                partial_dependence(model, table, features, method=method)
                for method in ("recursion", "brute")
            )
            np.testing.assert_allclose(fast.average, slow.average, **EXACT)

    def test_equal_to_the_mean_without_splits_of_other_features(self):
        y = np.sin(7 * X[:, 2])
        table = np.where(np.arange(6) == 2, X, 0.5)
        for model in (
            GradientBoostingRegressor(n_estimators=20), RandomForestRegressor(n_estimators=5),
        ):  # fmt: skip
            model.fit(table, y)
            fast = partial_dependence(model, X, [2], method="recursion")
            slow = partial_dependence(model, X, [2], method="brute")
            np.testing.assert_allclose(fast.average, slow.average, **EXACT)
            every_row_alike = model.predict(np.tile(fast.grid_values[0][:, None], 6))
            np.testing.assert_allclose(fast.average[0], every_row_alike, **EXACT)


def rows(forest: Forest) -> np.ndarray:
    return forest.n_samples.astype(float)


class TestEstimators:
    """What the trees are averaged to, and how the branches are weighted."""

    @pytest.mark.parametrize("features", [[3], [0, 3]], ids=str)
    @pytest.mark.parametrize("weighted", [False, True])
    def test_numbers(self, features, weighted):
        weight = np.random.default_rng(0).integers(1, 9, len(Y)) if weighted else None
        for model in (
            DecisionTreeRegressor(max_depth=6),
            RandomForestRegressor(n_estimators=3, max_depth=5),
            QuantileForestRegressor(n_estimators=3, max_depth=4, default_quantiles="mean"),
            GradientBoostingRegressor(n_estimators=5),
        ):
            model.fit(X, Y, sample_weight=weight)
            found = partial_dependence(model, X, features, grid_resolution=7)
            forest = model.forest_
            if weighted and isinstance(model, GradientBoostingRegressor):
                assert forest.cover[0] == weight.sum()
            raw = point_by_point(forest, forest.cover, features, found.grid_values)
            n_trees = 1 if isinstance(model, GradientBoostingRegressor) else forest.n_trees
            np.testing.assert_allclose(found.average, raw / n_trees, **EXACT)

    def test_several_outputs(self):
        model = RandomForestRegressor(n_estimators=3, max_depth=4).fit(X, np.stack([Y, -Y], 1))
        found = partial_dependence(model, X, [3], grid_resolution=7).average
        assert found.shape == (2, 7)
        np.testing.assert_allclose(found[1], -found[0], **EXACT)
        again = partial_dependence(model, X, [3], grid_resolution=7, method="brute")
        assert again.average.shape == (2, 7)

    def test_quantiles_that_are_sorted(self):
        """The mean of sorted predictions is not that of the trees."""
        model = GradientBoostingRegressor("quantile", quantile=[0.4, 0.5, 0.6], n_estimators=9)
        found = partial_dependence(model.fit(X, Y), X, [3], grid_resolution=7)
        brute = partial_dependence(model, X, [3], grid_resolution=7, method="brute")
        np.testing.assert_array_equal(found.average, brute.average)
        assert (np.diff(found.average, axis=0) >= 0).all()
        with pytest.raises(ValueError, match="whose link is the identity"):
            partial_dependence(model, X, [3], method="recursion")

    @pytest.mark.parametrize("cls", [DecisionTreeClassifier, ExtraTreesClassifier])
    def test_probabilities(self, cls):
        many = cls(max_depth=4).fit(XI, CI)
        found = partial_dependence(many, XI, [2, 3], grid_resolution=6)
        forest = many.forest_
        raw = point_by_point(forest, forest.cover, [2, 3], found.grid_values) / forest.n_trees
        assert found.average.shape == (3, 6, 6)
        np.testing.assert_allclose(found.average, raw, **EXACT)
        np.testing.assert_allclose(found.average.sum(axis=0), 1, **EXACT)
        two = cls(max_depth=4).fit(X, C2)
        found = partial_dependence(two, X, [3], grid_resolution=6).average
        assert found.shape == (1, 6) and found[0, -1] > 0.5 > found[0, 0]

    def test_decisions(self):
        two = GradientBoostingClassifier(n_estimators=4).fit(X, C2)
        many = GradientBoostingClassifier(n_estimators=4).fit(XI, CI)
        for model, table, width in ((two, X, 1), (many, XI, 3)):
            found = partial_dependence(model, table, [2], grid_resolution=6)
            forest = model.forest_
            raw = point_by_point(forest, rows(forest), [2], found.grid_values)
            assert found.average.shape == (width, 6)
            np.testing.assert_allclose(found.average, raw, **EXACT)

    def test_bags_of_trees(self):
        bag = BaggingRegressor(DecisionTreeRegressor(max_depth=4), n_estimators=4).fit(X, Y)
        found = partial_dependence(bag, X, [3, 0], grid_resolution=6, method="recursion").average
        each = [partial_dependence(m, X, [3, 0], grid_resolution=6).average for m in bag]
        np.testing.assert_allclose(found, np.mean(each, axis=0), **EXACT)
        bag = BaggingClassifier(DecisionTreeClassifier(max_depth=4), n_estimators=4).fit(X, C2)
        found = partial_dependence(bag, X, [3], method="recursion").average
        each = [partial_dependence(m, X, [3]).average for m in bag]
        np.testing.assert_allclose(found, np.mean(each, axis=0), **EXACT)

    def test_trees_of_scikit_learn_make_their_own_recursion(self):
        for model in (SklearnForest(5, random_state=0), SklearnBoosting(n_estimators=5)):
            model.fit(X, Y)
            for method in ("auto", "recursion", "brute"):
                found = partial_dependence(model, X, [3, 0], method=method, grid_resolution=8)
                expected = sklearn_partial_dependence(
                    model, X, [3, 0], method=method, grid_resolution=8
                )
                np.testing.assert_allclose(found.average, expected.average, **EXACT)

    def test_what_the_recursion_cannot_give_is_brute_force(self):
        forest = RandomForestClassifier(n_estimators=3).fit(X, C2)
        boosted = GradientBoostingClassifier(n_estimators=3).fit(X, C2)
        cases: list[tuple[Any, dict[str, Any]]] = [
            (boosted, {"response_method": "predict_proba"}),
            (forest, {"sample_weight": np.ones(len(X))}),
            (QuantileForestRegressor(n_estimators=3).fit(X, Y), {}),
            (BaggingClassifier(DecisionTreeClassifier(), voting="hard").fit(X, C2), {}),
            (BaggingRegressor(DecisionTreeRegressor(), max_features=3).fit(X, Y), {}),
            (BaggingClassifier(GaussianNB()).fit(X, C2), {}),
        ]
        for model, settings in cases:
            settings = {"grid_resolution": 5, **settings}
            found = partial_dependence(model, X, [3], **settings).average
            brute = partial_dependence(model, X, [3], method="brute", **settings).average
            np.testing.assert_array_equal(found, brute)
            with pytest.raises(ValueError, match="recursion"):
                partial_dependence(model, X, [3], method="recursion", **settings)


@pytest.mark.parametrize(
    "model",
    [DecisionTreeRegressor(max_depth=4), RandomForestRegressor(3, max_depth=4),
     GradientBoostingRegressor(n_estimators=3), GradientBoostingClassifier(n_estimators=3)],
    ids=lambda model: type(model).__name__,
)  # fmt: skip
def test_scikit_learns_own_function_takes_the_recursion(model):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=["a", "b", "c"])
    y = X["a"] + X["b"] * X["c"]
    y = y if is_regressor(model) else np.digitize(y, [-1.0, 1.0])
    X["group"] = pd.Categorical(np.where(X["c"] > 0, "high", "low"))
    model.fit(X, y)
    how = {"grid_resolution": 5, "categorical_features": ["group"]}
    for features in (["a"], ["b", "group"]):
        expected = partial_dependence(model, X, features, method="recursion", **how)
        for method in ("recursion", "auto"):
            theirs = sklearn_partial_dependence(model, X, features, method=method, **how)
            np.testing.assert_allclose(theirs.average, expected.average, rtol=1e-12)


def test_scikit_learns_recursion_names_what_it_is_not():
    X = np.random.default_rng(0).normal(size=(100, 3))
    model = GradientBoostingRegressor(n_estimators=3, loss="poisson").fit(X, abs(X[:, 0]))
    with pytest.warns(UserWarning, match="mean raw prediction of .* method='brute'"):
        found = sklearn_partial_dependence(model, X, [0], grid_resolution=5).average
    brute = sklearn_partial_dependence(model, X, [0], grid_resolution=5, method="brute").average
    np.testing.assert_allclose(np.exp(found), brute, rtol=0.2)
    model = GradientBoostingRegressor(n_estimators=3, init=GaussianProcessRegressor()).fit(
        X, X[:, 0]
    )
    assert sklearn_partial_dependence(model, X, [0]).average.shape == (1, 100)  # by brute force
    with pytest.raises(ValueError, match="starts from the predictions of the estimator init"):
        sklearn_partial_dependence(model, X, [0], method="recursion")
