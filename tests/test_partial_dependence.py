"""Partial dependence: the weighted pass beside one that visits every node for every point, and
brute force beside the plain mean of predictions."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.datasets import load_iris, make_friedman1
from sklearn.ensemble import GradientBoostingRegressor as SklearnBoosting
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.ensemble import RandomForestRegressor as SklearnForest
from sklearn.inspection import partial_dependence as sklearn_partial_dependence
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
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
    inspection_columns,
    partial_dependence_recursion,
)
from gpuens.forest import Forest
from gpuens.inspection import partial_dependence
from gpuens.partial_dependence_recursion import weighted_recursion
from tests import fake_cupy
from tests.sklearn_trees import random_rows, random_tree, to_forest

NAN = float("nan")
X, Y = make_friedman1(300, n_features=6, noise=0.5, random_state=0)
XI, CI = load_iris(return_X_y=True)
C2 = (Y > np.median(Y)).astype(int)
EXACT = {"rtol": 1e-10, "atol": 1e-12}


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
        monkeypatch.setattr(partial_dependence_recursion, "NODES_AT_ONCE", 25)
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


class TestBruteForce:
    @pytest.mark.parametrize("kind", ["average", "individual", "both"])
    @pytest.mark.parametrize("features", [[1], [3, 0], 2], ids=str)
    def test_as_scikit_learn(self, kind, features):
        weight = np.random.default_rng(0).random(len(X))
        for model, y in (
            (LinearRegression(), Y), (LinearRegression(), np.stack([Y, Y**2], axis=1)),
            (LogisticRegression(), C2), (LogisticRegression(), np.digitize(Y, [10, 18])),
            (RandomForestClassifier(n_estimators=3, max_depth=4), C2),
            (GradientBoostingRegressor(n_estimators=3), Y),
        ):  # fmt: skip
            model.fit(X, y)
            settings = {"grid_resolution": 6, "kind": kind, "sample_weight": weight,
                        "method": "brute"}  # fmt: skip
            found = partial_dependence(model, X, features, **settings)
            expected = sklearn_partial_dependence(model, X, features, **settings)
            assert set(found) == set(expected)
            for name in set(found) - {"grid_values"}:
                np.testing.assert_allclose(found[name], expected[name], **EXACT)
            for ours, theirs in zip(found.grid_values, expected.grid_values, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-14)

    def test_by_hand(self):
        model = GradientBoostingRegressor(n_estimators=5).fit(X, Y)
        found = partial_dependence(model, X, [3, 1], kind="both", grid_resolution=4)
        for (i, a), (j, b) in product(*map(enumerate, found.grid_values)):
            table = X.copy()
            table[:, 3], table[:, 1] = a, b
            np.testing.assert_array_equal(found.individual[0, :, i, j], model.predict(table))
            assert found.average[0, i, j] == pytest.approx(model.predict(table).mean(), rel=1e-12)

    def test_copies_predicted_together_change_nothing(self, monkeypatch):
        model = RandomForestRegressor(n_estimators=3).fit(X, Y)
        settings = {"grid_resolution": 7, "kind": "both"}
        together = partial_dependence(model, X, [3], **settings)
        monkeypatch.setattr(inspection_columns.ArrayColumns, "COPY_BYTES", 0)
        alone = partial_dependence(model, X, [3], **settings)
        np.testing.assert_array_equal(together.individual, alone.individual)
        np.testing.assert_array_equal(together.average, alone.average)

    def test_the_table_is_left_alone(self):
        table = X.copy()
        table.flags.writeable = False
        partial_dependence(LinearRegression().fit(X, Y), table, [0])
        np.testing.assert_array_equal(table, X)

    def test_centred(self):
        model = GradientBoostingRegressor(n_estimators=5).fit(X, Y)
        for features in ([3], [3, 0]):
            plain, centred = (
                partial_dependence(
                    model, X, features, kind="both", grid_resolution=5, centered=centered
                )
                for centered in (False, True)
            )
            first = (slice(None),) + (slice(0, 1),) * len(features)
            expected = plain.average - plain.average[first]
            np.testing.assert_array_equal(centred.average, expected)
            first = (slice(None), slice(None)) + (slice(0, 1),) * len(features)
            expected = plain.individual - plain.individual[first]
            np.testing.assert_array_equal(centred.individual, expected)

    def test_sparse_tables(self):
        model = LinearRegression().fit(X, Y)
        found = partial_dependence(model, scipy.sparse.csr_matrix(X), [2]).average
        np.testing.assert_allclose(found, partial_dependence(model, X, [2]).average)


class TestGrid:
    model = LinearRegression().fit(X, Y)

    @pytest.mark.parametrize("percentiles", [(0.05, 0.95), (0, 1), (0.3, 0.31)])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_percentiles(self, percentiles, dtype):
        table = X.astype(dtype)
        settings = {"percentiles": percentiles, "grid_resolution": 9}
        found = partial_dependence(self.model, table, [1], **settings)
        expected = sklearn_partial_dependence(self.model, table, [1], **settings)
        assert found.grid_values[0].dtype == dtype
        tolerance = 1e-6 if dtype == np.float32 else 1e-14
        np.testing.assert_allclose(found.grid_values[0], expected.grid_values[0], rtol=tolerance)

    def test_few_values(self):
        table = X.copy()
        table[:, 1] = np.round(table[:, 1] * 4)
        found = partial_dependence(self.model, table, [1], grid_resolution=6)
        np.testing.assert_array_equal(found.grid_values[0], [0, 1, 2, 3, 4])

    def test_missing_and_infinite_values_are_left_out(self):
        table = np.tile([[0.0, 0.0], [1.0, 1.0], [2.0, NAN], [3.0, np.inf], [4.0, -np.inf]], (9, 1))
        model = GradientBoostingRegressor(n_estimators=2).fit(table, table[:, 0])
        found = partial_dependence(model, table, [1], grid_resolution=4)
        np.testing.assert_array_equal(found.grid_values[0], [0, 1])

    def test_custom_values(self):
        model = GradientBoostingRegressor(n_estimators=5).fit(X, Y)
        values = [0.9, 0.1, NAN, 0.1]
        found = partial_dependence(model, X, [3, 0], custom_values={3: values}, grid_resolution=4)
        np.testing.assert_array_equal(found.grid_values[0], values)
        assert found.average.shape == (1, 4, 4)
        raw = point_by_point(model.forest_, model.forest_.cover, [3, 0], found.grid_values)
        np.testing.assert_allclose(found.average, raw, **EXACT)
        table = X.copy()
        table[:, 3] = NAN
        brute = partial_dependence(model, X, 3, custom_values={3: [NAN, 1.0]}, method="brute")
        assert brute.average[0, 0] == pytest.approx(model.predict(table).mean(), rel=1e-12)

    def test_float32_tables_have_float32_points(self):
        """Both methods compare what a float32 table would hold."""
        model = DecisionTreeRegressor().fit(X.astype(np.float32), Y)
        cut = float(model.tree_.threshold[0])
        feature = int(model.tree_.feature[0])
        values = {feature: [cut - 1e-12, cut + 1e-12]}
        found = partial_dependence(model, X.astype(np.float32), feature, custom_values=values)
        assert found.grid_values[0].dtype == np.float32
        np.testing.assert_array_equal(found.grid_values[0], np.float32(values[feature]))

    def test_features(self):
        names = list("abcdef")
        frame = pd.DataFrame(X, columns=names)
        model = LinearRegression().fit(frame, Y)
        few = {"grid_resolution": 5}
        expected = partial_dependence(model, frame, [1, 4], **few).average
        for features in (["b", "e"], np.array([1, 4]), [False, True, False, False, True, False]):
            found = partial_dependence(model, frame, features, **few).average
            np.testing.assert_array_equal(found, expected)
        array = LinearRegression().fit(X, Y)
        found = partial_dependence(array, X, ["b", "e"], feature_names=names, **few).average
        np.testing.assert_allclose(found, expected, **EXACT)

    def test_custom_values_of_a_mask_are_named_by_position(self):
        model = LinearRegression().fit(X[:, :2], Y)
        found = partial_dependence(
            model, X[:, :2], [True, True], custom_values={1: [0.0]}, grid_resolution=4
        )
        assert found.average.shape == (1, 4, 1)

    def test_features_of_another_table_are_refused(self):
        forest = RandomForestRegressor(n_estimators=2).fit(X, Y)
        with pytest.raises(
            ValueError, match="X has 5 features, but RandomForest.* was fitted with 6"
        ):
            partial_dependence(forest, X[:, :5], [0])
        frame = pd.DataFrame(X, columns=list("abcdef"))
        forest = RandomForestRegressor(n_estimators=2).fit(frame, Y)
        with pytest.raises(ValueError, match="feature names"):
            partial_dependence(forest, frame[list("bacdef")], [0])


def mixed_table() -> dict[str, Any]:
    rng = np.random.default_rng(5)
    x, colour = rng.normal(size=200), rng.integers(0, 4, 200)
    return {"x": x, "colour": np.array(["red", "ash", "oak", "lime"])[colour],
            "z": rng.normal(size=200)}  # fmt: skip


FRAMES = {
    "pandas": pd.DataFrame,
    "pandas categorical": lambda data: pd.DataFrame(data).astype({"colour": "category"}),
    "polars": pl.DataFrame,
    "polars categorical": lambda data: pl.DataFrame(data).cast({"colour": pl.Categorical}),
    "pyarrow": pa.table,
}
frames = pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)


class TestCategories:
    target = np.where(mixed_table()["colour"] == "oak", 3.0, 0.0) + mixed_table()["x"]

    def model(self, table: Any) -> RandomForestRegressor:
        forest = RandomForestRegressor(
            n_estimators=4, max_depth=5, categorical_features=["colour"], random_state=1
        )
        return forest.fit(table, self.target)

    @frames
    def test_frames(self, frame):
        table = frame(mixed_table())
        model = self.model(table)
        assert model.is_categorical_.tolist() == [False, True, False]
        found = partial_dependence(model, table, ["colour", "x"], grid_resolution=5)
        assert found.grid_values[0].tolist() == ["ash", "lime", "oak", "red"]
        codes = [np.arange(4.0), found.grid_values[1]]
        raw = point_by_point(model.forest_, model.forest_.cover, [1, 0], codes) / 4
        np.testing.assert_allclose(found.average, raw, **EXACT)
        brute = partial_dependence(model, table, "colour", kind="both")
        for i, colour in enumerate(brute.grid_values[0]):
            data = mixed_table() | {"colour": np.array([colour] * 200)}
            expected = model.predict(frame(data))
            np.testing.assert_array_equal(brute.individual[0, :, i], expected)

    @frames
    def test_custom_categories(self, frame):
        table = frame(mixed_table())
        model = self.model(table)
        found = partial_dependence(
            model, table, ["colour"], custom_values={"colour": ["red", None, "oak"]}
        )
        raw = point_by_point(model.forest_, model.forest_.cover, [1], [[3.0, NAN, 2.0]]) / 4
        np.testing.assert_allclose(found.average, raw, **EXACT)
        with pytest.raises(ValueError, match="'colour' has categories that training did not have.*"
                                             r"\['pink'\].*It had \['ash', 'lime'"):  # fmt: skip
            partial_dependence(model, table, ["colour"], custom_values={"colour": ["pink"]})

    def test_numbers(self):
        """Numbers that are categories: their grid is what occurs, in any order of the splits."""
        rng = np.random.default_rng(0)
        table = np.stack([rng.choice([3.0, 7.0, 40.0], 200), rng.normal(size=200)], axis=1)
        y = np.where(table[:, 0] == 7, 1.0, 0.0) + 0.1 * table[:, 1]
        model = GradientBoostingRegressor(n_estimators=3).fit(table, y)
        assert partial_dependence(model, table, [0]).grid_values[0].tolist() == [3, 7, 40]
        model = DecisionTreeRegressor(categorical_features=[0]).fit(table, y)
        found = partial_dependence(model, table, [0])
        assert found.grid_values[0].tolist() == [3, 7, 40]
        assert found.average[0, 1] > 0.8 and abs(found.average[0, [0, 2]]).max() < 0.2
        with pytest.raises(
            ValueError, match="column 0 holds categories, which have no percentiles"
        ):
            partial_dependence(model, table, [0], categorical_features=[1])
        with pytest.raises(ValueError, match=r"categories that training did not have: \[5.0\]"):
            partial_dependence(model, table, [0], custom_values={0: [3.0, 5.0]})

    def test_integers(self):
        table = np.random.default_rng(0).integers(0, 9, (50, 2))
        model = LinearRegression().fit(table, table[:, 0])
        for features in ([0], [0, 1]):
            with pytest.raises(ValueError, match="column 0 contains integer data.*convert"):
                partial_dependence(model, table, features)
        found = partial_dependence(model, table, [0], categorical_features=[0])
        np.testing.assert_array_equal(found.grid_values[0], np.arange(9))
        np.testing.assert_allclose(found.average[0], np.arange(9), atol=1e-9)
        frame = pd.DataFrame({"n": table[:, 0], "x": table[:, 1] / 2})
        with pytest.raises(ValueError, match="column 'n' contains integer data"):
            partial_dependence(LinearRegression().fit(frame, table[:, 0]), frame, "n")

    def test_custom_fractions_of_integers(self):
        table = np.random.default_rng(0).integers(0, 9, (50, 2))
        model = LinearRegression().fit(table, table[:, 0])
        found = partial_dependence(
            model, table, [0], categorical_features=[0], custom_values={0: [0.5, 2.25]}
        )
        np.testing.assert_allclose(found.average[0], [0.5, 2.25])

    def test_models_of_scikit_learn(self):
        table = pd.DataFrame(mixed_table())
        y = (self.target > 1).astype(int)
        encode = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
        encode.fit(table[["colour"]], y)
        found = partial_dependence(encode, table[["colour"]], "colour")
        expected = sklearn_partial_dependence(
            encode, table[["colour"]], "colour", categorical_features=["colour"]
        )
        np.testing.assert_allclose(found.average, expected.average)
        typed = table.astype({"colour": "category"})
        model = HistGradientBoostingClassifier(categorical_features="from_dtype", max_iter=5)
        model.fit(typed, y)
        settings = {"grid_resolution": 4, "method": "brute"}
        found = partial_dependence(model, typed, ["colour", "x"], **settings)
        expected = sklearn_partial_dependence(
            model, typed, ["colour", "x"], categorical_features=["colour"], **settings
        )
        np.testing.assert_allclose(found.average, expected.average)

    def test_text_with_missing_values(self):
        table = np.array([["a"], ["b"], [None], ["a"]], object)
        model = DecisionTreeRegressor(categorical_features=[0]).fit(table, [1.0, 2.0, 3.0, 1.0])
        found = partial_dependence(model, table, [0])
        assert found.grid_values[0].tolist() == ["a", "b"]
        np.testing.assert_allclose(found.average[0], [1, 2])


class Quadratic(RegressorMixin, BaseEstimator):
    """A regressor of a package whose estimators take arrays on a GPU."""

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        assert type(X).__name__ == "ndarray" and hasattr(X, "gpu") and X.gpu == 1
        return X[:, 0] ** 2 + X[:, 1]


Quadratic.__module__ = "cuml.made_up"


class TestGPU:
    def test_arrays_stay_where_they_are(self, monkeypatch):
        cupy = fake_cupy.install(monkeypatch)
        cupy.empty = lambda *args, **more: cupy.asarray(np.empty(*args, **more))
        table = fake_cupy.on_gpu(cupy, X, 1)
        found = partial_dependence(Quadratic().fit(X, Y), table, [0, 1], kind="both",
                                   grid_resolution=5)  # fmt: skip
        for array in (*found.grid_values, found.average, found.individual):
            assert isinstance(array, cupy.ndarray) and array.gpu == 1
        host = [array.get() for array in found.grid_values]
        expected = host[0][:, None] ** 2 + host[1][None, :]
        np.testing.assert_allclose(found.average.get()[0], expected)
        np.testing.assert_allclose(found.individual.get()[0, 7], expected)

    def test_models_of_the_host_get_host_arrays(self, monkeypatch):
        cupy = fake_cupy.install(monkeypatch)
        model = LinearRegression().fit(X, Y)
        found = partial_dependence(model, fake_cupy.on_gpu(cupy, X, 1), [2])
        assert isinstance(found.average, cupy.ndarray) and found.average.gpu == 1
        np.testing.assert_array_equal(
            found.average.get(), partial_dependence(model, X, [2]).average
        )

    def test_our_trees_on_the_host(self, monkeypatch):
        model = RandomForestRegressor(n_estimators=3, device="cpu").fit(X, Y)
        expected = partial_dependence(model, X, [2])
        cupy = fake_cupy.install(monkeypatch)
        found = partial_dependence(model, fake_cupy.on_gpu(cupy, X, 1), [2])
        assert isinstance(found.average, cupy.ndarray)
        np.testing.assert_array_equal(found.average.get(), expected.average)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_bits_with_any_number_of_threads(threads):
    model = RandomForestRegressor(n_estimators=5, n_jobs=threads).fit(X, Y)
    found = partial_dependence(model, X, [3, 0], grid_resolution=9).average
    expected = partial_dependence(
        RandomForestRegressor(n_estimators=5, n_jobs=1).fit(X, Y), X, [3, 0], grid_resolution=9
    ).average
    np.testing.assert_array_equal(found, expected)


def test_lists():
    model = make_pipeline(StandardScaler(), LinearRegression()).fit(X, Y)
    found = partial_dependence(model, X.tolist(), [2]).average
    np.testing.assert_array_equal(found, partial_dependence(model, X, [2]).average)
