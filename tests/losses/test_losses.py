"""Losses of gradient boosting: constants, leaf values, predictions, what they refuse."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit
from sklearn.base import clone

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.devices.placement import CPU
from gpuens.losses import (
    AbsoluteError,
    CustomLoss,
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
from tests.support.errors import raises

OF_NUMBERS = [
    SquaredError(), AbsoluteError(), Huber(), Huber(0.5), Quantile(0.1), Quantile(0.8), Poisson(),
    Gamma(), Tweedie(1.2), Tweedie(), Expectile(0.1), Expectile(0.98),
]  # fmt: skip
OF_CLASSES = [LogLoss(), Exponential(), Focal(), Focal(0.5)]
ROWS = 300


def table(positive=True, n=ROWS):
    """Features, a skewed target with ties, weights of which some are zero."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 4))
    y = np.round(np.exp(0.5 * X[:, 0] + 0.3 * X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=n)), 1)
    weight = rng.integers(0, 4, n) * 0.25
    return X, y + 0.1 if positive else y - 1.0, weight


def value_in_numpy(loss, y, f, delta=1.0):
    """The loss of every row, written down again."""
    r = y - f
    match loss:
        case SquaredError():
            return r**2 / 2
        case AbsoluteError():
            return np.abs(r)
        case Huber():
            return np.where(np.abs(r) <= delta, r**2 / 2, delta * (np.abs(r) - delta / 2))
        case Quantile(quantile=q):
            return np.maximum(q * r, (q - 1) * r)
        case Expectile(alpha=level):
            return np.where(r >= 0, level, 1 - level) * r**2
        case Poisson():
            return np.exp(f) - y * f
        case Gamma():
            return f + y * np.exp(-f)
        case Tweedie(power=p):
            return np.exp((2 - p) * f) / (2 - p) - y * np.exp((1 - p) * f) / (1 - p)
        case LogLoss():
            return np.logaddexp(0, f) - y * f
        case Exponential():
            return np.exp(-(2 * y - 1) * f)
        case Focal(gamma=gamma):
            p = expit((2 * y - 1) * f)
            return -((1 - p) ** gamma) * np.log(p)


def weighted_quantile(values, weight, quantile):
    """The middle of all minima of the quantile loss, in exact fractions."""
    order = np.argsort(values)
    shares = [Fraction(float(w)) for w in weight[order]]
    wanted = Fraction(quantile).limit_denominator(1000) * sum(shares)
    running, found = Fraction(0), []
    for v, share in zip(values[order], shares, strict=True):
        running += share
        if running >= wanted and share > 0 and not (found and running - share > wanted):
            found.append(v)
    return (found[0] + found[-1]) / 2 if len(found) > 1 else found[0]


def weighted_expectile(values, weight, level):
    """The root of the sum of the weighted, asymmetric residuals, in exact fractions: it is linear
    between neighbouring values."""
    level = Fraction(level).limit_denominator(1000)
    rows = sorted(
        (Fraction(float(v)), Fraction(float(w))) for v, w in zip(values, weight, strict=True)
    )
    below, above = [Fraction(0)] * 2, [sum(w * v for v, w in rows), sum(w for _, w in rows)]
    for k, (v, w) in enumerate(rows, 1):
        for j, part in enumerate((w * v, w)):
            below[j] += part
            above[j] -= part
        total, share = ((1 - level) * b + level * a for b, a in zip(below, above, strict=True))
        root = total / (share or 1)
        if rows[k - 1][0] <= root and (k == len(rows) or root <= rows[k][0]):
            return float(root)
    raise AssertionError("a convex function has a minimum")


def estimator(loss, **settings):
    of_numbers = type(loss) in {type(other) for other in OF_NUMBERS}
    cls = GradientBoostingRegressor if of_numbers else GradientBoostingClassifier
    return cls(loss, **settings)


