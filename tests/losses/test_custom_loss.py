"""Losses and metrics from functions of the user's."""

from __future__ import annotations

import copy
import functools
import math
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from numba import njit
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.metrics import mean_squared_error

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.custom_metrics import ArrayMetric, CustomMetric
from gpuens.kernels.growth.cpu import grow as cpu_grow
from gpuens.kernels.runtime.cpu import team
from gpuens.kernels.runtime.dispatch import Implementation, using
from gpuens.losses import ArrayLoss, CustomLoss, Huber, exp, log, mul, sigmoid, softplus
from tests.support.errors import raises
from tests.support.lanes import few

N = 400


@functools.cache
def table():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(N, 3))
    y = np.exp(0.5 * X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * rng.normal(size=N))
    return X, y, rng.integers(1, 4, N) * 0.5


def fingerprint(model):
    return model.forest_.fingerprint()


def squared(y, score):
    return 0.5 * (score - y) * (score - y)


def squared_gradient(y, score):
    return score - y


def one(y, score):
    return 1.0


def poisson(y, score):
    return exp(score) - mul(y, score)


def poisson_gradient(y, score):
    return exp(score) - y


def poisson_hessian(y, score):
    return exp(score)


def logistic(y, score):
    return softplus(score) - mul(y, score)


def logistic_gradient(y, score):
    return sigmoid(score) - y


def logistic_hessian(y, score):
    p = sigmoid(score)
    return mul(p, 1.0 - p)


def lopsided_gradient(y, score):
    """With a branch and a loop: being too high costs thrice."""
    slope = 0.0
    for _ in range(3 if score > y else 1):
        slope += score - y
    return slope


def lopsided(y, score):
    return (1.5 if score > y else 0.5) * (score - y) ** 2


SQUARED = CustomLoss(squared, squared_gradient, one)
POISSON = CustomLoss(poisson, poisson_gradient, poisson_hessian, inverse_link=exp)
LOGISTIC = CustomLoss(logistic, logistic_gradient, logistic_hessian)
LOPSIDED = CustomLoss(lopsided, lopsided_gradient)


def array_squared(y, score):
    return score - y, np.ones_like(y)


def array_softmax(y, score):
    p = softmax(score, axis=1)
    k = p.shape[1]
    return p - (y[:, None] == np.arange(k)), k / (k - 1) * p * (1 - p)


