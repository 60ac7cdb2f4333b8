"""What a user of ``gpuens.inspection`` can get wrong: errors name the argument, what it got and
what it wants."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression

from gpuens import (
    BaggingRegressor,
    DecisionTreeRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from gpuens.inspection import (
    drop_column_importance,
    feature_importances,
    h_statistic,
    partial_dependence,
    permutation_importance,
)
from tests.support.errors import raises

NAN, INF = float("nan"), float("inf")
X = np.random.default_rng(0).normal(size=(60, 3))
Y = X[:, 0] + X[:, 1]
C = (Y > 0).astype(int)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
FOREST = RandomForestRegressor(n_estimators=2, random_state=0).fit(X, Y)
LINEAR = LinearRegression().fit(X, Y)
of_dependence = pytest.mark.parametrize("function", [partial_dependence, h_statistic])


class Silent(ClassifierMixin, BaseEstimator):
    """A classifier with labels and nothing else."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.zeros(len(X))


class TestPartialDependence:
    @of_dependence
    def test_estimators(self, function):
        with pytest.raises(NotFittedError):
            function(RandomForestRegressor(), X, [0, 1])
        for model in (KMeans(2, n_init=1).fit(X), IsolationForest(n_estimators=2).fit(X)):
            with raises(ValueError, "'estimator' must be a fitted regressor or classifier", "got a",
                        type(model).__name__):  # fmt: skip
                function(model, X, [0, 1])
        several = RandomForestClassifier(n_estimators=2).fit(X, np.stack([C, C], axis=1))
        with raises(ValueError, "Multiclass-multioutput", "a classifier for each output"):
            function(several, X, [0, 1])
        with raises(ValueError, "Silent has no predict_proba and no decision_function"):
            function(Silent().fit(X, C), X, [0, 1])
        with raises(ValueError, "RandomForestClassifier has no decision_function"):
            forest = RandomForestClassifier(n_estimators=2).fit(X, C)
            function(forest, X, [0, 1], response_method="decision_function")

    @of_dependence
    def test_choices(self, function):
        with raises(ValueError, "method must be 'auto' or 'recursion' or 'brute', got 'fast'"):
            function(LINEAR, X, [0, 1], method="fast")
        model = LogisticRegression().fit(X, C)
        with raises(ValueError, "response_method must be", "got 'predict'"):
            function(model, X, [0, 1], response_method="predict")
        with raises(ValueError, "response_method", "must be 'auto', got 'predict_proba'"):
            function(LINEAR, X, [0, 1], response_method="predict_proba")
        with raises(ValueError, "Only the following estimators", "got LinearRegression", "brute"):
            function(LINEAR, X, [0, 1], method="recursion")
        with raises(ValueError, "the response_method must be 'decision_function'. Got",
                    "'predict_proba'", "brute"):  # fmt: skip
            boosted = GradientBoostingClassifier(n_estimators=2).fit(X, C)
            function(boosted, X, [0, 1], method="recursion", response_method="predict_proba")

    def test_recursion_of_rows(self):
        for kind in ("individual", "both"):
            with raises(ValueError, "'recursion' method only applies when 'kind'", kind, "brute"):
                partial_dependence(FOREST, X, 0, method="recursion", kind=kind)
        with raises(ValueError, "only be applied when sample_weight is None", "brute"):
            partial_dependence(FOREST, X, 0, method="recursion", sample_weight=np.ones(60))
        with raises(ValueError, "kind must be 'average' or 'individual' or 'both', got 'ice'"):
            partial_dependence(FOREST, X, 0, kind="ice")
        poisson = GradientBoostingRegressor(loss="poisson", n_estimators=2).fit(X, Y - Y.min())
        with raises(ValueError, "a loss whose link is the identity", "GradientBoostingRegressor"):
            partial_dependence(poisson, X, 0, method="recursion")

    @of_dependence
    def test_features(self, function):
        for feature in (-1, 3, 10000):
            with raises(ValueError, "all features must be in [0, 2]", f"features has {feature}"):
                function(FOREST, X, [0, feature])
        with raises(ValueError, "features names 'a', but X is not a data frame"):
            function(FOREST, X, ["a", "b"])
        forest = RandomForestRegressor(n_estimators=2).fit(FRAME, Y)
        with raises(ValueError, "Some column names are not columns of the dataframe",
                    "features names 'q', the columns are 'a', 'b', 'c'"):  # fmt: skip
            function(forest, FRAME, ["a", "q"])
        with raises(ValueError, "features names no feature"):
            function(FOREST, X, [])
        with raises(ValueError, "features names a feature more than once: [1, 1]"):
            function(FOREST, X, [1, 1])
        with raises(ValueError, "features is a mask of 2 booleans, but X has 3 features"):
            function(FOREST, X, [True, False])
        with raises(ValueError, "features must be positions, names or a mask, got 0.5"):
            function(FOREST, X, [0.5, 1])
        with raises(ValueError, "feature_names has 2 names, but X has 3 features"):
            function(FOREST, X, [0, 1], feature_names=["a", "b"])
        with raises(ValueError, "feature_names should not contain duplicates"):
            function(FOREST, X, [0, 1], feature_names=["a", "b", "a"])

    @of_dependence
    def test_tables(self, function):
        for wrong in (X[:0], X[:, :0], X[0], X[None], 3.0):
            with raises(ValueError, "X must be a table with at least one row and one column"):
                function(FOREST, wrong, [0, 1])
        with raises(ValueError, "X has 2 features, but RandomForestRegressor was fitted with 3"):
            function(FOREST, X[:, :2], [0, 1])
        twice = pd.DataFrame(X, columns=["a", "b", "a"])
        with raises(ValueError, "X has columns of the same name: ['a']"):
            function(LINEAR, twice, [0, 1])
        with raises(TypeError, "LazyFrame", "collect"):
            function(LINEAR, pl.from_pandas(FRAME).lazy(), [0, 1])

    @pytest.mark.parametrize("percentiles", [
        (0.9, 0.1), (0.5, 0.5), (-0.1, 0.9), (0.1, 1.1), (0.1,), (0.1, 0.5, 0.9), 0.5, "ab", None,
        (0.1, NAN), ("a", "b"), (False, True),
    ], ids=str)  # fmt: skip
    def test_percentiles(self, percentiles):
        with raises(ValueError, "percentiles must be two numbers, 0 <= percentiles[0] <", "got"):
            partial_dependence(FOREST, X, 0, percentiles=percentiles)

    @pytest.mark.parametrize("resolution", [1, 0, -3, 2.5, "10", None, True])
    def test_grid_resolution(self, resolution):
        with raises(ValueError, "grid_resolution must be an integer >= 2, got", repr(resolution)):
            partial_dependence(FOREST, X, 0, grid_resolution=resolution)

    def test_grids_that_cannot_be_made(self):
        table = X.copy()
        table[:55, 1] = 4.0
        with raises(ValueError, "percentiles (0.1, 0.5) of the column 1 are too close"):
            partial_dependence(FOREST, table, 1, percentiles=(0.1, 0.5), grid_resolution=5)
        for nothing in (NAN, INF):
            table[:, 1] = nothing
            with raises(ValueError, "column 1 has no finite value", "custom_values"):
                partial_dependence(FOREST, table, 1)

    def test_custom_values(self):
        with raises(ValueError, "custom grid", "not a one-dimensional array", "Feature 1: 2 dim"):
            partial_dependence(FOREST, X, [0, 1], custom_values={1: np.ones((3, 3))})
        with raises(ValueError, "custom_values of feature 1 is empty"):
            partial_dependence(FOREST, X, [0, 1], custom_values={1: []})
        with raises(ValueError, "custom_values must be a dict", "got [1, 2]"):
            partial_dependence(FOREST, X, [0, 1], custom_values=[1, 2])
        with raises(ValueError, "custom_values of the column 1 must be numbers", "'red'",
                    "categorical_features"):  # fmt: skip
            partial_dependence(FOREST, X, [0, 1], custom_values={1: ["red"]})

    def test_categories(self):
        table = FRAME.assign(t=np.tile(["red", "oak"], 30))
        forest = DecisionTreeRegressor(categorical_features=["t"]).fit(table, Y)
        with raises(ValueError, "column 't' holds categories, which have no percentiles",
                    "name it in categorical_features"):  # fmt: skip
            partial_dependence(forest, table, ["t"], categorical_features=["a"])
        with raises(ValueError, "'t' has categories that training did not have: ['fir']",
                    "It had ['oak', 'red']"):  # fmt: skip
            partial_dependence(forest, table, ["t"], custom_values={"t": ["oak", "fir"]})
        with raises(ValueError, "empty list (`[]`) to `categorical_features`", "`None`"):
            partial_dependence(forest, table, ["t"], categorical_features=[])
        with raises(ValueError, "categorical_features names 'q'"):
            partial_dependence(forest, table, ["t"], categorical_features=["q"])
        with raises(ValueError, "categorical_features is a mask of 1 booleans"):
            partial_dependence(forest, table, ["t"], categorical_features=[True])
        nothing = table.assign(t=pd.Series([None] * 60, dtype=object))
        with raises(ValueError, "column 't' has only missing values", "custom_values"):
            partial_dependence(forest, nothing, ["t"])

    def test_weights(self):
        with raises(ValueError, "sample_weight.shape == (3,), expected (60,)"):
            partial_dependence(FOREST, X, 0, sample_weight=np.ones(3))
        with raises(ValueError, "Negative values in data passed to `sample_weight`"):
            partial_dependence(FOREST, X, 0, sample_weight=-np.ones(60))
        with raises(ValueError, "sample_weight is zero for every row"):
            partial_dependence(FOREST, X, 0, sample_weight=np.zeros(60))

    def test_rows_that_do_not_fit_into_memory(self, monkeypatch):
        monkeypatch.setattr("gpuens.inspection.dependence.available_memory", lambda: 1000)
        with raises(MemoryError, "60 rows at 100 points take 46.9 KiB", "1e+03 B are free",
                    "grid_resolution"):  # fmt: skip
            partial_dependence(FOREST, X, 0, kind="individual", grid_resolution=100,
                               custom_values={0: np.arange(100.0)})  # fmt: skip