class TestBestConstants:
    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("loss", OF_NUMBERS + OF_CLASSES, ids=str)
    def test_no_constant_is_better(self, loss, weighted):
        X, y, weight = table()
        y = (y > np.median(y)).astype(int) if loss in OF_CLASSES else y
        weight = weight if weighted else np.ones(ROWS)
        model = estimator(loss, n_estimators=1, min_samples_leaf=ROWS).fit(X, y, weight)
        base = model.forest_.base[0]
        delta = 1.0
        if isinstance(loss, Huber):
            median = weighted_quantile(y, weight, 0.5)
            delta = weighted_quantile(np.abs(y - median), weight, loss.alpha)

        def mean(f):
            return np.average(value_in_numpy(loss, y, f, delta), weights=weight)

        best = minimize_scalar(mean, (base - 1, base + 1), tol=1e-12).fun
        # Huber's constant is one step from the median, not the minimum.
        slack = 0.02 * abs(best) if isinstance(loss, Huber) else 1e-9
        assert mean(base) <= best + slack

    def test_hubers_constant_is_friedmans(self):
        X, y, weight = table()
        model = estimator(Huber(0.7), n_estimators=1).fit(X, y, weight)
        median = weighted_quantile(y, weight, 0.5)
        delta = weighted_quantile(np.abs(y - median), weight, 0.7)
        clipped = np.clip(y - median, -delta, delta)
        expected = median + np.average(clipped, weights=weight)
        assert model.forest_.base[0] == pytest.approx(expected, rel=1e-12)

    @pytest.mark.parametrize("loss", [AbsoluteError(), Quantile(0.25)], ids=str)
    def test_medians_and_quantiles_are_exact(self, loss):
        X, y, weight = table()
        base = estimator(loss, n_estimators=1).fit(X, y, weight).forest_.base[0]
        assert base == weighted_quantile(y, weight, getattr(loss, "quantile", 0.5))

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("level", [0.003, 0.25, 0.5, 0.9, 0.999])
    def test_expectiles_are_exact(self, level, weighted):
        X, y, weight = table(positive=False)
        y = y * np.where(np.arange(ROWS) % 50 == 3, 1e3, 1.0)
        weight = weight if weighted else np.ones(ROWS)
        base = estimator(Expectile(level), n_estimators=1).fit(X, y, weight).forest_.base[0]
        assert base == pytest.approx(weighted_expectile(y, weight, level), rel=1e-13)

    def test_means_of_positive_losses(self):
        X, y, weight = table()
        for loss in (Poisson(), Gamma(), Tweedie()):
            model = estimator(loss, n_estimators=1, min_samples_leaf=ROWS).fit(X, y, weight)
            np.testing.assert_allclose(model.predict(X), np.average(y, weights=weight), rtol=1e-6)


SINGLE_TREE = {"n_estimators": 1, "learning_rate": 1.0, "max_leaf_nodes": 8}


