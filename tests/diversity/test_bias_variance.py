"""Bias and variance, each computed again from the models' predictions."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.cluster import KMeans
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpuens import DecisionTreeClassifier, DecisionTreeRegressor, RandomForestRegressor, diversity
from gpuens.bias_variance.decomposition import (
    bias_variance,
    correlation_of_models,
    variance_of_average,
)
from tests.support import strict_cupy
from tests.support.errors import raises

XR, Y = load_diabetes(return_X_y=True)
X, C = load_iris(return_X_y=True)
NAN = float("nan")
ARRAYS = ("error_of_rows", "bias_of_rows", "variance_of_rows", "net_variance_of_rows")
NUMBERS = ("error", "bias", "variance", "net_variance", "unbiased_variance", "biased_variance")


class Remembering(BaseEstimator):
    """Keeps what it was trained on and what it said, in an order that the test can read."""

    log: list[dict[str, Any]] = []

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y):
        self.x_, self.y_ = np.asarray(X)[:, 0].copy(), np.asarray(y).copy()
        return self

    def predict(self, X):
        answer = self.answer(np.asarray(X)[:, 0])
        self.log.append({"x": self.x_, "y": self.y_, "seed": self.random_state, "said": answer,
                         "asked": np.asarray(X)[:, 0].copy()})  # fmt: skip
        return answer

    def answer(self, x):
        nearest = np.abs(x[:, None] - self.x_[None, :]).argmin(axis=1)
        return self.y_[nearest]


class NearestNumber(RegressorMixin, Remembering):
    pass


class NearestLabel(ClassifierMixin, Remembering):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return super().fit(X, y)


@pytest.fixture
def log(monkeypatch):
    kept: list[dict[str, Any]] = []
    monkeypatch.setattr(Remembering, "log", kept)
    return kept


def points(n=40, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.permutation(n) / n
    return x[:, None], np.sin(6 * x) + 0.3 * rng.normal(size=n)


def labels_of(y):
    return np.array(["low", "middle", "top"])[np.digitize(y, [-0.4, 0.5])]


def of_row_squared(said, truth):
    mean = sum(said) / len(said)
    variance = sum((s - mean) ** 2 for s in said) / len(said)
    return mean, sum((s - truth) ** 2 for s in said) / len(said), (mean - truth) ** 2, variance


def of_row_zero_one(said, truth):
    """Domingos' definitions, with fractions; the first label wins a tie."""
    counts = Counter(said)
    main = min(counts, key=lambda label: (-counts[label], label))
    n = len(said)
    bias = int(main != truth)
    variance = Fraction(n - counts[main], n)
    if bias:
        apart = [s for s in said if s != main]
        hits = Fraction(sum(s == truth for s in apart), len(apart)) if apart else Fraction(0)
        factor = -hits
    else:
        factor = Fraction(1)
    error = Fraction(n - counts[truth], n)
    assert error == bias + factor * variance
    return main, error, bias, variance, factor * variance


