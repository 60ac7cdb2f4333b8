"""The default meta-models beside scikit-learn's on standardised features."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn.linear_model
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from gpuens.combining.linear import RidgeRegression
from gpuens.combining.logistic import LogisticRegression
from gpuens.numerics.minimise import Operator, dot, newton
from tests.support import strict_cupy
from tests.support.errors import raises
from tests.support.lanes import few

XR, Y = load_diabetes(return_X_y=True)


def standard(X, weight):
    """Standardised by weights, in plain NumPy."""
    mean = np.average(X, axis=0, weights=weight)
    return (X - mean) / np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight))


WEIGHTS = [None, "drawn"]


class TestLogistic:
    @pytest.mark.parametrize("weight", WEIGHTS)
    @pytest.mark.parametrize("C", few([0.01, 1.0, 30.0], 1))
    @pytest.mark.parametrize("load", few([load_breast_cancer, load_wine, load_iris], 0, 1))
    def test_it_is_scikit_learns_on_standardised_features(self, load, C, weight):
        X, y = load(return_X_y=True)
        given = None if weight is None else np.random.default_rng(0).random(len(y))
        mine = LogisticRegression(C).fit(X, y, given)
        Z = standard(X, given)
        theirs = sklearn.linear_model.LogisticRegression(C=C, tol=1e-9, max_iter=10_000)
        theirs.fit(Z, y, given)
        np.testing.assert_allclose(mine.predict_proba(X), theirs.predict_proba(Z), atol=2e-5)
        np.testing.assert_array_equal(mine.predict(X), theirs.predict(Z))
        assert mine.coef_.shape == theirs.coef_.shape
        assert mine.intercept_.shape == theirs.intercept_.shape

    @pytest.mark.parametrize("load", [load_breast_cancer, load_wine])
    def test_the_gradient_vanishes(self, load):
        """Check the gradient of the penalised loss, written independently."""
        X, y = load(return_X_y=True)
        weight = np.random.default_rng(0).random(len(y)) + 0.1
        model = LogisticRegression(2.0).fit(X, y, weight)
        Z = standard(X, weight)
        sd = np.sqrt(np.average((X - np.average(X, axis=0, weights=weight)) ** 2, axis=0,
                                weights=weight))  # fmt: skip
        error = model.predict_proba(X) - (y[:, None] == model.classes_)
        error = (error[:, 1:] if len(model.classes_) == 2 else error) * weight[:, None]
        gradient = error.T @ Z + model.coef_ * sd / 2.0
        assert np.abs(gradient).max() < 1e-7 * weight.sum()
        assert np.abs(error.sum(axis=0)).max() < 1e-7 * weight.sum()

    def test_units_do_not_matter(self):
        X, y = load_wine(return_X_y=True)
        scale = 10.0 ** np.arange(-6, 7)
        model, scaled = LogisticRegression().fit(X, y), LogisticRegression().fit(X * scale + 5, y)
        np.testing.assert_allclose(scaled.predict_proba(X * scale + 5), model.predict_proba(X),
                                   atol=1e-6)  # fmt: skip
        np.testing.assert_allclose(scaled.coef_ * scale, model.coef_, rtol=1e-3, atol=1e-6)

    def test_log_odds(self):
        rng = np.random.default_rng(0)
        P = rng.random((300, 3))
        P[:9, 1] = 0.0
        y = (rng.random(300) < P[:, 0]).astype(int)
        model = LogisticRegression(C=1e4, log_odds=[0, 1]).fit(P, y)
        clipped = np.clip(P[:, :2], 1e-3, 1 - 1e-3)
        table = np.column_stack([P, np.log(clipped / (1 - clipped))])
        plain = LogisticRegression(C=1e4).fit(table, y)
        np.testing.assert_allclose(model.predict_proba(P), plain.predict_proba(table), atol=1e-9)
        assert model.coef_.shape == (1, 5) and model.n_features_in_ == 3
        for wrong, part in (([], "a list of features, got []"), (["a"], "got ['a']"),
                            ([[0]], "got [[0]]"), ([0, 3], "names the features 0 to 3, X has 3"),
                            ([-1], "names the features -1 to -1")):  # fmt: skip
            with raises(ValueError, "log_odds", part):
                LogisticRegression(log_odds=wrong).fit(P, y)

    def test_both_methods_find_the_same(self, monkeypatch):
        for load in (load_wine, load_breast_cancer, load_iris):
            X, y = load(return_X_y=True)
            model = LogisticRegression().fit(X, y)
            with monkeypatch.context() as patch:
                patch.setattr("gpuens.combining.logistic.MOST_FOR_CHOLESKY", 0)
                other = LogisticRegression().fit(X, y)
            assert model.n_iter_ < 15 and other.n_iter_ < 30
            np.testing.assert_allclose(other.predict_proba(X), model.predict_proba(X), atol=1e-6)

    @pytest.mark.parametrize("C", [0.01, 1.0])
    @pytest.mark.parametrize("load", [load_breast_cancer, load_wine, load_digits])
    def test_conjugate_gradients_reach_the_tolerance(self, monkeypatch, load, C):
        monkeypatch.setattr("gpuens.combining.logistic.MOST_FOR_CHOLESKY", 0)
        X, y = load(return_X_y=True)
        weight = np.random.default_rng(0).random(len(y))
        model = LogisticRegression(C).fit(X, y, weight)  # else it warns
        order = np.random.default_rng(1).permutation(len(y))
        again = LogisticRegression(C).fit(X[order], y[order], weight[order])
        np.testing.assert_array_equal(again.coef_, model.coef_)
        assert model.n_iter_ < 50

    def test_decision_function(self):
        X, y = load_wine(return_X_y=True)
        model = LogisticRegression().fit(X, y)
        raw = model.decision_function(X)
        odds = np.exp(raw - raw.max(axis=1, keepdims=True))
        np.testing.assert_allclose(model.predict_proba(X), odds / odds.sum(axis=1, keepdims=True))
        np.testing.assert_allclose(raw, X @ model.coef_.T + model.intercept_, atol=1e-9)
        two = LogisticRegression().fit(X, y == 1)
        assert two.decision_function(X).shape == (len(y),)
        np.testing.assert_array_equal(two.predict(X), two.decision_function(X) > 0)

    def test_a_constant_column_changes_nothing(self):
        X, y = load_iris(return_X_y=True)
        model = LogisticRegression().fit(X, y)
        more = LogisticRegression().fit(np.column_stack([X, np.full(len(X), 0.1)]), y)
        assert (more.coef_[:, -1] == 0).all()
        np.testing.assert_allclose(more.coef_[:, :-1], model.coef_, atol=1e-9)

    def test_copies_of_a_column_share_its_weight(self):
        X, y = load_iris(return_X_y=True)
        model = LogisticRegression().fit(X[:, [0, 1, 1]], y)
        np.testing.assert_allclose(model.coef_[:, 1], model.coef_[:, 2], atol=1e-8)

    def test_separable_classes_converge(self):
        X = np.arange(20.0)[:, None]
        model = LogisticRegression(C=1e6).fit(X, X[:, 0] > 9)
        assert model.score(X, X[:, 0] > 9) == 1 and np.isfinite(model.coef_).all()

    def test_too_few_steps(self):
        X, y = load_wine(return_X_y=True)
        with pytest.warns(ConvergenceWarning, match="did not reach tol=1e-08 in 3 of max_iter=3"):
            LogisticRegression(max_iter=3).fit(X, y)

    @pytest.mark.parametrize("name, value, wants", [
        ("C", 0, "C must be a finite number > 0, got 0"), ("C", np.inf, "got inf"),
        ("C", "1", "got '1'"), ("tol", -1, "tol must be a finite number > 0, got -1"),
        ("max_iter", 0, "max_iter must be an integer >= 1, got 0"),
        ("device", "gpu", "device must be"),
    ])  # fmt: skip
    def test_bad_parameters(self, name, value, wants):
        with raises(ValueError, wants):
            LogisticRegression(**{name: value}).fit(XR, Y > 100)

    def test_bad_input(self):
        X, y = load_iris(return_X_y=True)
        with raises(ValueError, "y holds 1 class (0 in every row)"):
            LogisticRegression().fit(X, y * 0)
        with raises(ValueError, "sample_weight is zero for every row of the class(es) [2]"):
            LogisticRegression().fit(X, y, (y < 2) * 1.0)
        holes = X.copy()
        holes[3, 2] = np.nan
        with raises(ValueError, "Input X contains NaN or infinity in the column(s) [2]"):
            LogisticRegression().fit(holes, y)
        with pytest.raises(NotFittedError):
            LogisticRegression().predict(X)
        with raises(ValueError, "features"):
            LogisticRegression().fit(X, y).predict(X[:, 1:])


class TestRidge:
    @pytest.mark.parametrize("weight", WEIGHTS)
    @pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0, 100.0])
    def test_it_is_scikit_learns_on_standardised_features(self, alpha, weight):
        given = None if weight is None else np.random.default_rng(0).random(len(Y))
        mine = RidgeRegression(alpha).fit(XR, Y, given)
        Z = standard(XR, given)
        theirs = sklearn.linear_model.Ridge(alpha=alpha, solver="svd").fit(Z, Y, given)
        np.testing.assert_allclose(mine.predict(XR), theirs.predict(Z), rtol=1e-9)
        assert isinstance(mine.intercept_, float) and mine.coef_.shape == (10,)
        np.testing.assert_allclose(XR @ mine.coef_ + mine.intercept_, mine.predict(XR))

    def test_several_outputs(self):
        outputs = np.stack([Y, Y**2, np.sin(Y)], axis=1)
        model = RidgeRegression().fit(XR, outputs)
        assert model.coef_.shape == (3, 10) and model.intercept_.shape == (3,)
        for k in range(3):
            single = RidgeRegression().fit(XR, outputs[:, k])
            np.testing.assert_allclose(model.predict(XR)[:, k], single.predict(XR))
        assert model.score(XR, outputs) < RidgeRegression().fit(XR, Y).score(XR, Y)

    def test_units_of_features_and_target_do_not_matter(self):
        model, scaled = RidgeRegression().fit(XR, Y), RidgeRegression().fit(XR * 1e-7, Y * 1e-5)
        np.testing.assert_allclose(scaled.predict(XR * 1e-7), model.predict(XR) * 1e-5, rtol=1e-9)

    def test_a_constant_column_changes_nothing(self):
        model = RidgeRegression().fit(XR, Y)
        more = RidgeRegression().fit(np.column_stack([np.full(len(Y), 1e6), XR]), Y)
        assert more.coef_[0] == 0
        np.testing.assert_allclose(more.coef_[1:], model.coef_, rtol=1e-9)

    def test_bad_input(self):
        with raises(ValueError, "alpha must be a finite number >= 0, got -1"):
            RidgeRegression(-1).fit(XR, Y)
        with raises(ValueError, "alpha=0.0 leaves the coefficients undetermined", "larger alpha"):
            RidgeRegression(0).fit(XR[:, [0, 0]], Y)
        with raises(ValueError, "y"):
            RidgeRegression().fit(XR, np.where(Y > 300, np.nan, Y))
        with raises(ValueError, "NaN or infinity in the column(s) [1]"):
            RidgeRegression().fit(XR, Y).predict(np.where(np.arange(10) == 1, np.inf, XR))


class TestSameBits:
    """Sums do not depend on the order of the rows, nor on the device."""

    @pytest.mark.parametrize("weighted", [False, True])
    def test_in_any_order(self, weighted):
        X, y = load_wine(return_X_y=True)
        rng = np.random.default_rng(0)
        weight = rng.random(len(y)) if weighted else None
        order = rng.permutation(len(y))
        moved = None if weight is None else weight[order]
        for model, target in ((LogisticRegression, y), (RidgeRegression, X[:, 0] + y)):
            one, other = model().fit(X, target, weight), model().fit(X[order], target[order], moved)
            np.testing.assert_array_equal(one.coef_, other.coef_)
            np.testing.assert_array_equal(one.intercept_, other.intercept_)

    def test_gpu_arrays(self, monkeypatch):
        cupy = strict_cupy.install(monkeypatch)
        X, y = load_wine(return_X_y=True)
        for cls, target in ((LogisticRegression, y), (RidgeRegression, X[:, 0] + y)):
            there = [strict_cupy.on_gpu(cupy, array, 1) for array in (X, target)]
            model = cls().fit(*there)
            host = cls(device="cpu").fit(X, target)
            np.testing.assert_array_equal(model.coef_, host.coef_)
            assert type(model.coef_) is np.ndarray
            prediction = model.predict(there[0])
            assert type(prediction) is cupy.ndarray and prediction.device.id == 1
            np.testing.assert_array_equal(prediction.get(), host.predict(X))

    def test_frames_and_pickles(self):
        X, y = load_wine(return_X_y=True, as_frame=True)
        model = LogisticRegression().fit(X, y)
        assert model.feature_names_in_.tolist() == list(X.columns)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(
            again.predict_proba(pl.from_pandas(X)), model.predict_proba(X)
        )
        with raises(ValueError, "feature names"):
            model.predict(pd.DataFrame(X.to_numpy()).add_prefix("x"))


class TestMinimise:
    def test_a_quadratic(self):
        rng = np.random.default_rng(0)
        root = rng.normal(size=(30, 30))
        matrix, aim = root @ root.T + 0.1 * np.eye(30), rng.normal(size=30)

        def function(x):
            return float((x - aim) @ matrix @ (x - aim) / 2), matrix @ (x - aim)

        operator = Operator(lambda v: matrix @ v, np.diag(matrix))
        found = newton(function, lambda x: operator, np.zeros(30), 1e-9, 500)
        assert found.converged and found.value < 1e-15
        np.testing.assert_allclose(found.x, aim, atol=1e-7)
        exact = newton(function, lambda x: matrix, np.zeros(30), 1e-9, 500)
        assert exact.converged and exact.n_iter <= 2 < found.n_iter
        np.testing.assert_allclose(exact.x, aim, atol=1e-7)

    def test_no_step_helps(self):
        def function(x):
            return float(x[0] != 0), np.ones(1)

        for hessian in (np.ones((1, 1)), Operator(lambda v: v, np.ones(1))):
            found = newton(function, lambda x, hessian=hessian: hessian, np.zeros(1), 1e-9, 9)
            assert not found.converged and found.x.tolist() == [0]

    def test_a_singular_hessian(self):
        def function(x):
            return (x[0] - x[1] - 3) ** 2, 2 * (x[0] - x[1] - 3) * np.array([1.0, -1.0])

        hessian = 2 * np.array([[1.0, -1.0], [-1.0, 1.0]])
        found = newton(function, lambda x: hessian, np.zeros(2), 1e-9, 50)
        assert found.converged and found.x[0] - found.x[1] == pytest.approx(3)
        operator = Operator(lambda v: hessian @ v, np.diag(hessian))
        found = newton(function, lambda x: operator, np.zeros(2), 1e-9, 50)
        assert found.converged and found.x[0] - found.x[1] == pytest.approx(3)

    def test_an_operator_that_is_not_positive(self):
        """Rounding can leave no curvature: the scaled gradient still leads downhill."""
        operator = Operator(lambda v: -v, np.ones(3))
        found = newton(lambda x: (float(x @ x) / 2, x), lambda x: operator, np.ones(3), 1e-9, 9)
        assert found.converged and not found.x.any()

    def test_dot(self):
        assert dot(np.array([1e16, 1.0, -1e16]), np.ones(3)) == 1.0