class TestLeafValues:
    """Of a single tree, against what the rows in its leaves ask for."""

    def leaves(self, loss, weighted, **settings):
        X, y, weight = table(positive=False)
        weight = weight if weighted else None
        model = estimator(loss, **{**SINGLE_TREE, **settings}).fit(X, y, weight)
        forest, leaf = model.forest_, model.apply(X)[:, 0]
        assert forest.n_leaves[0] == 8
        weight = np.ones(ROWS) if weight is None else weight
        for node in np.flatnonzero(forest.feature < 0):
            rows = (leaf == node) & (weight > 0)
            yield forest.value[node, 0], (y - forest.base[0])[rows], weight[rows], y[weight > 0]

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("loss", [AbsoluteError(), Quantile(0.1), Quantile(0.8)], ids=str)
    def test_medians_and_quantiles(self, loss, weighted):
        for value, residual, weight, _ in self.leaves(loss, weighted):
            expected = weighted_quantile(residual, weight, getattr(loss, "quantile", 0.5))
            assert value == pytest.approx(expected, rel=1e-15, abs=1e-15)
            at_least = np.average(value_in_numpy(loss, residual, value), weights=weight)
            for other in residual:
                assert at_least <= np.average(
                    value_in_numpy(loss, residual, other), weights=weight
                ) * (1 + 1e-12)

    def test_regularisation_does_not_shrink_them(self):
        for loss in (AbsoluteError(), Quantile(0.8), Huber()):
            one, other = (
                [value for value, *_ in self.leaves(loss, False, l2_regularization=l2)]
                for l2 in (0.0, 1e-9)
            )
            assert one == other

    @pytest.mark.parametrize("weighted", [False, True])
    def test_huber(self, weighted):
        X, y, all_weights = table(positive=False)
        weight = all_weights if weighted else np.ones(ROWS)
        base = estimator(Huber(0.6), **SINGLE_TREE).fit(X, y, weight).forest_.base[0]
        delta = weighted_quantile(np.abs(y - base), weight, 0.6)
        for value, residual, own, _ in self.leaves(Huber(0.6), weighted):
            median = weighted_quantile(residual, own, 0.5)
            step = np.average(np.clip(residual - median, -delta, delta), weights=own)
            assert value == pytest.approx(median + step, rel=1e-6, abs=1e-6)

    def test_newton_steps(self):
        X, y, weight = table()
        for loss in (Poisson(), Gamma(), Tweedie(1.2)):
            model = estimator(loss, **SINGLE_TREE, l2_regularization=0.5).fit(X, y, weight)
            forest, leaf = model.forest_, model.apply(X)[:, 0]
            f, step = forest.base[0], 1e-5
            below, at, above = (value_in_numpy(loss, y, f + d) for d in (-step, 0, step))
            g, h = (above - below) / (2 * step), (above - 2 * at + below) / step**2
            for node in np.flatnonzero(forest.feature < 0):
                rows = leaf == node
                expected = -(weight * g)[rows].sum() / ((weight * h)[rows].sum() + 0.5)
                assert forest.value[node, 0] == pytest.approx(expected, rel=1e-4)

    def test_the_longest_step_of_the_poisson_loss(self):
        """It multiplies hessians by its exponential."""
        X, y, weight = table()
        models = [
            estimator(Poisson(step), **SINGLE_TREE, l2_regularization=0.0).fit(X, y, weight)
            for step in (0.0, 0.7)
        ]
        ratio = models[1].forest_.value / models[0].forest_.value
        np.testing.assert_allclose(ratio[models[0].forest_.feature < 0], np.exp(-0.7), rtol=1e-6)

    @pytest.mark.parametrize("loss", [AbsoluteError(), Huber()], ids=str)
    def test_inner_nodes_are_means_of_their_children(self, loss):
        X, y, weight = table(positive=False)
        forest = estimator(loss, **SINGLE_TREE).fit(X, y, weight).forest_
        for node in np.flatnonzero(forest.feature >= 0):
            children = [forest.left[node], forest.right[node]]
            mean = np.average(forest.value[children, 0], weights=forest.cover[children])
            assert forest.value[node, 0] == pytest.approx(mean)

    def test_rows_outside_of_the_sample_do_not_count(self):
        X, y, _ = table(positive=False)
        settings = SINGLE_TREE | {"subsample": 0.5, "max_leaf_nodes": 2, "min_samples_leaf": 50}
        for seed in range(5):
            model = estimator(AbsoluteError(), **settings, random_state=seed).fit(X, y)
            leaf = model.apply(X)[:, 0]
            for node in (1, 2):
                residual = (y - model.forest_.base[0])[leaf == node]
                assert model.forest_.n_samples[node] < residual.size
                assert np.ptp(residual) > model.forest_.value[node, 0] - residual.min() > 0

    def test_tiny_and_huge_weights(self):
        X, y, weight = table(positive=False)
        plain = estimator(AbsoluteError(), **SINGLE_TREE, min_sum_hessian=0.0)
        expected = plain.fit(X, y, weight).predict(X)
        for scale in (2.0**-90, 2.0**90):
            other = clone(plain).set_params(l2_regularization=scale).fit(X, y, weight * scale)
            np.testing.assert_array_equal(other.predict(X), expected)
        uneven = np.where(np.arange(ROWS) % 2, 1.0, 1e-20)
        assert np.isfinite(plain.fit(X, y, uneven).predict(X)).all()

    def test_huber_where_most_residuals_are_zero(self):
        X, _, _ = table()
        y = np.where(np.arange(ROWS) % 20 == 0, 5.0, 0.0)
        X[:, 0] = y
        model = estimator(Huber(0.5), n_estimators=50, min_samples_leaf=1).fit(X, y)
        assert np.abs(model.predict(X) - y).max() < 0.2