class TestDecomposition:
    def test_squared_loss(self, log):
        x, y = points()
        found = bias_variance(NearestNumber(), x, y, rounds=12, test=0.25, random_state=3)
        assert found.loss == "squared" and found.rounds == 12 == len(log)
        rows = found.test_rows
        assert len(rows) == 10 and (np.diff(rows) > 0).all()
        for entry in log:
            np.testing.assert_array_equal(entry["asked"], x[rows, 0])
            assert len(entry["x"]) == 30 and not set(entry["x"]) & set(x[rows, 0])
        assert len({tuple(entry["x"]) for entry in log}) == 12
        expected = [of_row_squared([e["said"][i] for e in log], y[r]) for i, r in enumerate(rows)]
        main, error, bias, variance = np.array(expected).T
        np.testing.assert_allclose(found.main_prediction, main, atol=1e-12)
        np.testing.assert_allclose(found.error_of_rows, error, atol=1e-12)
        np.testing.assert_allclose(found.bias_of_rows, bias, atol=1e-12)
        np.testing.assert_allclose(found.variance_of_rows, variance, atol=1e-12)
        np.testing.assert_array_equal(found.net_variance_of_rows, found.variance_of_rows)
        np.testing.assert_allclose(error, bias + variance, atol=1e-12)
        assert found.error == pytest.approx(error.mean(), abs=1e-12)
        assert found.error == pytest.approx(found.bias + found.net_variance, abs=1e-12)
        assert found.unbiased_variance == found.variance and found.biased_variance == 0

    def test_zero_one_loss(self, log):
        x, y = points(60)
        y = labels_of(y)
        found = bias_variance(NearestLabel(), x, y, rounds=9, test=0.5)
        assert found.loss == "zero_one"
        rows = found.test_rows
        expected = [of_row_zero_one([e["said"][i] for e in log], y[r]) for i, r in enumerate(rows)]
        assert found.main_prediction.tolist() == [row[0] for row in expected]
        values = np.array([[float(v) for v in row[1:]] for row in expected]).T
        for name, wanted in zip(ARRAYS, values, strict=True):
            np.testing.assert_allclose(getattr(found, name), wanted, atol=1e-12)
        error, bias, variance, net = values
        assert found.error == pytest.approx(error.mean(), abs=1e-12)
        assert found.bias == pytest.approx(bias.mean(), abs=1e-12)
        assert found.variance == pytest.approx(variance.mean(), abs=1e-12)
        assert found.net_variance == pytest.approx(net.mean(), abs=1e-12)
        assert found.unbiased_variance == pytest.approx(net[bias == 0].sum() / 30, abs=1e-12)
        assert found.biased_variance == pytest.approx(-net[bias == 1].sum() / 30, abs=1e-12)
        assert found.biased_variance > 0 and 0 < found.bias < 1
        difference = found.unbiased_variance - found.biased_variance
        assert found.net_variance == pytest.approx(difference, abs=1e-12)

    def test_two_classes(self):
        """Where most are wrong, each that differs is right: the variance itself is taken off."""
        y = (C > 0).astype(int)
        flipped = np.where(np.random.default_rng(0).random(150) < 0.2, 1 - y, y)
        found = bias_variance(GaussianNB(), X[:, :2], flipped, rounds=30, test="out_of_bag")
        biased = found.bias_of_rows == 1
        assert biased.any()
        np.testing.assert_allclose(
            found.net_variance_of_rows[biased], -found.variance_of_rows[biased], atol=1e-12
        )

    @pytest.mark.parametrize("kind", ["numbers", "classes"])
    def test_out_of_bag(self, log, kind):
        x, y = points()
        y = y if kind == "numbers" else labels_of(y)
        model = NearestNumber() if kind == "numbers" else NearestLabel()
        found = bias_variance(model, x, y, rounds=25, test="out_of_bag", random_state=1)
        np.testing.assert_array_equal(found.test_rows, np.arange(40))
        of_row = of_row_squared if kind == "numbers" else of_row_zero_one
        for i in range(40):
            said = [e["said"][i] for e in log if x[i, 0] not in e["x"]]
            assert found.n_predictions[i] == len(said) > 0
            main, error, bias, variance, *_ = of_row(said, y[i])
            assert found.error_of_rows[i] == pytest.approx(float(error), abs=1e-12)
            assert found.bias_of_rows[i] == pytest.approx(float(bias), abs=1e-12)
            assert found.variance_of_rows[i] == pytest.approx(float(variance), abs=1e-12)
        assert all(len(e["x"]) == 40 for e in log)

    def test_rows_that_no_model_was_tested_on(self):
        x, y = points()
        with pytest.warns(UserWarning, match="of 40 rows are in the samples of all rounds.*raise"):
            found = bias_variance(KNeighborsRegressor(1), x, y, rounds=2, test="out_of_bag")
        untested = found.n_predictions == 0
        assert 0 < untested.sum() < 40
        for name in ARRAYS:
            values = getattr(found, name)
            np.testing.assert_array_equal(np.isnan(values), untested)
            assert getattr(found, name.removesuffix("_of_rows")) == np.mean(values[~untested])

    def test_rows_of_the_user(self, log):
        x, y = points()
        x_test, y_test = points(15, seed=9)
        found = bias_variance(NearestNumber(), x, y, rounds=5, test=(x_test, y_test))
        assert found.test_rows is None and len(found.error_of_rows) == 15
        expected = [of_row_squared([e["said"][i] for e in log], y_test[i]) for i in range(15)]
        np.testing.assert_allclose(found.error_of_rows, [row[1] for row in expected], atol=1e-12)
        assert all(len(e["x"]) == 40 for e in log)

    def test_random_states_are_drawn_for_each_round(self, log):
        x, y = points()
        bias_variance(NearestNumber(random_state=5), x, y, rounds=6)
        assert len({e["seed"] for e in log}) == 6

    def test_a_constant_has_bias_only_and_memory_has_variance(self):
        rng = np.random.default_rng(0)
        table, y = rng.normal(size=(300, 1)), rng.normal(size=300)

        class Zero(RegressorMixin, BaseEstimator):
            def fit(self, X, y):
                return self

            def predict(self, X):
                return np.zeros(len(X))

        found = bias_variance(Zero(), table, y, rounds=40, test="out_of_bag")
        assert found.variance == 0 and found.bias == pytest.approx(np.mean(y**2))
        memory = bias_variance(KNeighborsRegressor(1), table, y, rounds=200, test="out_of_bag")
        # Of one nearest neighbour on pure noise: other rows' noise, drawn by the sample.
        assert memory.variance > 0.3 and memory.error == pytest.approx(2 * y.var(), rel=0.2)


