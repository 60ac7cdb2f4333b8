"""Training with every loss: as good as peers, the same model everywhere, many outputs, steps."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.ensemble import GradientBoostingClassifier as ExactClassifier
from sklearn.ensemble import GradientBoostingRegressor as ExactRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import (
    log_loss,
    mean_absolute_error,
    mean_gamma_deviance,
    mean_pinball_loss,
    mean_poisson_deviance,
    r2_score,
)
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor, load, losses
from gpuens.devices.placement import CPU
from gpuens.kernels.growth.cpu import grow as cpu_grow
from gpuens.kernels.runtime.cpu import team
from gpuens.kernels.runtime.dispatch import Implementation, using
from gpuens.losses import (
    AbsoluteError,
    Expectile,
    Exponential,
    Focal,
    Gamma,
    Huber,
    LogLoss,
    Poisson,
    Quantile,
    SquaredError,
    Tweedie,
)
from tests.support.lanes import few

OF_NUMBERS = [
    SquaredError(), AbsoluteError(), Huber(), Quantile(0.2), Quantile([0.1, 0.5, 0.9]), Poisson(),
    Poisson(0.7), Gamma(), Tweedie(), Expectile(0.9),
]  # fmt: skip
OF_CLASSES = [LogLoss(), Exponential(), Focal()]


@functools.cache
def table(n=3000):
    """A positive target with heavy noise."""
    X, mean = make_friedman1(n, noise=0.0, random_state=0)
    rng = np.random.default_rng(0)
    return X, mean / 5 * rng.gamma(2.0, 0.5, n) + 1e-3, rng.integers(1, 4, n) * 0.5


def fingerprint(model):
    return model.forest_.fingerprint()


class TestBesidePeers:
    """The same settings: the losses on fresh rows are as low, up to chance."""

    SAME = {"l2_regularization": 0.0, "min_samples_leaf": 20, "n_estimators": 50}

    @pytest.fixture(autouse=True)
    def one_thread(self):
        with threadpool_limits(1):
            yield

    def ratio(self, ours, theirs, metric, y=None):
        X, target, weight = table()
        y = target if y is None else y
        data = train_test_split(X, y, weight, random_state=0)
        X, X_test, y, y_test, weight, weight_test = data
        ours.set_params(**self.SAME).fit(X, y, weight)
        theirs.fit(X, y, weight)
        losses = []
        for model in (ours, theirs):
            probabilities = getattr(model, "predict_proba", model.predict)
            losses.append(metric(y_test, probabilities(X_test), sample_weight=weight_test))
        return losses[0] / losses[1]

    @pytest.mark.parametrize("loss, metric", few([
        ("absolute_error", mean_absolute_error),
        ("poisson", mean_poisson_deviance),
        ("gamma", mean_gamma_deviance),
        ("quantile", functools.partial(mean_pinball_loss, alpha=0.8)),
    ], 1, 3))  # fmt: skip
    def test_hist_gradient_boosting(self, loss, metric):
        quantile = {"quantile": 0.8} if loss == "quantile" else {}
        ours = GradientBoostingRegressor(loss, **quantile)
        theirs = HistGradientBoostingRegressor(
            loss=loss, **quantile, max_iter=50, early_stopping=False
        )
        assert self.ratio(ours, theirs, metric) < 1.02

    @pytest.mark.slow
    def test_huber(self):
        theirs = ExactRegressor(
            loss="huber", n_estimators=50, max_leaf_nodes=31, max_depth=None, min_samples_leaf=20
        )
        assert self.ratio(GradientBoostingRegressor("huber"), theirs, mean_absolute_error) < 1.02

    def test_exponential(self):
        X, y, _ = table()
        labels = (y > np.median(y)).astype(int)
        theirs = ExactClassifier(
            loss="exponential", n_estimators=50, max_leaf_nodes=8, max_depth=None,
            min_samples_leaf=20,
        )  # fmt: skip
        ours = GradientBoostingClassifier("exponential", max_leaf_nodes=8)
        assert self.ratio(ours, theirs, log_loss, labels) < 1.02

    def test_focal_loss_without_focus_is_the_log_loss(self):
        X, y, weight = table()
        labels = y > np.median(y)
        plain, focal = (
            GradientBoostingClassifier(loss, **self.SAME).fit(X, labels, weight).predict_proba(X)
            for loss in ("log_loss", Focal(gamma=0.0))
        )
        assert log_loss(labels, focal) == pytest.approx(log_loss(labels, plain), rel=1e-3)

    def test_tweedie_lies_between_its_ends(self):
        X, y, weight = table()
        for power, loss in ((1 + 1e-9, "poisson"), (2 - 1e-9, "gamma")):
            limit, end = (
                GradientBoostingRegressor(x, **self.SAME).fit(X, y, weight).predict(X)
                for x in (Tweedie(power), loss)
            )
            np.testing.assert_allclose(limit, end, rtol=1e-3)


class TestIdentity:
    """One model, whatever computes it."""

    SETTINGS = {"n_estimators": 4, "max_leaf_nodes": 9, "n_jobs": 1}
    CASES = [(loss, 0) for loss in OF_NUMBERS] + [(loss, 2) for loss in OF_CLASSES]
    CASES += [(LogLoss(), 4), (Focal(), 3)]

    def data(self, n_classes, n):
        X, y, weight = (a[:n] for a in table())
        X = X.copy()
        X[::7, 0] = np.nan
        if n_classes:
            y = np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]))
        return X, y, weight * (np.arange(n) % 5 > 0)

    def model(self, loss, n_classes, **settings):
        cls = GradientBoostingClassifier if n_classes else GradientBoostingRegressor
        return cls(loss, **self.SETTINGS, **settings)

    @pytest.mark.parametrize("settings", few([
        {}, {"line_search": True, "subsample": 0.5}, {"subsample": 0.6}, {"line_search": True}
    ], 0), ids=str)  # fmt: skip
    @pytest.mark.parametrize("loss, n_classes", CASES, ids=str)
    def test_threads_and_reference(self, loss, n_classes, settings, monkeypatch):
        monkeypatch.setattr(team, "MIN_WORK_PER_THREAD", 1)
        monkeypatch.setattr(cpu_grow, "MIN_CELLS_PER_THREAD", 1)
        X, y, weight = self.data(n_classes, 250)
        model = self.model(loss, n_classes, **settings)
        model.fit(X, y, weight, eval_set=(X, y))
        others = [clone(model).set_params(n_jobs=n).fit(X, y, weight, eval_set=(X, y))
                  for n in (2, 3)]  # fmt: skip
        with using(Implementation.REFERENCE):
            others.append(clone(model).fit(X, y, weight, eval_set=(X, y)))
            expected = others[-1].predict(X)
        assert {fingerprint(other) for other in others} == {fingerprint(model)}
        assert all(other.evals_result_ == model.evals_result_ for other in others)
        np.testing.assert_array_equal(model.predict(X), expected)

    @pytest.mark.parametrize("loss", OF_NUMBERS, ids=str)
    def test_equal_weights_are_no_weights(self, loss):
        X, y, _ = self.data(0, 500)
        model = self.model(loss, 0).fit(X, y)
        assert fingerprint(clone(model).fit(X, y, np.ones(500))) == fingerprint(model)

    @pytest.mark.parametrize("loss", [AbsoluteError(), Huber(), Quantile(0.2)], ids=str)
    def test_a_warm_start_ends_as_one_go(self, loss):
        X, y, weight = self.data(0, 500)
        data = {"sample_weight": weight, "eval_set": (X, y)}
        whole = self.model(loss, 0).fit(X, y, **data)
        model = self.model(loss, 0, warm_start=True).set_params(n_estimators=2).fit(X, y, **data)
        model.set_params(n_estimators=4).fit(X, y, **data)
        assert fingerprint(model) == fingerprint(whole)
        assert model.evals_result_ == whole.evals_result_


class TestExpectiles:
    def test_one_half_is_the_squared_error(self):
        X, y, weight = table()
        for settings in ({}, {"early_stopping": True}, {"linear_leaves": True}):
            models = [
                GradientBoostingRegressor(loss, n_estimators=20, **settings).fit(X, y, weight)
                for loss in (Expectile(0.5), SquaredError())
            ]
            assert fingerprint(models[0]) == fingerprint(models[1])
            np.testing.assert_array_equal(models[0].predict(X), models[1].predict(X))

    @pytest.mark.parametrize("loss, level", [
        ("expectile", np.float32(0.3)), ("quantile", np.float32(0.3)),
        ("quantile", np.array([0.1, 0.9])), (losses.Huber(np.float32(0.7)), None),
        (losses.Tweedie(np.float32(1.5)), None),
    ], ids=["expectile", "quantile", "quantiles", "huber", "tweedie"])  # fmt: skip
    def test_levels_of_numpy_are_saved(self, loss, level, tmp_path):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(60, 2)), rng.uniform(size=60)
        model = GradientBoostingRegressor(loss, quantile=level, n_estimators=2, device="cpu")
        model.fit(X, y).save(tmp_path / "model.gpuens")
        np.testing.assert_array_equal(
            load(tmp_path / "model.gpuens").predict(X), clone(model).fit(X, y).predict(X)
        )

    def test_levels_are_kept_on_fresh_rows_and_in_order(self):
        """The excesses below and above are in the proportion of the level, up to chance."""
        X, y, _ = table()
        X, X_test, y, y_test = train_test_split(X, y, random_state=0)
        predicted = []
        for level in (0.1, 0.3, 0.5, 0.7, 0.9):
            model = GradientBoostingRegressor(
                "expectile", quantile=level, n_estimators=40, max_leaf_nodes=8, min_samples_leaf=50
            ).fit(X, y)
            predicted.append(model.predict(X_test))
            residual = y_test - predicted[-1]
            above = np.maximum(residual, 0.0).mean() / np.abs(residual).mean()
            assert above == pytest.approx(1.0 - level, abs=0.06)
        assert (np.diff(np.mean(predicted, axis=1)) > 0.1).all()
        assert (np.diff(predicted, axis=0) > 0.0).mean() > 0.95


class TestSeveralOutputs:
    def test_quantiles(self):
        X, y, _ = table()
        X, X_test, y, y_test = train_test_split(X, y, random_state=0)
        quantiles = [0.1, 0.5, 0.9]
        settings = {"n_estimators": 60, "min_samples_leaf": 20}
        model = GradientBoostingRegressor("quantile", quantile=quantiles, **settings).fit(X, y)
        prediction = model.predict(X_test)
        assert prediction.shape == (len(y_test), 3) and model.n_trees_per_iteration_ == 3
        below = (y_test[:, None] <= prediction).mean(axis=0)
        np.testing.assert_allclose(below, quantiles, atol=0.06)
        for k, quantile in enumerate(quantiles):
            single = GradientBoostingRegressor("quantile", quantile=quantile, **settings).fit(X, y)
            losses = [mean_pinball_loss(y_test, p, alpha=quantile)
                      for p in (prediction[:, k], single.predict(X_test))]  # fmt: skip
            assert losses[0] == pytest.approx(losses[1], rel=0.05)
        assert 0.05 < model.score(X_test, y_test) < 1

    @pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
    def test_quantiles_do_not_cross(self, strategy):
        """Predictions are the raw ones in order; the pinball loss of no row is higher than that of
        the raw ones (Chernozhukov et al. 2010)."""
        X, y, _ = table()
        quantiles = [0.5, 0.1, 0.9, 0.7, 0.3]
        model = GradientBoostingRegressor(
            "quantile", quantile=quantiles, n_estimators=60, multi_strategy=strategy
        ).fit(X[:1000], y[:1000])
        raw, found = model.forest_.raw_predict(X).T, model.predict(X)
        order = np.argsort(quantiles)
        crossing = (np.diff(raw[:, order]) < 0).any(axis=1)
        assert 0.01 < crossing.mean() < 0.99
        np.testing.assert_array_equal(found[:, order], np.sort(raw, axis=1))
        assert (found[~crossing].view(np.int64) == raw[~crossing].view(np.int64)).all()
        of_raw, of_found = (
            np.maximum(quantiles * (y[:, None] - f), (np.array(quantiles) - 1) * (y[:, None] - f))
            .sum(axis=1) for f in (raw, found)
        )  # fmt: skip
        assert (of_found <= of_raw + 1e-12).all() and of_found.sum() < of_raw.sum()
        *_, last = model.staged_predict(X)
        np.testing.assert_array_equal(last, found)
        for stage in itertools.islice(model.staged_predict(X), 0, None, 15):
            assert (np.diff(stage[:, order]) >= 0).all()

    def test_zeros_of_both_signs_stay_where_they_are(self):
        loss = Quantile([0.2, 0.4, 0.8]).for_targets(1)
        raw = np.array([[0.0, -0.0, 1.0], [-0.0, 0.0, 0.0], [0.0, 2.0, -0.0]])
        found = loss.predict(raw, CPU)
        np.testing.assert_array_equal(np.signbit(found[:2]), np.signbit(raw.T[:2]))
        np.testing.assert_array_equal(found, np.sort(raw.T, axis=1))

    def test_one_quantile_in_a_list_is_a_column(self):
        X, y, _ = table()
        one = GradientBoostingRegressor("quantile", quantile=[0.3], n_estimators=2).fit(X, y)
        plain = GradientBoostingRegressor("quantile", quantile=0.3, n_estimators=2).fit(X, y)
        np.testing.assert_array_equal(one.predict(X)[:, 0], plain.predict(X))
        assert plain.predict(X).ndim == 1

    @pytest.mark.parametrize("loss", OF_NUMBERS[:4] + OF_NUMBERS[5:], ids=str)
    def test_targets_are_trained_side_by_side(self, loss):
        X, y, weight = table()
        both = np.stack([y, y[::-1], 2 * y], axis=1)
        model = GradientBoostingRegressor(loss, n_estimators=10).fit(X, both, weight)
        prediction = model.predict(X)
        assert prediction.shape == both.shape and model.n_trees_per_iteration_ == 3
        assert model.forest_.base.shape == (3,)
        for k in (0, 2):
            single = clone(model).fit(X, both[:, k], weight)
            assert model.forest_.base[k] == single.forest_.base[0]
            # Random rounding differs by tree, so do a few splits.
            assert r2_score(single.predict(X), prediction[:, k]) > 0.95

    def test_metrics_and_stages_of_several_targets(self):
        X, y, _ = table()
        both = np.stack([y, -3 * y], axis=1)
        model = GradientBoostingRegressor(n_estimators=5, scoring=["loss", "r2"])
        model.fit(X, both, eval_set=(X, both))
        recorded = model.evals_result_["validation_0"]
        stages = list(model.staged_predict(X))
        assert recorded["loss"][-1] == pytest.approx(((stages[-1] - both) ** 2).mean() / 2)
        assert recorded["r2"][1:] == pytest.approx([r2_score(both, p) for p in stages])
        assert model.score(X, both) == pytest.approx(recorded["r2"][-1])

    def test_early_stopping_with_rows_held_out(self):
        X, y, _ = table()
        model = GradientBoostingRegressor("absolute_error", n_estimators=500, learning_rate=0.5)
        model.set_params(early_stopping=True).fit(X, np.stack([y, y**2], axis=1))
        assert model.stopped_ == "early stopping" and 1 < model.n_iter_ < 200

    def test_a_single_column_is_one_target(self):
        X, y, _ = table()
        model = GradientBoostingRegressor(n_estimators=2)
        with pytest.warns(UserWarning, match="A column-vector y was passed"):
            model.fit(X, y[:, None])
        assert model.predict(X).shape == y.shape


class TestLineSearch:
    def step(self, loss, y, weight=None, **settings):
        """The factor of the only round."""
        X = table()[0]
        cls = GradientBoostingClassifier if loss in OF_CLASSES else GradientBoostingRegressor
        plain = cls(loss, n_estimators=1, learning_rate=1.0, **settings).fit(X, y, weight)
        along = clone(plain).set_params(line_search=True).fit(X, y, weight)
        leaves = plain.forest_.feature < 0
        np.testing.assert_array_equal(along.forest_.feature, plain.forest_.feature)
        factors = along.forest_.value[leaves, 0] / plain.forest_.value[leaves, 0]
        np.testing.assert_allclose(factors, factors[0], rtol=1e-12)
        return plain, along, float(factors[0])

    @pytest.mark.parametrize("loss", [Poisson(), Gamma(), Tweedie(), LogLoss(), Exponential(),
                                      Focal(), SquaredError()], ids=str)  # fmt: skip
    def test_no_other_step_is_better(self, loss):
        X, y, weight = table()
        y = (y > np.quantile(y, 0.7)).astype(int) if loss in OF_CLASSES else y
        settings = {"l2_regularization": 20.0, "max_leaf_nodes": 8}
        plain, along, step = self.step(loss, y, weight, **settings)
        assert abs(step - 1.0) > 0.01  # regularisation shrinks, exponentials overshoot
        forest = plain.forest_
        direction = forest.raw_predict(X)[0] - forest.base[0]
        bound = plain._fitted_loss
        means = [
            bound.mean(y.astype(float), (forest.base[0] + s * direction)[None], weight, CPU)
            for s in step * np.array([1.0, 0.999, 1.001, 0.5, 2.0])
        ]
        assert min(means) == means[0]

    @pytest.mark.parametrize("loss", [AbsoluteError(), Quantile(0.3)], ids=str)
    def test_exact_leaf_values_need_none(self, loss):
        X, y, weight = table()
        plain, along, step = self.step(loss, y, weight)
        assert step == 1.0 and fingerprint(plain) == fingerprint(along)

    def test_squared_error_without_regularisation(self):
        assert self.step(SquaredError(), table()[1], l2_regularization=0.0)[2] == pytest.approx(1)

    def test_classes_have_a_step_in_common(self):
        X, y, _ = table()
        labels = np.digitize(y, np.quantile(y, [0.3, 0.6]))
        _, along, step = self.step(LogLoss(), labels, l2_regularization=50.0)
        assert along.n_trees_per_iteration_ == 3 and step > 1.2

    def test_targets_have_steps_of_their_own(self):
        X, y, _ = table()
        both = np.stack([y, (y > 2) * 1e-3 + 1e-3], axis=1)
        models = [
            GradientBoostingRegressor(
                "poisson", n_estimators=1, l2_regularization=10.0, line_search=searching
            ).fit(X, both)
            for searching in (False, True)
        ]
        factors = []
        for k in range(2):
            nodes = models[0].forest_.slice(k, k + 1).value, models[1].forest_.slice(k, k + 1).value
            factors.append(float(nodes[1][-1, 0] / nodes[0][-1, 0]))
        assert factors[0] < 1.5 < factors[1]

    def test_classes_that_are_told_apart_do_not_make_it_endless(self):
        X = np.arange(100.0)[:, None]
        model = GradientBoostingClassifier(n_estimators=3, line_search=True, learning_rate=1.0)
        model.fit(X, X[:, 0] > 50)
        assert np.isfinite(model.forest_.value).all() and model.score(X, X[:, 0] > 50) == 1.0
        assert np.abs(model.forest_.value).max() < 200

    def test_it_lowers_the_loss_faster(self):
        X, y, _ = table()
        losses = []
        for searching in (False, True):
            model = GradientBoostingRegressor(
                "gamma", n_estimators=20, l2_regularization=100.0, line_search=searching
            )
            model.fit(X, y, eval_set=(X, y))
            losses.append(model.evals_result_["validation_0"]["loss"][-1])
        assert losses[1] < losses[0]


class TestLearningRates:
    def test_a_sequence_and_a_function(self):
        X, y, _ = table()
        rates = [0.5, 0.25, 0.1, 0.05]
        models = [
            GradientBoostingRegressor(n_estimators=4, learning_rate=rate).fit(X, y)
            for rate in (rates, tuple(rates), np.array(rates), lambda i: rates[i])
        ]
        assert len({fingerprint(model) for model in models}) == 1
        forest = models[0].forest_
        first = GradientBoostingRegressor(n_estimators=1, learning_rate=1.0).fit(X, y).forest_
        np.testing.assert_allclose(forest.slice(0, 1).value, 0.5 * first.value)

    def test_a_constant_function_is_a_number(self):
        X, y, _ = table()
        one, other = (
            GradientBoostingRegressor(n_estimators=4, learning_rate=rate).fit(X, y)
            for rate in (0.3, lambda index: 0.3)
        )
        assert fingerprint(one) == fingerprint(other)

    def test_rounds_are_counted_on_in_a_warm_start(self):
        X, y, _ = table()
        seen = []

        def rate(index):
            seen.append(index)
            return 0.1

        model = GradientBoostingRegressor(n_estimators=2, learning_rate=rate, warm_start=True)
        model.fit(X, y).set_params(n_estimators=4).fit(X, y)
        assert seen == [0, 1, 2, 3]

    @pytest.mark.parametrize("rate, parts", [
        ([0.1, 0.0, 0.1], ("learning_rate[1] must be a finite number > 0", "got 0.0")),
        ([0.1, None, 0.1], ("learning_rate[1] must be", "got None")),
        ([0.1, 0.1], ("a rate for each of the n_estimators=3 rounds", "got 2")),
        ([], ("a rate for each of the n_estimators=3 rounds", "got 0")),
        (lambda i: 0.1 - 0.1 * i, ("learning_rate(1) must be a finite number > 0", "got 0.0")),
        (lambda i: "fast", ("learning_rate(0) must be a finite number > 0", "got 'fast'")),
        (float, ("learning_rate must be", "a function", "got <class 'float'>")),
        (-0.1, ("learning_rate must be a finite number > 0", "got -0.1")),
    ])  # fmt: skip
    def test_bad_rates(self, rate, parts):
        X, y, _ = table()
        with pytest.raises(ValueError) as error:
            GradientBoostingRegressor(n_estimators=3, learning_rate=rate).fit(X, y)
        assert all(part in str(error.value) for part in parts)


class TestCallbacksThatFail:
    class Failing:
        def __init__(self, at, error):
            self.at, self.error = at, error

        def after_iteration(self, state):
            if state.iteration == self.at:
                raise self.error

    @pytest.mark.parametrize("error", [RuntimeError("disk full"), StopIteration(), OSError(5)])
    def test_the_error_arrives_and_the_trees_are_kept(self, error):
        X, y, _ = table()
        quantiles = {"loss": "quantile", "quantile": [0.2, 0.8]}
        failing = [self.Failing(3, error)]
        model = GradientBoostingRegressor(**quantiles, n_estimators=100, callbacks=failing)
        with pytest.raises(type(error)) as arrived:
            model.fit(X, y, eval_set=(X, y))
        assert arrived.value is error
        assert model.stopped_ == "error" and model.n_iter_ == 3 and model.forest_.n_trees == 6
        expected = GradientBoostingRegressor(**quantiles, n_estimators=3).fit(X, y)
        np.testing.assert_array_equal(model.predict(X), expected.predict(X))
        assert len(model.evals_result_["validation_0"]["loss"]) == 4

    def test_an_error_after_training(self):
        class Failing:
            def after_iteration(self, state):
                pass

            def after_training(self, state):
                raise OSError("no space")

        X, y, _ = table()
        model = GradientBoostingRegressor(n_estimators=2, callbacks=[Failing()])
        with pytest.raises(OSError, match="no space"):
            model.fit(X, y)
        assert model.n_iter_ == 2 and model.predict(X).shape == y.shape
