"""What AdaBoost takes, from whom, and what it says about the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.datasets import load_diabetes, load_wine
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpuens import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    RandomForestClassifier,
)
from tests.support import strict_cupy
from tests.support.errors import raises
from tests.support.user_estimators import NearestMean

NAN, INF = float("nan"), float("inf")
X, C = load_wine(return_X_y=True)
X = StandardScaler().fit_transform(X)
XR, Y = load_diabetes(return_X_y=True)
BOTH = [(AdaBoostClassifier, X, C), (AdaBoostRegressor, XR, Y)]
both = pytest.mark.parametrize("cls, X, y", BOTH, ids=["classifier", "regressor"])


class TestInputs:
    def test_missing_values_and_categories(self):
        rng = np.random.default_rng(0)
        colors = np.array(["red", "green", "blue", "grey"])[rng.integers(0, 4, 200)]
        size = np.where(rng.random(200) < 0.2, NAN, rng.normal(size=200))
        frame = pd.DataFrame({"color": pd.Categorical(colors), "size": size})
        y = frame["color"].isin(["red", "grey"]) ^ frame["size"].isna()
        tree = DecisionTreeClassifier(max_depth=2, categorical_features="from_dtype")
        model = AdaBoostClassifier(tree, n_estimators=10).fit(frame, y)
        assert model.score(frame, y) == 1
        assert model.is_categorical_.tolist() == [True, False]
        numbers = AdaBoostRegressor(
            DecisionTreeRegressor(max_depth=2, categorical_features=["color"]), n_estimators=10
        ).fit(frame, y.astype(float))
        assert numbers.score(frame, y) > 0.9

    def test_tables_of_more_dimensions(self):
        class Flat(RegressorMixin, BaseEstimator):
            def fit(self, X, y, sample_weight=None):
                self.inner_ = Ridge().fit(X.reshape(len(X), -1), y, sample_weight)
                return self

            def predict(self, X):
                return self.inner_.predict(X.reshape(len(X), -1))

        cube = XR.reshape(len(XR), 5, 2)
        model = AdaBoostRegressor(Flat(), n_estimators=3).fit(cube, Y)
        flat = AdaBoostRegressor(Ridge(), n_estimators=3).fit(XR, Y)
        np.testing.assert_allclose(model.predict(cube), flat.predict(XR))

    def test_this_packages_forests(self):
        base = RandomForestClassifier(n_estimators=5, max_depth=2)
        model = AdaBoostClassifier(base, n_estimators=3).fit(X, C)
        assert model.score(X, C) > 0.95
        assert len({member.forest_.fingerprint() for member in model}) == len(model)

    def test_inside_of_a_search(self):
        grid = {"n_estimators": [2, 5], "estimator__max_depth": [1, 2]}
        search = GridSearchCV(AdaBoostClassifier(DecisionTreeClassifier()), grid, cv=3).fit(X, C)
        assert search.best_score_ > 0.85

    def test_learners_in_gpu_memory(self, monkeypatch):
        cupy = strict_cupy.install(monkeypatch)

        class Weighted(RegressorMixin, BaseEstimator):
            def fit(self, X, y, sample_weight):
                self.seen_ = X, y, sample_weight
                self.mean_ = float((y * sample_weight).sum() / sample_weight.sum())
                return self

            def predict(self, X):
                return X[:, 0] * 0 + self.mean_

        there, y = strict_cupy.on_gpu(cupy, XR, 1), strict_cupy.on_gpu(cupy, Y, 1)
        model = AdaBoostRegressor(Weighted(), n_estimators=3, device="cuda").fit(there, y)
        host = AdaBoostRegressor(Weighted(), n_estimators=3).fit(XR, Y)
        assert all(type(part) is cupy.ndarray for member in model for part in member.seen_)
        found = model.predict(there)
        assert type(found) is cupy.ndarray and found.device.id == 1
        np.testing.assert_array_equal(found.get(), host.predict(XR))


COUNT = [0, -1, 1.5, "3", NAN, True]
PARAMETERS: dict[str, tuple[str, list[Any]]] = {
    "learning_rate": ("a finite number > 0", [0, -1.0, NAN, INF, "1", None, True]),
    "max_bins": ("None or an integer from 2 to 255", [1, 256, 2.0, "255", True]),
}


class TestBadInput:
    @both
    @pytest.mark.parametrize(
        "name, wants, value",
        [(name, wants, value) for name, (wants, vs) in PARAMETERS.items() for value in vs],
    )
    def test_parameters(self, cls, X, y, name, wants, value):
        with raises(ValueError, name if name != "random_state" else "", wants, repr(value)):
            cls(**{name: value}).fit(X, y)

    @pytest.mark.parametrize("value", ["huber", None, 1])
    def test_loss(self, value):
        wants = "loss must be 'linear', 'square' or 'exponential', got "
        with raises(ValueError, wants + repr(value)):
            AdaBoostRegressor(loss=value).fit(XR, Y)

    @both
    @pytest.mark.parametrize("value", [3, [3], [int], "log"])
    def test_callbacks(self, cls, X, y, value):
        with raises(TypeError, "callbacks must be"):
            cls(callbacks=value).fit(X, y)

    @both
    @pytest.mark.parametrize("base", [3, "tree", DecisionTreeClassifier, StandardScaler()], ids=str)
    def test_no_estimator(self, cls, X, y, base):
        with raises(TypeError, "estimator must be None or an object with the methods fit, predict"):
            cls(base).fit(X, y)

    def test_estimators_of_the_other_kind(self):
        with raises(TypeError, "must be a classifier", "Ridge()", "Use AdaBoostRegressor"):
            AdaBoostClassifier(Ridge()).fit(X, C)
        with raises(TypeError, "must be a regressor", "GaussianNB()", "Use AdaBoostClassifier"):
            AdaBoostRegressor(GaussianNB()).fit(XR, Y)

    @pytest.mark.parametrize(
        "base", [KNeighborsClassifier(), NearestMean(), make_pipeline(GaussianNB())], ids=str
    )
    def test_estimators_without_weights(self, base):
        """Before any training, and before y is looked at."""
        name = type(base).__name__
        with raises(ValueError, f"{name} doesn't support sample_weight", "BaggingClassifier"):
            AdaBoostClassifier(base).fit(X, None)

    @both
    def test_parameters_of_the_tree(self, cls, X, y):
        tree = DecisionTreeClassifier if cls is AdaBoostClassifier else DecisionTreeRegressor
        with raises(ValueError, "max_depth must be", "got 0"):
            cls(tree(max_depth=0)).fit(X, y)
        with raises(ValueError, "monotonic_cst has shape 2"):
            cls(tree(monotonic_cst=[1, 0])).fit(X, y if cls is AdaBoostRegressor else C == 1)
        with raises(ValueError, "not supported with multiclass"):
            AdaBoostClassifier(DecisionTreeClassifier(monotonic_cst=[1] * 13)).fit(*BOTH[0][1:])

    def test_predictions_that_are_no_numbers(self):
        class Broken(RegressorMixin, BaseEstimator):
            def fit(self, X, y):
                return self

            def predict(self, X):
                return np.full(len(X), NAN)

        with raises(ValueError, "The base estimator predicts NaN or infinity"):
            AdaBoostRegressor(Broken()).fit(XR, Y)

    def test_leaves_of_learners_that_have_none(self):
        model = AdaBoostClassifier(GaussianNB(), n_estimators=2).fit(X, C)
        assert not hasattr(model, "apply")