class TestScalarFunctions:
    """Losses written as custom ones give what the built-in ones give."""

    @pytest.mark.parametrize("custom, name, settings", [
        (SQUARED, "squared_error", {"subsample": 0.6}), (SQUARED, "squared_error", {"n_jobs": 2}),
        (POISSON, "poisson", {}), (POISSON, "poisson", {"line_search": True}),
    ])  # fmt: skip
    def test_of_numbers(self, custom, name, settings):
        X, y, weight = table()
        data = {"sample_weight": weight, "eval_set": (X, y)}
        plain = GradientBoostingRegressor(name, n_estimators=10, **settings).fit(X, y, **data)
        model = GradientBoostingRegressor(custom, n_estimators=10, **settings).fit(X, y, **data)
        assert model.forest_.base[0] == pytest.approx(plain.forest_.base[0], rel=1e-6)
        np.testing.assert_allclose(model.predict(X), plain.predict(X), rtol=1e-4)
        recorded, expected = (m.evals_result_["validation_0"]["loss"] for m in (model, plain))
        np.testing.assert_allclose(recorded, expected, rtol=1e-5)

    def test_from_the_same_start_it_is_the_same_model(self):
        X, y, weight = table()
        plain = GradientBoostingRegressor("poisson", n_estimators=10).fit(X, y, weight)
        start = float(plain.forest_.base[0])
        loss = CustomLoss(poisson, poisson_gradient, poisson_hessian, start=start)
        model = GradientBoostingRegressor(loss, n_estimators=10).fit(X, y, weight)
        assert fingerprint(model) == fingerprint(plain)

    def test_of_two_classes(self):
        X, y, _ = table()
        c = np.where(y > 1, "high", "low")
        plain = GradientBoostingClassifier(n_estimators=10).fit(X, c)
        model = GradientBoostingClassifier(LOGISTIC, n_estimators=10).fit(X, c)
        np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), rtol=1e-4)
        assert (model.predict(X) == plain.predict(X)).all()

    def test_of_more_classes_one_against_the_rest(self):
        X, y, _ = table()
        c = np.digitize(y, [0.7, 1.5])
        model = GradientBoostingClassifier(LOGISTIC, n_estimators=20).fit(X, c)
        p = expit(model.decision_function(X))
        np.testing.assert_allclose(model.predict_proba(X), p / p.sum(axis=1)[:, None])
        assert model.score(X, c) > 0.9
        base = [math.log(q / (1 - q)) for q in np.bincount(c) / N]
        np.testing.assert_allclose(model.forest_.base, base, rtol=1e-6)

    def test_of_several_targets(self):
        X, y, _ = table()
        both = np.stack([y, 3 * y], axis=1)
        model = GradientBoostingRegressor(POISSON, n_estimators=20).fit(X, both)
        assert model.predict(X).shape == both.shape and model.score(X, both) > 0.5

    def test_branches_loops_and_no_hessian(self):
        X, y, _ = table()
        model = GradientBoostingRegressor(LOPSIDED, n_estimators=60, line_search=True).fit(X, y)
        base = model.forest_.base[0]
        assert np.sum((y - base) * np.where(base > y, 3, 1)) == pytest.approx(0, abs=1e-4 * N)
        assert lopsided_mean(y, model.predict(X)) < 0.3 * lopsided_mean(y, np.full(N, base))
        assert (model.predict(X) > y).mean() < 0.45

    @pytest.mark.slow
    def test_compiled_functions_and_lambdas(self):
        X, y, _ = table()
        gradient = njit(squared_gradient)
        loss = CustomLoss(lambda y, f: 0.5 * (f - y) ** 2, gradient, lambda y, f: 1)
        models = [GradientBoostingRegressor(x, n_estimators=5).fit(X, y) for x in (loss, SQUARED)]
        assert fingerprint(models[0]) == fingerprint(models[1])

    def test_offered_functions_work_in_plain_python_too(self):
        for x in (-3.0, 0.5, 2.0):
            assert exp(x) == pytest.approx(math.exp(x)) and mul(x, x) == x * x
            assert sigmoid(x) == pytest.approx(1 / (1 + math.exp(-x)))
            assert softplus(x) == pytest.approx(math.log1p(math.exp(x)))
        assert log(2.0) == pytest.approx(math.log(2.0))


def lopsided_mean(y, score):
    return np.mean(np.where(score > y, 1.5, 0.5) * (score - y) ** 2)


def gradient_times(factor):
    def gradient(y, score):
        return factor * (score - y)

    return gradient


class TestIdentity:
    @pytest.mark.parametrize("loss, classes", few([
        (SQUARED, 0), (POISSON, 0), (LOPSIDED, 0), (LOGISTIC, 2), (LOGISTIC, 3),
        (array_squared, 0), (array_softmax, 3),
    ], 1, 5, 6))  # fmt: skip
    def test_threads_and_reference(self, loss, classes, monkeypatch):
        monkeypatch.setattr(team, "MIN_WORK_PER_THREAD", 1)
        monkeypatch.setattr(cpu_grow, "MIN_CELLS_PER_THREAD", 1)
        X, y, weight = table()
        y = np.digitize(y, [1.0, 1.5][: classes - 1]) if classes else y
        cls = GradientBoostingClassifier if classes else GradientBoostingRegressor
        model = cls(loss, n_estimators=4, n_jobs=1, line_search=True).fit(X, y, weight)
        others = [clone(model).set_params(n_jobs=n).fit(X, y, weight) for n in (2, 3)]
        with using(Implementation.REFERENCE):
            others.append(clone(model).fit(X, y, weight))
            expected = others[-1].predict(X)
        assert {fingerprint(other) for other in others} == {fingerprint(model)}
        np.testing.assert_array_equal(model.predict(X), expected)

    @pytest.mark.slow
    def test_a_changed_function_of_the_same_name_is_another_loss(self):
        X, y, _ = table()
        predictions = []
        for factor in (1.0, 3.0):
            loss = CustomLoss(squared, gradient_times(factor), start=0.0)
            model = GradientBoostingRegressor(loss, n_estimators=1, l2_regularization=0.0)
            predictions.append(model.fit(X, y).predict(X))
        np.testing.assert_allclose(predictions[1], 3 * predictions[0], rtol=1e-5)


