"""Where partial dependence is computed: percentiles, few values, the user's own, categories."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.inspection import partial_dependence as sklearn_partial_dependence
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from gpuens import DecisionTreeRegressor, GradientBoostingRegressor, RandomForestRegressor
from gpuens.inspection import partial_dependence
from tests.inspection.test_partial_dependence import EXACT, X, Y
from tests.inspection.test_partial_dependence_recursion import point_by_point

NAN = float("nan")


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