class TestEstimators:
    def test_trees_of_different_depth(self):
        shallow, deep = (
            bias_variance(DecisionTreeRegressor(max_depth=d), XR, Y, rounds=30) for d in (1, None)
        )
        assert shallow.bias > deep.bias and shallow.variance < deep.variance
        np.testing.assert_array_equal(shallow.test_rows, deep.test_rows)

    def test_averaging_lowers_the_variance(self):
        tree = bias_variance(DecisionTreeRegressor(), XR, Y, rounds=25)
        forest = bias_variance(RandomForestRegressor(n_estimators=15), XR, Y, rounds=25)
        assert forest.variance < tree.variance / 2

    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
    def test_frames(self, frame):
        names = ["a", "b", "c", "d"]
        table = frame({name: X[:, i] for i, name in enumerate(names)})
        y = np.array(["x", "y", "z"])[C]
        for model in (
            DecisionTreeClassifier(max_depth=3),
            make_pipeline(StandardScaler(), LogisticRegression()),
        ):
            found = bias_variance(model, table, pd.Series(y), rounds=3)
            expected = bias_variance(model, X, y, rounds=3)
            for name in NUMBERS:
                assert getattr(found, name) == pytest.approx(getattr(expected, name), abs=1e-9)
            assert isinstance(found.error_of_rows, np.ndarray)

    def test_seeds_and_jobs(self):
        def of(seed, jobs=None):
            model = KNeighborsClassifier(1)
            return bias_variance(model, X, C, rounds=6, random_state=seed, n_jobs=jobs)

        first, again, parallel, other = of(0), of(None), of(0, 2), of(1)
        for found in (again, parallel):
            np.testing.assert_array_equal(found.error_of_rows, first.error_of_rows)
            np.testing.assert_array_equal(found.test_rows, first.test_rows)
        assert not np.array_equal(other.test_rows, first.test_rows)

    def test_gpu(self, monkeypatch):
        expected = bias_variance(KNeighborsClassifier(1), X, C, rounds=4)
        cupy = strict_cupy.install(monkeypatch)
        on = strict_cupy.on_gpu
        found = bias_variance(KNeighborsClassifier(1), on(cupy, X, 1), on(cupy, C, 1), rounds=4)
        assert isinstance(found.error_of_rows, cupy.ndarray) and found.error_of_rows.device.id == 1
        np.testing.assert_array_equal(found.error_of_rows.get(), expected.error_of_rows)
        np.testing.assert_array_equal(found.main_prediction.get(), expected.main_prediction)


class TestAverage:
    @pytest.mark.parametrize("rho", [-0.1, 0.0, 0.3, 1.0])
    def test_formula(self, rho):
        covariance = 4.0 * (np.full((7, 7), rho) + (1 - rho) * np.eye(7))
        expected = covariance.sum() / 49
        assert variance_of_average(4.0, rho, 7) == pytest.approx(expected, abs=1e-12)

    def test_arrays_and_limits(self):
        found = variance_of_average(np.array([1.0, 2.0]), 0.5, np.array([1, 10]))
        np.testing.assert_allclose(found, [1.0, 1.1])
        assert variance_of_average(3.0, 0.25, 10**9) == pytest.approx(0.75, rel=1e-8)
        assert variance_of_average(3.0, -0.5, 3) == pytest.approx(0, abs=1e-12)
        assert diversity.variance_of_average is variance_of_average

    @pytest.mark.parametrize("with_target", [False, True])
    def test_estimate_from_rows(self, with_target):
        rng = np.random.default_rng(0)
        predictions = rng.normal(size=(80, 6)) + rng.normal(size=(80, 1))
        y = rng.normal(size=80) if with_target else None
        found = correlation_of_models(predictions, y)
        errors = predictions if y is None else predictions - y[:, None]
        covariance = np.cov(errors.T, ddof=0)
        assert found.n_models == 6
        assert found.variance == pytest.approx(np.diag(covariance).mean(), abs=1e-12)
        others = covariance[~np.eye(6, dtype=bool)].mean()
        assert found.correlation == pytest.approx(others / found.variance, abs=1e-12)
        average = errors.mean(axis=1).var()
        assert variance_of_average(*found) == pytest.approx(average, abs=1e-12)

    @pytest.mark.parametrize("with_target", [False, True])
    def test_estimate_from_several_training_sets(self, with_target):
        rng = np.random.default_rng(1)
        shared = rng.normal(size=(40, 5, 1))
        predictions = shared + 2 * rng.normal(size=(40, 5, 3))
        y = rng.normal(size=5) if with_target else None
        found = correlation_of_models(predictions, y)
        covariances = np.array([np.cov(predictions[:, row].T, ddof=0) for row in range(5)])
        mean = covariances.mean(axis=0)  # a target does not vary with the training set
        assert found.variance == pytest.approx(np.diag(mean).mean(), abs=1e-12)
        others = mean[~np.eye(3, dtype=bool)].mean()
        assert found.correlation == pytest.approx(others / found.variance, abs=1e-12)
        assert 0.05 < found.correlation < 0.4  # of the distribution: 1 / 5

    def test_an_ensemble(self):
        forest = RandomForestRegressor(n_estimators=8, max_depth=3).fit(XR, Y)
        found = correlation_of_models(forest, X=XR)
        assert variance_of_average(*found) == pytest.approx(forest.predict(XR).var(), rel=1e-9)

    def test_models_that_do_not_vary(self):
        assert correlation_of_models(np.ones((5, 3))) == (0.0, 1.0, 3)

    def test_bad_input(self):
        with raises(ValueError, "variance must be finite and >= 0", "-1"):
            variance_of_average(-1, 0.5, 3)
        with raises(ValueError, "variance must be finite", "nan"):
            variance_of_average(NAN, 0.5, 3)
        for rho in (1.1, -0.6, NAN):
            with raises(ValueError, "correlation must be from -1 / (n_models - 1) to 1", str(rho)):
                variance_of_average(1.0, rho, 3)
        for n in (0, 2.0, -1):
            with raises(ValueError, "n_models must be an integer >= 1", str(n)):
                variance_of_average(1.0, 0.5, n)
        with raises(ValueError, "at least two rows", "got one"):
            correlation_of_models(np.ones((1, 3)))
        with raises(ValueError, "at least two sets of predictions"):
            correlation_of_models(np.ones((1, 4, 3)))
        with raises(ValueError, "predictions are of 1 model(s)"):
            correlation_of_models(np.ones((5, 1)))
        with raises(ValueError, "y has the shape (3,)"):
            correlation_of_models(np.ones((5, 2)), np.ones(3))
        with raises(ValueError, "infinite"):
            correlation_of_models([[1.0, np.inf], [1.0, 2.0]])