class TestArrayFunctions:
    def test_of_numbers(self):
        X, y, weight = table()
        plain = GradientBoostingRegressor(n_estimators=10).fit(X, y, weight)
        start = float(plain.forest_.base[0])
        loss = ArrayLoss(array_squared, start=start)
        model = GradientBoostingRegressor(loss, n_estimators=10).fit(X, y, weight)
        assert fingerprint(model) == fingerprint(plain)
        model = GradientBoostingRegressor(array_squared, n_estimators=10).fit(X, y, weight)
        assert model.forest_.base[0] == pytest.approx(start, rel=1e-6)

    def test_of_classes(self):
        X, y, _ = table()
        c = np.digitize(y, [0.7, 1.5])
        loss = ArrayLoss(array_softmax, value=lambda y, f: -np.log(softmax(f, axis=1))[
            np.arange(len(y)), y.astype(int)
        ])  # fmt: skip
        plain = GradientBoostingClassifier(n_estimators=30).fit(X, c, eval_set=(X, c))
        model = GradientBoostingClassifier(loss, n_estimators=30).fit(X, c, eval_set=(X, c))
        assert model.forest_.base.tolist() == [0, 0, 0]
        expected = softmax(model.decision_function(X), axis=1)
        np.testing.assert_allclose(model.predict_proba(X), expected)
        recorded, other = (m.evals_result_["validation_0"]["loss"] for m in (model, plain))
        np.testing.assert_allclose(recorded[-1], other[-1], rtol=0.1)
        assert recorded[0] == pytest.approx(math.log(3))

    def test_of_two_classes(self):
        X, y, _ = table()
        shapes = set()

        def objective(y, score):
            shapes.add((y.shape, score.shape))
            p = expit(score)
            return p - y, p * (1 - p)

        model = GradientBoostingClassifier(objective, n_estimators=20).fit(X, y > 1)
        plain = GradientBoostingClassifier(n_estimators=20).fit(X, y > 1)
        np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), rtol=1e-3)
        assert shapes == {((N,), (N,))}

    def test_of_several_targets(self):
        X, y, _ = table()
        both = np.stack([y, -y, y**2], axis=1)
        model = GradientBoostingRegressor(array_squared, n_estimators=20).fit(X, both)
        plain = GradientBoostingRegressor(n_estimators=20).fit(X, both)
        np.testing.assert_allclose(model.forest_.base, both.mean(axis=0), rtol=1e-6)
        # Bit for bit but for the constants, of which the best is found by steps.
        np.testing.assert_allclose(model.predict(X), plain.predict(X), atol=0.05)

    def test_inverse_link(self):
        X, y, _ = table()

        def objective(y, score):
            return np.exp(score) - y, np.exp(score)

        loss = ArrayLoss(objective, inverse_link=np.exp)
        model = GradientBoostingRegressor(loss, n_estimators=10).fit(X, y)
        raw = model.forest_.raw_predict(X)[0]
        np.testing.assert_array_equal(model.predict(X), np.exp(raw))
        probit = ArrayLoss(lambda y, f: (expit(f) - y, np.ones(len(y))), inverse_link=expit)
        p = GradientBoostingClassifier(probit, n_estimators=3).fit(X, y > 1).predict_proba(X)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)

    def test_arguments_may_be_changed(self):
        X, y, _ = table()

        def careless(y, score):
            score -= y
            gradient = score.copy()
            score[:] = y[:] = np.nan
            return gradient, np.ones(len(y))

        model = GradientBoostingRegressor(careless, n_estimators=5).fit(X, y)
        plain = GradientBoostingRegressor(array_squared, n_estimators=5).fit(X, y)
        assert fingerprint(model) == fingerprint(plain)

    def test_results_of_another_library(self):
        X, y, _ = table()

        def objective(y, score):
            return pd.Series(score - y), [1.0] * N

        model = GradientBoostingRegressor(objective, n_estimators=5).fit(X, y)
        plain = GradientBoostingRegressor(array_squared, n_estimators=5).fit(X, y)
        assert fingerprint(model) == fingerprint(plain)