class TestPredictions:
    def test_exponentials(self):
        X, y, _ = table()
        for name in ("poisson", "gamma", "tweedie"):
            model = GradientBoostingRegressor(name, n_estimators=5).fit(X, y)
            raw = model.forest_.raw_predict(X)[0]
            np.testing.assert_allclose(model.predict(X), np.exp(raw), rtol=1e-14)
            *_, last = model.staged_predict(X)
            np.testing.assert_array_equal(last, model.predict(X))

    def test_probabilities(self):
        X, y, _ = table()
        c = (y > np.median(y)).astype(int)
        for loss, factor in (("exponential", 2.0), ("focal", 1.0), ("log_loss", 1.0)):
            model = GradientBoostingClassifier(loss, n_estimators=5).fit(X, c)
            proba, raw = model.predict_proba(X), model.decision_function(X)
            np.testing.assert_allclose(proba[:, 1], expit(factor * raw), rtol=1e-12)
            np.testing.assert_array_equal(proba.sum(axis=1), 1.0)
            np.testing.assert_array_equal(model.predict(X), proba.argmax(axis=1))
            assert model.score(X, c) > 0.8

    def test_focal_loss_takes_many_classes_one_against_the_rest(self):
        X, y, _ = table()
        c = np.digitize(y, np.quantile(y, [0.3, 0.6]))
        model = GradientBoostingClassifier("focal", n_estimators=20).fit(X, c)
        raw, proba = model.decision_function(X), model.predict_proba(X)
        assert model.n_trees_per_iteration_ == 3
        np.testing.assert_allclose(proba, expit(raw) / expit(raw).sum(axis=1)[:, None])
        single = GradientBoostingClassifier("focal", n_estimators=20).fit(X, c == 2)
        # The trees have other random keys than those of a model of their own.
        assert np.abs(expit(raw[:, 2]) - single.predict_proba(X)[:, 1]).mean() < 0.01
        assert model.score(X, c) > 0.8

    def test_the_metric_is_the_mean_of_the_loss(self):
        X, y, weight = table()
        c = (y > np.median(y)).astype(int)
        for loss in OF_NUMBERS + OF_CLASSES:
            target = c if loss in OF_CLASSES else y
            model = estimator(loss, n_estimators=3)
            model.fit(X, target, weight, eval_set=(X, target), eval_sample_weight=weight)
            delta = 1.0
            if isinstance(loss, Huber):  # that of the constant, in all rounds
                distance = np.abs(y - model.forest_.base[0])
                delta = weighted_quantile(distance, weight, loss.alpha)
            raw = model.forest_.raw_predict(X)[0]
            values = value_in_numpy(loss, target, raw, delta)
            recorded = model.evals_result_["validation_0"]["loss"]
            assert recorded[-1] == pytest.approx(np.average(values, weights=weight))
            assert (np.diff(recorded) < 0).all(), loss


class TestObjects:
    def test_names_stand_for_defaults(self):
        X, y, _ = table()
        for name, loss in [
            ("squared_error", SquaredError()), ("absolute_error", AbsoluteError()),
            ("huber", Huber(alpha=0.9)), ("poisson", Poisson()), ("gamma", Gamma()),
            ("tweedie", Tweedie(power=1.5)),
        ]:  # fmt: skip
            models = [GradientBoostingRegressor(x, n_estimators=3) for x in (name, loss)]
            one, other = (model.fit(X, y).forest_.fingerprint() for model in models)
            assert one == other
        one = GradientBoostingRegressor("quantile", quantile=0.3, n_estimators=3).fit(X, y)
        other = GradientBoostingRegressor(Quantile(0.3), n_estimators=3).fit(X, y)
        assert one.forest_.fingerprint() == other.forest_.fingerprint()
        one = GradientBoostingRegressor("expectile", quantile=0.3, n_estimators=3).fit(X, y)
        other = GradientBoostingRegressor(Expectile(0.3), n_estimators=3).fit(X, y)
        assert one.forest_.fingerprint() == other.forest_.fingerprint()

    @pytest.mark.parametrize("loss", [*OF_NUMBERS, *OF_CLASSES, Quantile([0.1, 0.9])], ids=repr)
    def test_copies_are_equal(self, loss):
        for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
            assert other == loss and repr(other) == repr(loss)
        model = estimator(loss)
        assert clone(model).get_params()["loss"] == loss

    def test_representation(self):
        assert repr(Tweedie(power=1.2)) == "Tweedie(power=1.2)"
        assert "loss=Huber(alpha=0.5)" in repr(GradientBoostingRegressor(loss=Huber(0.5)))

    def test_a_loss_is_not_changed_by_training(self):
        X, y, _ = table()
        loss = Huber()
        kept = dict(loss.__dict__)
        GradientBoostingRegressor(loss, n_estimators=2).fit(X, np.stack([y, y], axis=1))
        assert loss.__dict__ == kept and loss.n_outputs == 1

    def test_a_model_keeps_the_loss_that_it_was_trained_with(self):
        X, y, _ = table()
        model = GradientBoostingRegressor("poisson", n_estimators=2).fit(X, y)
        expected = model.predict(X)
        model.set_params(loss="squared_error")
        np.testing.assert_array_equal(model.predict(X), expected)