class TestBadInput:
    def test_parameters(self):
        model = DecisionTreeRegressor()
        for rounds in (0, 1, 2.5, "3", True, None):
            with raises(ValueError, "rounds must be an integer >= 2", repr(rounds)):
                bias_variance(model, XR, Y, rounds=rounds)
        for test in (0.0, 1.0, -0.1, 5, "oob", None, NAN, True, (XR, Y, Y)):
            with raises(ValueError, "test must be a share in (0, 1), 'out_of_bag' or a pair"):
                bias_variance(model, XR, Y, test=test, rounds=2)
        for loss in ("mse", None, 1):
            with raises(ValueError, "loss must be 'auto' or 'squared' or 'zero_one'", repr(loss)):
                bias_variance(model, XR, Y, loss=loss)
        with raises(ValueError, "loss='zero_one' does not fit a regressor", "'squared'"):
            bias_variance(model, XR, Y, loss="zero_one")
        with raises(ValueError, "loss='squared' does not fit a classifier", "'zero_one'"):
            bias_variance(DecisionTreeClassifier(), X, C, loss="squared")
        with raises(ValueError, "random_state"):
            bias_variance(model, XR, Y, random_state="seed")
        for estimator in (KMeans(2), "tree", None):
            with raises(TypeError, "estimator must be a classifier or a regressor"):
                bias_variance(estimator, XR, Y)

    def test_tables(self):
        model = DecisionTreeRegressor()
        with raises(ValueError, "test=0.3 of 2 rows leaves 1 to test and 1 to train"):
            bias_variance(model, XR[:2], Y[:2])
        with raises(ValueError, "X must be a table", "(0, 10)"):
            bias_variance(model, XR[:0], Y[:0])
        with raises(ValueError, "y has 441 values, X has 442 rows"):
            bias_variance(model, XR, Y[1:])
        with raises(ValueError, "NaN"):
            bias_variance(model, XR, np.where(np.arange(442) == 3, NAN, Y))
        with raises(ValueError, "X_test has 9 columns, X has 10 columns", "same features"):
            bias_variance(model, XR, Y, test=(XR[:, 1:], Y))
        frame = pd.DataFrame(X, columns=list("abcd"))
        with raises(ValueError, "X_test has 4 columns ['b', 'a', 'c', 'd'], X has 4 columns"):
            bias_variance(DecisionTreeClassifier(), frame, C, test=(frame[list("bacd")], C))
        with raises(ValueError, "y_test has 3 values, X has 442 rows"):
            bias_variance(model, XR, Y, test=(XR, Y[:3]))
        with raises(ValueError, "y_test has labels that y does not have: [7]"):
            bias_variance(DecisionTreeClassifier(), X, C, test=(X, np.where(C == 1, 7, C)))