class TestMetrics:
    def test_scalar_and_array(self):
        X, y, weight = table()

        def far_off(y, score):
            return abs(score - y) > 0.5

        metrics = [
            CustomMetric(far_off), CustomMetric(squared, name="half"),
            ArrayMetric(mean_squared_error), "neg_mean_squared_error", "loss",
        ]  # fmt: skip
        model = GradientBoostingRegressor(n_estimators=5, scoring=metrics)
        model.fit(X, y, eval_set=(X, y), eval_sample_weight=weight)
        recorded = model.evals_result_["validation_0"]
        assert list(recorded) == ["far_off", "half", "mean_squared_error", *metrics[3:]]
        p = model.predict(X)
        assert recorded["far_off"][-1] == pytest.approx(
            np.average(np.abs(p - y) > 0.5, weights=weight)
        )
        np.testing.assert_array_equal(recorded["half"], recorded["loss"])
        error = mean_squared_error(y, p, sample_weight=weight)
        assert recorded["mean_squared_error"][-1] == pytest.approx(error)
        assert recorded["neg_mean_squared_error"][-1] == pytest.approx(-error)

    def test_early_stopping_knows_the_direction(self):
        X, y, _ = table()
        rows = slice(0, 300), slice(300, None)
        for higher in (False, True):
            metric = CustomMetric(
                negative_squared if higher else squared, name="m", higher_is_better=higher
            )
            model = GradientBoostingRegressor(
                n_estimators=300, learning_rate=0.5, scoring=metric, early_stopping=True
            )
            model.fit(X[rows[0]], y[rows[0]], eval_set=(X[rows[1]], y[rows[1]]))
            values = model.evals_result_["validation_0"]["m"]
            best = int(np.argmax(values) if higher else np.argmin(values))
            assert model.n_iter_ == best < 300

    def test_of_classes(self):
        X, y, _ = table()
        model = GradientBoostingClassifier(n_estimators=3, scoring=[CustomMetric(logistic), "loss"])
        recorded = model.fit(X, y > 1, eval_set=(X, y > 1)).evals_result_["validation_0"]
        np.testing.assert_array_equal(recorded["logistic"], recorded["loss"])
        c = np.digitize(y, [0.7, 1.5])
        with raises(ValueError, "one score a row", "has 3", "use an ArrayMetric"):
            model.fit(X, c, eval_set=(X, c))

        def accuracy(y, score):
            return (score.argmax(axis=1) == y).mean()

        model.set_params(scoring=ArrayMetric(accuracy, higher_is_better=True))
        recorded = model.fit(X, c, eval_set=(X, c)).evals_result_["validation_0"]["accuracy"]
        assert recorded[-1] == pytest.approx(model.score(X, c))


def negative_squared(y, score):
    return -0.5 * (score - y) * (score - y)