class TestHStatistic:
    def test_one_feature(self):
        with raises(ValueError, "features must name at least two features", "[1]"):
            h_statistic(FOREST, X, [1])
        one = RandomForestRegressor(n_estimators=2).fit(X[:, :1], Y)
        with raises(ValueError, "features must name at least two"):
            h_statistic(one, X[:, :1])

    @pytest.mark.parametrize("n", [0, 1, 2.5, "10", None, True])
    def test_max_samples(self, n):
        with raises(ValueError, "max_samples must be an integer >= 2, got", repr(n)):
            h_statistic(FOREST, X, max_samples=n)

    def test_random_state(self):
        with raises(ValueError, "random_state"):
            h_statistic(FOREST, X, random_state=1.5)


class TestFeatureImportances:
    def test_parameters(self):
        for kind in ("weight", None, 1):
            with raises(
                ValueError, "kind must be 'gain' or 'cover' or 'frequency', got", repr(kind)
            ):
                feature_importances(FOREST, kind)
        for value in (None, 1, "yes"):
            with raises(ValueError, "normalize must be True or False, got", repr(value)):
                feature_importances(FOREST, normalize=value)

    def test_models(self):
        with pytest.raises(NotFittedError):
            feature_importances(RandomForestRegressor())
        tree = DecisionTreeRegressor()
        for model in (
            LINEAR, BaggingRegressor(LinearRegression()).fit(X, Y),
            BaggingRegressor(tree, max_features=2).fit(X, Y),
        ):  # fmt: skip
            with raises(TypeError, type(model).__name__, "no trees", "permutation_importance"):
                feature_importances(model)