class TestBadInput:
    X, Y, _ = table()
    C = (Y > 1).astype(int)

    @pytest.mark.parametrize("name, value, parts", [
        ("gamma", 0.0, ("loss='gamma' requires strictly positive y.", "y is 0.0 in row 7")),
        ("gamma", -2.0, ("loss='gamma' requires strictly positive y.", "y is -2.0 in row 7")),
        ("poisson", -1.0, ("loss='poisson' requires non-negative y", "y is -1.0 in row 7")),
        ("tweedie", -0.5, ("loss='tweedie' requires non-negative y", "y is -0.5 in row 7")),
    ])  # fmt: skip
    def test_targets_outside_of_the_domain(self, name, value, parts):
        y = self.Y.copy()
        y[7] = value
        model = GradientBoostingRegressor(name, n_estimators=1)
        with raises(ValueError, *parts, "drop such rows, or use another loss"):
            model.fit(self.X, y)
        with raises(ValueError, parts[0]):
            model.fit(self.X, np.stack([self.Y, y], axis=1))
        in_set = parts[-1].replace("y is", "eval_set[0] y is")
        with raises(ValueError, parts[0], in_set):
            model.fit(self.X, self.Y, eval_set=(self.X, y))

    def test_zero_is_in_the_domain_of_counts(self):
        for name in ("poisson", "tweedie"):
            y = np.floor(self.Y)
            assert (y == 0).any()
            GradientBoostingRegressor(name, n_estimators=1).fit(self.X, y)

    @pytest.mark.parametrize("name", ["poisson", "tweedie"])
    def test_nothing_but_zeros(self, name):
        with raises(ValueError, f"loss='{name}' requires", "sum(y) > 0", "zero in every row"):
            GradientBoostingRegressor(name).fit(self.X, np.zeros(ROWS))
        weight = (self.Y < 1).astype(float)
        y = np.where(weight > 0, 0.0, self.Y)
        with raises(ValueError, "zero in every row of positive weight"):
            GradientBoostingRegressor(name).fit(self.X, y, weight)

    @pytest.mark.parametrize("value", [0, 1, 0.0, 1.0, -0.1, 1.1, np.nan, np.inf, "0.5", None, []])
    def test_quantiles(self, value):
        with raises(ValueError, "quantile must be a number in (0, 1), or a list", f"got {value!r}"):
            GradientBoostingRegressor("quantile", quantile=value).fit(self.X, self.Y)
        with raises(ValueError, "quantile must be a number in (0, 1), or a list"):
            GradientBoostingRegressor(loss="quantile", quantile=[0.5, value]).fit(self.X, self.Y)

    @pytest.mark.parametrize("value", [0, 1, -0.1, 1.1, np.nan, "0.5", None, [], [0.1, 0.9]])
    def test_levels_of_expectiles(self, value):
        parts = ("alpha of Expectile, which is quantile with loss='expectile', must be a number in "
                 "(0, 1)", f"got {value!r}")  # fmt: skip
        with raises(ValueError, *parts):
            Expectile(value)
        with raises(ValueError, *parts):
            GradientBoostingRegressor("expectile", quantile=value).fit(self.X, self.Y)

    def test_parameters_of_losses(self):
        for value in (0, 1, -1.0, 2.0, None, "0.9", np.nan):
            with raises(ValueError, "alpha of Huber must be a number in (0, 1)", f"got {value!r}"):
                Huber(alpha=value)
        for value in (0, 1, 2, 3.0, None, "1.5", np.nan):
            with raises(ValueError, "power of Tweedie must be a number in (1, 2)", f"{value!r}",
                        "loss='poisson' for 1 and loss='gamma' for 2"):  # fmt: skip
                Tweedie(power=value)
        for value in (-0.1, None, "0.7", np.nan, np.inf):
            with raises(ValueError, "max_delta_step of Poisson must be a finite number >= 0",
                        f"{value!r}"):  # fmt: skip
                Poisson(max_delta_step=value)
        for value in (-1, None, "2", np.nan, np.inf):
            with raises(ValueError, "gamma of Focal must be a finite number >= 0", f"{value!r}"):
                Focal(gamma=value)

    def test_losses_of_the_other_kind(self):
        for loss in OF_CLASSES:
            with raises(ValueError, f"loss={loss!r}", "'squared_error'"):
                GradientBoostingRegressor(loss).fit(self.X, self.Y)
        for loss in OF_NUMBERS:
            with raises(ValueError, f"loss={loss!r}", "'log_loss'"):
                GradientBoostingClassifier(loss).fit(self.X, self.C)
        with raises(ValueError, "loss must be 'log_loss' or 'exponential' or 'focal'", "'poisson'"):
            GradientBoostingClassifier("poisson").fit(self.X, self.C)
        with raises(ValueError, "loss must be 'squared_error'", "'tweedie'", "got 'log_loss'"):
            GradientBoostingRegressor("log_loss").fit(self.X, self.Y)

    def test_exponential_loss_of_many_classes(self):
        with raises(ValueError, "loss='exponential'", "3 classes", "'log_loss' or 'focal'"):
            GradientBoostingClassifier("exponential").fit(self.X, np.arange(ROWS) % 3)

    def test_several_quantiles_of_several_targets(self):
        model = GradientBoostingRegressor("quantile", quantile=[0.1, 0.9])
        with raises(ValueError, "quantile=(0.1, 0.9)", "y has 2 targets"):
            model.fit(self.X, np.stack([self.Y, self.Y], axis=1))

    def test_number_of_targets(self):
        both = np.stack([self.Y, self.Y], axis=1)
        model = GradientBoostingRegressor(n_estimators=1)
        with raises(ValueError, "eval_set[0] y has 1 targets, the model was trained on 2"):
            model.fit(self.X, both, eval_set=(self.X, self.Y))
        model.fit(self.X, both).set_params(warm_start=True, n_estimators=2)
        with raises(ValueError, "y has 1 targets, the model was trained on 2"):
            model.fit(self.X, self.Y)

    def test_warm_start_with_another_number_of_outputs(self):
        model = GradientBoostingRegressor("quantile", quantile=0.5, n_estimators=1, warm_start=True)
        model.fit(self.X, self.Y).set_params(quantile=[0.1, 0.5], n_estimators=2)
        with raises(ValueError, "has 1 trees a round", "need 2", "warm_start=False"):
            model.fit(self.X, self.Y)

    def test_a_target_of_text(self):
        with raises(ValueError, "y must hold numbers for a regression"):
            GradientBoostingRegressor("poisson").fit(self.X, np.array(["a", "b"])[self.C])

    def test_a_nan_in_one_of_the_targets(self):
        y = np.stack([self.Y, self.Y], axis=1)
        y[3, 1] = np.nan
        with raises(ValueError, "Input y contains NaN"):
            GradientBoostingRegressor().fit(self.X, y)

    def test_gradients_that_explode(self):
        y = np.where(self.X[:, 0] > 0, 1e30, 1e-30)
        model = GradientBoostingRegressor("poisson", learning_rate=1000.0)
        with raises(ValueError, "The gradients of round", "do not fit float32", "learning_rate"):
            model.fit(self.X, y)

    def test_custom_losses_are_of_both_kinds(self):
        loss = CustomLoss(lambda y, f: (y - f) ** 2, lambda y, f: 2.0 * (f - y))
        for cls, y in ((GradientBoostingRegressor, self.Y), (GradientBoostingClassifier, self.C)):
            assert cls(loss, n_estimators=5).fit(self.X, y).score(self.X, y) > 0.3


@pytest.mark.parametrize("raw", [1e7, 1e300, np.inf, -np.inf])
def test_classes_far_away_share_the_probability(raw):
    """The logarithm of a sum is lost beside such numbers; linear leaves reach them."""
    scores = np.array([[0.0, raw, 1.0], [0.0, raw, raw], [-3.0, raw, 1.0]])
    found = LogLoss().for_classes(3).predict(scores, CPU)
    expected = np.exp(scores.clip(-1e308, 1e308) - scores.clip(-1e308, 1e308).max(axis=0)).T
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=1e-9)