class TestBadInput:
    X, Y, _ = table()

    def fit(self, loss, y=None, **data):
        model = GradientBoostingRegressor(loss, n_estimators=3)
        return model.fit(self.X, self.Y if y is None else y, **data)

    def test_signatures(self):
        for wrong, shown in (
            (lambda y: y, "<lambda>(y)"),
            (lambda: 0.0, "<lambda>()"),
            (lambda y, f, k: y, "<lambda>(y, f, k)"),
        ):
            with raises(TypeError, "gradient must be a function gradient(y, score), got", shown):
                CustomLoss(squared, wrong)
            with raises(TypeError, "value must be a function value(y, score), got", shown):
                CustomLoss(wrong, squared_gradient)
            with raises(TypeError, "hessian must be a function hessian(y, score), got", shown):
                CustomLoss(squared, squared_gradient, wrong)
            with raises(TypeError, "objective must be a function objective(y, score)", shown):
                ArrayLoss(wrong)
            with raises(TypeError, "function must be a function function(y, score)", shown):
                CustomMetric(wrong)
            with raises(ValueError, "loss must be a name", "a function of two arrays", "<lambda>"):
                self.fit(wrong)
        with raises(TypeError, "inverse_link must be a function inverse_link(score), got squared"):
            CustomLoss(squared, squared_gradient, inverse_link=squared)
        with raises(TypeError, "gradient must be a function gradient(y, score), got 3"):
            CustomLoss(squared, 3)

    def test_what_numba_cannot_compile(self):
        def with_an_object(y, score):
            return SQUARED.start

        def with_text(y, score):
            return "abc"

        with raises(TypeError, "gradient=with_an_object cannot be compiled by Numba",
                    "single numbers", "pass an array function"):  # fmt: skip
            self.fit(CustomLoss(squared, with_an_object))
        with raises(TypeError, "value=with_text must return a number, got Literal[str](abc)"):
            self.fit(CustomLoss(with_text, squared_gradient))
        with raises(TypeError, "value must be a Python function, which Numba can compile"):
            self.fit(CustomLoss(functools.partial(squared), squared_gradient))

    def test_a_gradient_that_is_not_finite(self):
        def broken(y, score):
            return math.nan if y == 123.0 else score - y

        y = self.Y.copy()
        y[17] = 123.0
        with raises(ValueError, "The gradient of loss=CustomLoss(value=squared, gradient=broken) "
                    "is nan in row 17 of the training rows", "y=123.0 and score=0.0",
                    "must be finite"):  # fmt: skip
            self.fit(CustomLoss(squared, broken), y)
        with raises(ValueError, "is nan in row 17", "score=2.0", "round 1"):
            self.fit(CustomLoss(squared, broken, start=2.0), y)

    @pytest.mark.slow
    def test_a_gradient_that_breaks_later(self):
        def late(y, score):
            return score - y if score < 3.0 else math.nan

        loss = CustomLoss(squared, late, start=0.0)
        model = GradientBoostingRegressor(loss, n_estimators=50, learning_rate=0.5)
        with raises(ValueError, "is nan in row", "round", "lower learning_rate"):
            model.fit(self.X, self.Y * 3)

    @pytest.mark.parametrize("value, hessian", few([
        (-1.0, lambda y, f: -1.0), (math.nan, lambda y, f: math.nan),
        (math.inf, lambda y, f: math.inf),
    ], 0), ids=["negative", "nan", "infinite"])  # fmt: skip
    def test_a_hessian_that_is_negative_or_not_finite(self, value, hessian):
        with raises(ValueError, f"The hessian of loss=CustomLoss(value=squared, gradient="
                    f"squared_gradient, hessian=<lambda>) is {value} in row 0",
                    "not negative"):  # fmt: skip
            self.fit(CustomLoss(squared, squared_gradient, hessian, start=0.0))

    @pytest.mark.parametrize("result, parts", [
        (lambda y, f: f - y, ("must return (gradient, hessian), got ndarray",)),
        (lambda y, f: (f, f, f), ("must return (gradient, hessian), got tuple",)),
        (lambda y, f: (f[:5], f), ("must return a gradient of the shape of score, (400,)", "(5,)")),
        (lambda y, f: (f, 1.0), ("must return a hessian of the shape of score, (400,)", "()")),
        (lambda y, f: (f, np.full(N, np.nan)), ("The hessian of", "is nan in row 0")),
        (lambda y, f: (f / 0 if f[0] else np.where(np.arange(N) == 9, np.nan, f), f * 0 + 1),
         ("The gradient of", "is nan in row 9")),
    ])  # fmt: skip
    def test_results_of_array_functions(self, result, parts):
        with raises(ValueError, *parts):
            self.fit(ArrayLoss(result))

    def test_an_error_in_a_function_arrives(self):
        def failing(y, score):
            raise LookupError("no such table")

        with raises(LookupError, "no such table"):
            self.fit(failing)

    def test_the_metric_of_a_loss_without_value(self):
        with raises(ValueError, "has no value to compute the metric 'loss' from", "scoring"):
            self.fit(array_squared, eval_set=(self.X, self.Y))
        loss = ArrayLoss(array_squared, value=lambda y, f: 3.0)
        with raises(ValueError, "must return one number a row", "(400,), got ()"):
            self.fit(loss, eval_set=(self.X, self.Y))

    def test_metrics(self):
        with raises(TypeError, "name must be None or a string, got 3"):
            CustomMetric(squared, name=3)
        metric = ArrayMetric(lambda y, f: "bad", name="m")
        model = GradientBoostingRegressor(n_estimators=1, scoring=metric)
        with raises(TypeError, "ArrayMetric", "must return a number, got 'bad'"):
            model.fit(self.X, self.Y, eval_set=(self.X, self.Y))

    def test_start(self):
        for start in ("0", math.nan, math.inf, [1.0]):
            with raises(ValueError, "start must be None or a finite number", f"got {start!r}"):
                CustomLoss(squared, squared_gradient, start=start)
            with raises(ValueError, "start must be None or a finite number", f"got {start!r}"):
                ArrayLoss(array_squared, start=start)