class TestPermutationImportance:
    def test_models(self):
        with pytest.raises(NotFittedError):
            permutation_importance(RandomForestRegressor(), X, Y)
        with raises(ValueError, "estimator must be a fitted estimator", "'tree'"):
            permutation_importance("tree", X, Y)
        with pytest.raises(TypeError, match="score"):
            permutation_importance(IsolationForest(n_estimators=2).fit(X), X, Y)

    @pytest.mark.parametrize("n", [0, -1, 1.5, "3", None, True])
    def test_n_repeats(self, n):
        with raises(ValueError, "n_repeats must be an integer >= 1, got", repr(n)):
            permutation_importance(LINEAR, X, Y, n_repeats=n)

    @pytest.mark.parametrize("share", [0, -1, 0.0, 1.5, 0.001, NAN, "all", None, True])
    def test_max_samples(self, share):
        with raises(ValueError, "max_samples must be an integer >= 1 or a share in (0, 1]", "got"):
            permutation_importance(LINEAR, X, Y, max_samples=share)

    def test_more_samples_than_rows(self):
        with raises(ValueError, "max_samples must be <= n_samples, got 61 for the 60 rows"):
            permutation_importance(LINEAR, X, Y, max_samples=61)

    def test_data(self):
        for wrong in (Y[:5], 3.0):
            with raises(ValueError, "y has the shape", "X has 60 rows", "one target for each row"):
                permutation_importance(LINEAR, X, wrong)
        with raises(ValueError, "X must be a table", "(0, 3)"):
            permutation_importance(LINEAR, X[:0], Y[:0])
        with raises(ValueError, "sample_weight must hold one weight for each of the 60 rows"):
            permutation_importance(LINEAR, X, Y, sample_weight=np.ones(3))
        with raises(ValueError, "X has 2 features", "expecting 3"):
            permutation_importance(FOREST, X[:, :2], Y)
        with raises(ValueError, "NaN"):
            permutation_importance(FOREST, X, np.full(60, NAN))
        with raises(ValueError, "scoring must be a name", "got 'speed'"):
            permutation_importance(FOREST, X, Y, scoring="speed")
        with raises(ValueError, "random_state"):
            permutation_importance(FOREST, X, Y, random_state="seed")


class TestDropColumnImportance:
    def test_data(self):
        model = LinearRegression()
        with raises(ValueError, "X has one column", "at least two"):
            drop_column_importance(model, X[:, :1], Y)
        with raises(ValueError, "estimator must be an estimator with a fit method", "None"):
            drop_column_importance(None, X, Y)
        with raises(ValueError, "y has the shape (5,), X has 60 rows"):
            drop_column_importance(model, X, Y[:5])
        with raises(ValueError, "y_val is None", "together"):
            drop_column_importance(model, X, Y, X_val=X)
        with raises(ValueError, "X_val is None", "together"):
            drop_column_importance(model, X, Y, y_val=Y)
        with raises(ValueError, "cv and X_val both"):
            drop_column_importance(model, X, Y, X_val=X, y_val=Y, cv=3)
        with raises(ValueError, "X_val has 2 columns, X has 3 columns"):
            drop_column_importance(model, X, Y, X_val=X[:, :2], y_val=Y)
        with raises(ValueError, "y has the shape (3,), X has 60 rows"):
            drop_column_importance(model, X, Y, X_val=X, y_val=Y[:3])
        with raises(ValueError, "sample_weight must hold one weight"):
            drop_column_importance(model, X, Y, sample_weight=np.ones(3))
