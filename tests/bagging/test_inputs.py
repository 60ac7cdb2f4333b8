"""What bags take, from whom, and what they say about the rest."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.datasets import load_diabetes, load_wine
from sklearn.linear_model import (
    LogisticRegression,
    Perceptron,
    Ridge,
)
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier

import gpuens
from gpuens import (
    BaggingClassifier,
    BaggingRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
)
from gpuens.devices.placement import CPU, Device
from gpuens.devices.policy import boosting_work
from gpuens.members.fitting import device_for
from tests.support import strict_cupy
from tests.support.errors import raises
from tests.support.lanes import few
from tests.support.user_estimators import (
    FailsToFit,
    NearestMean,
    NearestMeanWithDecisions,
    WeightedMean,
)

X, C = load_wine(return_X_y=True)
X = StandardScaler().fit_transform(X)
XR, Y = load_diabetes(return_X_y=True)
BOTH = [(BaggingClassifier, X, C), (BaggingRegressor, XR, Y)]
both = pytest.mark.parametrize("cls, X, y", BOTH, ids=["classifier", "regressor"])


class TestInputs:
    def test_text_goes_to_the_members(self):
        frame = pd.DataFrame({"color": np.array(["red", "green", "blue"])[C], "size": X[:, 0]})
        base = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
        model = BaggingClassifier(base).fit(frame[["color"]], C)
        assert model.score(frame[["color"]], C) == 1

    @pytest.mark.parametrize("container", few([scipy.sparse.csr_array, scipy.sparse.csc_matrix], 0))
    def test_sparse(self, container):
        X = np.where(np.abs(XR) < 0.03, 0, XR)
        settings = {"max_features": 0.6, "oob_score": True, "n_estimators": 25}
        for base in (SVR(), make_pipeline(MaxAbsScaler(), SVR())):  # rows by weight, by copy
            dense = BaggingRegressor(base, **settings).fit(X, Y)
            sparse = BaggingRegressor(base, **settings).fit(container(X), Y)
            np.testing.assert_allclose(sparse.predict(container(X)), dense.predict(X))
            np.testing.assert_allclose(sparse.oob_prediction_, dense.oob_prediction_)

    def test_sparse_for_members_that_do_not_take_it(self):
        with raises(TypeError, "Sparse data was passed"):
            BaggingClassifier(GaussianNB()).fit(scipy.sparse.csr_array(X), C)

    def test_missing_values_are_the_members_business(self):
        holes = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
        model = BaggingClassifier(GradientBoostingClassifier(n_estimators=5)).fit(holes, C)
        assert model.score(holes, C) > 0.9
        assert model.__sklearn_tags__().input_tags.allow_nan
        with raises(ValueError, "NaN"):
            BaggingClassifier(LogisticRegression()).fit(holes, C)
        assert not BaggingClassifier(LogisticRegression()).__sklearn_tags__().input_tags.allow_nan

    def test_this_packages_own_estimators(self):
        base = GradientBoostingRegressor(n_estimators=20, subsample=0.8)
        model = BaggingRegressor(base, n_estimators=3).fit(XR, Y)
        assert model.score(XR, Y) > 0.5
        assert len({member.forest_.fingerprint() for member in model}) == 3

    def test_an_estimator_that_inherits_nothing(self):
        class Duck:
            def get_params(self, deep=True):
                return {}

            def set_params(self, **params):
                return self

            def fit(self, X, y):
                self.mean = y.mean()

            def predict(self, X):
                return np.full((len(X), 1), self.mean)

        model = BaggingRegressor(Duck()).fit(XR, Y)
        expected = np.mean([Y[rows].mean() for rows in model.estimators_samples_])
        np.testing.assert_allclose(model.predict(XR), expected)
        assert model.predict(XR).shape == (len(XR),)

    def test_it_works_inside_of_a_search(self):
        grid = {"n_estimators": [2, 5], "estimator__C": [0.1, 1.0]}
        search = GridSearchCV(BaggingClassifier(SVC()), grid, cv=3).fit(X, C)
        assert search.best_score_ > 0.9

    def test_bags_of_bags(self):
        inner = BaggingClassifier(GaussianNB(), n_estimators=3)
        model = BaggingClassifier(inner, n_estimators=3).fit(X, C)
        assert model.score(X, C) > 0.9
        assert len({member.random_state for member in model}) == 3


class TestDevices:
    """On a stand-in for CuPy."""

    def test_members_of_the_user_get_gpu_arrays_if_asked_to(self, cupy):
        gpu = strict_cupy.on_gpu(cupy, X, 1)
        settings = {"bootstrap": False, "max_samples": 100, "max_features": 0.8}
        model = BaggingClassifier(NearestMean(), device="cuda", **settings)
        model.fit(gpu, strict_cupy.on_gpu(cupy, C, 1))
        proba = model.predict_proba(gpu)
        assert all(type(part) is cupy.ndarray for member in model for part in member.seen_)
        assert type(proba) is cupy.ndarray and proba.device.id == 1
        host = BaggingClassifier(NearestMean(), **settings).fit(X, C)
        np.testing.assert_array_equal(proba.get(), host.predict_proba(X))
        assert type(model.predict(gpu)) is cupy.ndarray

    def test_host_estimators_get_numpy(self, cupy):
        gpu = strict_cupy.on_gpu(cupy, XR, 0)
        model = BaggingRegressor(WeightedMean()).fit(gpu, strict_cupy.on_gpu(cupy, Y, 0))
        assert all(type(part) is np.ndarray for member in model for part in member.seen_)
        mean, std = model.predict(gpu, return_std=True)
        assert type(mean) is cupy.ndarray and type(std) is cupy.ndarray
        assert model.score(gpu, strict_cupy.on_gpu(cupy, Y, 0)) < 1

    def test_who_gets_gpu_arrays(self, cupy):
        gpu = strict_cupy.on_gpu(cupy, X, 1)
        own, foreign = GradientBoostingClassifier(), LogisticRegression()
        cuml = type("Model", (BaseEstimator,), {"__module__": "cuml.linear_model"})()
        there = Device("cuda", 1)
        assert device_for(own, "auto", gpu) == there
        assert device_for(make_pipeline(StandardScaler(), own), "auto", gpu) == there
        assert device_for(cuml, "auto", gpu) == there
        assert device_for(foreign, "auto", gpu) == CPU
        assert device_for(foreign, "cuda", gpu) == there
        assert device_for(own, "cpu", gpu) == CPU
        large = boosting_work((11_000_000, 28), 100)
        assert device_for(own, "auto", X, work=large) == Device("cuda", 0)
        assert device_for(own, "auto", X) == CPU  # the work is not known
        assert device_for(cuml, "auto", X) == CPU


class TestBadInput:
    @both
    @pytest.mark.parametrize("name, value, wants", [
        ("max_samples", 0, "a float in (0, 1], got 0"),
        ("max_samples", 0.0, "a float in (0, 1], got 0.0"),
        ("max_samples", 1.5, "a float in (0, 1], got 1.5"),
        ("max_samples", -3, "got -3"),
        ("max_samples", "all", "got 'all'"),
        ("max_features", 0, "got 0"),
        ("max_features", 2.0, "got 2.0"),
        ("max_features", None, "got None"),
        ("bootstrap", 1, "True or False, got 1"),
        ("bootstrap_features", "no", "True or False, got 'no'"),
        ("oob_score", "accuracy", "True, False or a callable, got 'accuracy'"),
    ])  # fmt: skip
    def test_parameters(self, cls, X, y, name, value, wants):
        with raises(ValueError, name, wants):
            cls(**{name: value}).fit(X, y)

    def test_voting(self):
        with raises(ValueError, "voting must be 'auto', 'soft' or 'hard', got 'both'"):
            BaggingClassifier(voting="both").fit(X, C)
        with raises(ValueError, "voting='soft'", "Perceptron() has no predict_proba"):
            BaggingClassifier(Perceptron(), voting="soft").fit(X, C)

    @both
    @pytest.mark.parametrize("base", [3, "tree", DecisionTreeClassifier, StandardScaler()], ids=str)
    def test_no_estimator(self, cls, X, y, base):
        with raises(TypeError, "estimator must be None or an object with the methods fit, predict"):
            cls(base).fit(X, y)

    @both
    def test_more_features_than_there_are(self, cls, X, y):
        n = X.shape[1]
        with raises(ValueError, f"max_features={n + 1} for X with {n} features"):
            cls(max_features=n + 1).fit(X, y)

    @both
    def test_more_rows_than_there_are_without_replacement(self, cls, X, y):
        n = len(X)
        with raises(ValueError, f"max_samples={n + 1} must be <= n_samples={n}"):
            cls(max_samples=n + 1, bootstrap=False).fit(X, y)
        weight = (np.arange(n) < 10) * 1.0
        with pytest.warns(UserWarning, match="recommended"):
            with raises(ValueError, "positive for 10 rows, fewer than the 20"):
                cls(max_samples=20, bootstrap=False).fit(X, y, sample_weight=weight)

    @pytest.mark.parametrize("settings", [{"max_features": 0.5}, {"bootstrap_features": True}])
    @pytest.mark.parametrize("name, value", [
        ("categorical_features", [1]), ("monotonic_cst", [1] * 13),
    ])  # fmt: skip
    def test_columns_by_position(self, name, value, settings):
        base = gpuens.DecisionTreeClassifier(**{name: value})
        with raises(ValueError, f"{name}={value} of the estimator", "max_features=1.0"):
            BaggingClassifier(base, **settings).fit(np.abs(X.round()), C == 1)

    @both
    def test_few_rows(self, cls, X, y):
        with pytest.warns(UserWarning, match=r"max_samples=0.01 .* low number \([14]\)"):
            cls(max_samples=0.01).fit(X, y)

    @both
    def test_out_of_bag(self, cls, X, y):
        with raises(ValueError, "Out of bag estimation only available if bootstrap=True"):
            cls(oob_score=True, bootstrap=False).fit(X, y)
        with raises(ValueError, "Out of bag estimate only available if warm_start=False"):
            cls(oob_score=True, warm_start=True).fit(X, y)

    @both
    def test_warm_start(self, cls, X, y):
        model = cls(n_estimators=5, warm_start=True).fit(X, y)
        with raises(ValueError, "n_estimators=4", "len(estimators_)=5"):
            model.set_params(n_estimators=4).fit(X, y)
        with raises(ValueError, "features"):
            model.set_params(n_estimators=6).fit(X[:, 1:], y)
        assert len(model) == 5

    def test_warm_start_with_other_classes(self):
        model = BaggingClassifier(n_estimators=2, warm_start=True).fit(X, C)
        with raises(ValueError, "y has the classes [0, 1]", "know [0, 1, 2]"):
            model.set_params(n_estimators=3).fit(X, C % 2)
        assert model.predict(X).shape == C.shape

    def test_warm_start_with_other_outputs(self):
        model = BaggingRegressor(n_estimators=2, warm_start=True).fit(XR, Y)
        with raises(ValueError, f"y has shape ({len(Y)}, 2)", "warm_start=False"):
            model.set_params(n_estimators=3).fit(XR, np.stack([Y, Y], axis=1))

    def test_several_targets(self):
        with raises(ValueError, "Input y contains NaN"):
            BaggingRegressor().fit(XR, np.full((len(XR), 2), np.nan))
        with raises(ValueError, "y must hold finite numbers for each of the 442 rows of X, got"):
            BaggingRegressor().fit(XR, np.ones((5, 2)))

    @both
    def test_training_that_fails_leaves_the_bag_as_it_was(self, cls, X, y):
        model = cls(n_estimators=3).fit(X, y)
        before = model.predict(X)
        model.estimator = FailsToFit()
        with raises(RuntimeError, "no luck"):
            model.fit(X[:, 1:], y)
        np.testing.assert_array_equal(model.predict(X), before)

    def test_decision_functions_of_different_shape(self):
        y = np.repeat([0, 1, 2], [90, 85, 3])
        model = BaggingClassifier(NearestMeanWithDecisions(), max_samples=15).fit(X, y)
        with raises(ValueError, "2 of the 3 classes", "predict_proba"):
            model.decision_function(X)


SPANS = pd.to_timedelta([1, 2, 3] * 20, unit="s")
TOWNS = pd.Categorical(["Bonn", "Kiel", None] * 20)


@pytest.mark.parametrize("column", [SPANS, TOWNS], ids=["spans", "towns"])
def test_columns_without_a_type_in_common(column):
    X = pd.DataFrame({"number": pd.array([1, None] * 30, "Int64"), "other": column})
    with raises(TypeError, "X is a data frame whose columns have no type in common"):
        BaggingRegressor(Ridge(), device="cpu").fit(X, np.arange(60.0))


def test_a_frame_without_columns():
    with raises(ValueError, "0 feature(s) (shape=(178, 0)) while a minimum of 1 is required"):
        BaggingClassifier().fit(pd.DataFrame(index=range(len(C))), C)