class TestObjects:
    @pytest.mark.parametrize("loss", [SQUARED, POISSON, ArrayLoss(array_squared)], ids=repr)
    def test_copies_are_equal(self, loss):
        for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
            assert other == loss
        model = GradientBoostingRegressor(loss, n_estimators=3)
        assert clone(model).get_params()["loss"] == loss

    def test_models_are_pickled_where_functions_are_of_a_module(self):
        X, y, _ = table()
        for loss in (POISSON, array_squared):
            model = GradientBoostingRegressor(loss, n_estimators=3).fit(X, y)
            other = pickle.loads(pickle.dumps(model))
            np.testing.assert_array_equal(other.predict(X), model.predict(X))

    def test_representation(self):
        assert repr(SQUARED) == (
            "CustomLoss(value=squared, gradient=squared_gradient, hessian=one)"
        )
        assert repr(ArrayLoss(array_squared)) == "ArrayLoss(objective=array_squared)"

    def test_custom_and_built_in_losses_differ(self):
        assert Huber() != SQUARED and CustomLoss(squared, squared_gradient) != SQUARED


@pytest.mark.parametrize("name", few(["losses.mul", "mul"], "mul"))
def test_a_compiled_function_may_call_a_formula_first_of_all(name):
    """Where nothing of Numba was there when ``gpuens.losses`` was imported."""
    code = (
        "import sys\nfrom gpuens import losses\nassert 'numba' not in sys.modules\n"
        f"from numba import njit\n{'from gpuens.losses import mul' * (name == 'mul')}\n"
        f"print(njit(lambda x: {name}(x, x) + 1.0)(3.0))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "10.0\n", done.stderr
