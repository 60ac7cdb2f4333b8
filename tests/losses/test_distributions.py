"""Losses that fit a whole distribution, and the distributions that they predict."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize
from sklearn.datasets import make_friedman1
from sklearn.linear_model import Ridge

import gpuens
from gpuens import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    StagewiseRegressor,
    distributions,
)
from gpuens.kernels.scalars import distributions as formulas
from gpuens.kernels.scalars.primitives import vectorise
from gpuens.losses import LogNormal, NegativeBinomial, Normal, StudentT
from tests.support.lanes import few

LOSSES = [Normal(), LogNormal(), StudentT(), StudentT(df=8.0), NegativeBinomial()]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)
ROWS = 1500


def truth_of(loss, X):
    """The distribution of the target in each row of ``table``."""
    location, scale = X[:, 0] + np.sin(2 * X[:, 1]), np.exp(0.5 * X[:, 2] - 0.5)
    if isinstance(loss, NegativeBinomial):
        return distributions.NegativeBinomial(np.exp(0.5 * location + 1.0), np.exp(X[:, 2] + 1.0))
    if isinstance(loss, StudentT):
        return distributions.StudentT(location, scale, loss.df)
    return getattr(distributions, type(loss).__name__)(location, scale)


def table(loss, n=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, truth_of(loss, X).sample(1, random_state=rng)[0].astype(float)


def mean_loss(model, X, y, weight=None):
    return -np.average(model.predict_dist(X).logpdf(y), weights=weight)


def test_gamma_functions():
    x = 10.0 ** np.linspace(-9.0, 5.0, 200)
    lowest = 10.0 ** np.linspace(-9.0, 3.0, 100)
    for own, known, places in (
        (formulas.log_gamma, scipy.special.gammaln, x),
        (formulas.digamma, scipy.special.digamma, x),
        (formulas.trigamma_excess, lambda x: scipy.special.polygamma(1, x) - 1.0 / x, lowest),
    ):
        assert vectorise(own)(places) == pytest.approx(known(places), rel=1e-10, abs=1e-10)


class TestTraining:
    @every_loss
    def test_finds_the_distribution_of_each_row(self, loss):
        X, y = table(loss, 4000)
        fresh, target = table(loss, 2000, seed=1)
        model = GradientBoostingRegressor(
            loss, n_estimators=120, learning_rate=0.05, max_depth=3, early_stopping=False
        ).fit(X, y)
        truth = -truth_of(loss, fresh).logpdf(target).mean()
        constant = -model.predict_dist(fresh * 0.0).logpdf(target).mean()
        assert mean_loss(model, fresh, target) < truth + 0.25 * (constant - truth)

    @every_loss
    @pytest.mark.parametrize("weighted", [False, True])
    def test_the_metric_is_the_negative_log_likelihood(self, loss, weighted):
        X, y = table(loss)
        weight = np.random.default_rng(0).integers(1, 4, ROWS) * 0.5 if weighted else None
        model = GradientBoostingRegressor(loss, n_estimators=5).fit(
            X, y, weight, eval_set=(X, y), eval_sample_weight=weight
        )
        recorded = model.evals_result_["validation_0"]["loss"][-1]
        assert recorded == pytest.approx(mean_loss(model, X, y, weight), rel=1e-9)

    @every_loss
    def test_starts_from_the_most_likely_constant(self, loss):
        X, y = table(loss)
        model = GradientBoostingRegressor(loss, n_estimators=1, learning_rate=1e-9).fit(X, y)
        start = model.forest_.base

        def mean(raw):
            return -loss.distribution(np.repeat(raw[:, None], ROWS, axis=1)).logpdf(y).mean()

        assert mean(start) <= minimize(mean, start, method="Nelder-Mead").fun + 1e-7

    @pytest.mark.parametrize("loss", LOSSES[:-1], ids=str)  # counts have no unit
    def test_does_not_depend_on_the_unit(self, loss):
        X, y = table(loss)
        parameters = {"n_estimators": 20, "early_stopping": False}
        model = GradientBoostingRegressor(loss, **parameters).fit(X, y)
        other = GradientBoostingRegressor(loss, **parameters).fit(X, y * 1e5)
        assert mean_loss(other, X, y * 1e5) - np.log(1e5) == pytest.approx(
            mean_loss(model, X, y), abs=0.02
        )

    @pytest.mark.parametrize(("rate", "moves"), [(0.1, 0.2), (0.4, 0.8), (0.7, 1.0), (1.5, 1.5)])
    def test_locations_move_by_twice_the_learning_rate_at_most_by_whole_steps(self, rate, moves):
        y = np.random.default_rng(0).normal(size=200)
        group = np.arange(200) % 2
        y += group
        model = GradientBoostingRegressor(
            "normal", n_estimators=1, learning_rate=rate, l2_regularization=0.0
        ).fit(group[:, None], y)
        means = np.array([y[group == 0].mean(), y[group == 1].mean()])
        expected = y.mean() + moves * (means - y.mean())
        assert model.predict([[0.0], [1.0]]) == pytest.approx(expected, rel=1e-6)

    def test_weights_are_repeated_rows(self):
        X, y = table(Normal())
        weight = np.random.default_rng(0).integers(0, 3, ROWS)
        rows = np.repeat(np.arange(ROWS), weight)
        model = GradientBoostingRegressor("normal", n_estimators=3)
        weighted = mean_loss(model.fit(X, y, weight), X, y)
        assert mean_loss(model.fit(X[rows], y[rows]), X, y) == pytest.approx(weighted, rel=0.02)

    @every_loss
    def test_same_model_with_every_number_of_threads(self, loss):
        X, y = table(loss, 30_000)
        fit = {"n_estimators": 3, "early_stopping": False}
        one, two = (
            GradientBoostingRegressor(loss, n_jobs=n, **fit).fit(X, y).forest_.fingerprint()
            for n in (1, 2)
        )
        assert one == two

    @every_loss
    def test_saved_models_predict_the_same(self, loss, tmp_path):
        X, y = table(loss)
        model = GradientBoostingRegressor(loss, n_estimators=5).fit(X, y)
        model.save(tmp_path / "model")
        loaded = gpuens.load(tmp_path / "model")
        assert (loaded.predict_dist(X).logpdf(y) == model.predict_dist(X).logpdf(y)).all()
        assert (loaded.predict(X) == model.predict(X)).all()

    def test_predicts_means(self):
        for loss in LOSSES:
            X, y = table(loss)
            model = GradientBoostingRegressor(loss, n_estimators=5).fit(X, y)
            assert model.predict(X) == pytest.approx(model.predict_dist(X).mean(), rel=1e-9)

    def test_a_fit_without_noise_ends_at_the_smallest_scale(self):
        X = np.repeat(np.arange(20.0), 10)[:, None]
        model = GradientBoostingRegressor(
            "normal", n_estimators=400, learning_rate=1.0, l2_regularization=0.0,
            early_stopping=False,
        ).fit(X, X[:, 0])  # fmt: skip
        scale = model.predict_dist(X).scale
        assert np.isfinite(model.predict(X)).all()
        assert (scale > 1e-8).all() and (scale < 1e-4).all()


@pytest.mark.slow
@settings(max_examples=20)
@given(
    st.sampled_from(LOSSES),
    st.sampled_from([0.1, 0.5, 1.0]),
    st.sampled_from([1, 10]),
    st.sampled_from([1.0, 1e6]),
    st.integers(0, 10**6),
)
def test_no_round_raises_the_training_loss(loss, learning_rate, min_samples_leaf, outlier, seed):
    X, y = table(loss, 300, seed)
    y[0] *= outlier
    model = GradientBoostingRegressor(
        loss, n_estimators=30, learning_rate=learning_rate, min_samples_leaf=min_samples_leaf,
        l2_regularization=0.0, early_stopping=False, random_state=0,
    ).fit(X, y, eval_set=(X, y))  # fmt: skip
    losses = np.array(model.evals_result_["validation_0"]["loss"])
    assert (np.diff(losses) <= 1e-6 * np.abs(losses[:-1]) + 1e-9).all(), losses


class TestDistributions:
    ROWS = 3
    FAMILIES = [
        distributions.Normal(np.array([0.0, 1.0, -2.0]), np.array([1.0, 0.5, 3.0])),
        distributions.LogNormal(np.array([0.0, 1.0, -0.5]), np.array([1.0, 0.5, 0.2])),
        distributions.StudentT(np.array([0.0, 1.0, -2.0]), np.array([1.0, 0.5, 3.0]), 3.5),
        distributions.NegativeBinomial(np.array([0.5, 4.0, 30.0]), np.array([0.5, 2.0, 100.0])),
    ]
    families = pytest.mark.parametrize("family", FAMILIES, ids=lambda d: type(d).__name__)

    @pytest.mark.parametrize("family", few(FAMILIES, 0, 2), ids=lambda d: type(d).__name__)
    def test_score_is_the_integral_that_defines_it(self, family):
        y = family.quantile(0.7) + (0.0 if isinstance(family.frozen.dist, scipy.stats.rv_discrete)
                                    else 0.3)  # fmt: skip
        found = family.crps(y)
        for row in range(self.ROWS):

            def squared(x, row=row):
                return (family.frozen.cdf(np.full(self.ROWS, x))[row] - (x >= y[row])) ** 2

            if isinstance(family, distributions.NegativeBinomial):
                expected = sum(squared(float(k)) for k in range(600))
            else:
                parts = [quad(squared, a, b, limit=200)[0]
                         for a, b in ((-np.inf, y[row]), (y[row], np.inf))]  # fmt: skip
                expected = sum(parts)
            assert found[row] == pytest.approx(expected, rel=1e-5)

    @families
    def test_draws_and_quantiles(self, family):
        draws = family.sample(4000, random_state=0)
        assert draws.shape == (4000, self.ROWS)
        assert (draws == family.sample(4000, random_state=0)).all()
        quantiles = family.quantile([0.1, 0.5, 0.9])
        assert quantiles.shape == (self.ROWS, 3)
        shares = (draws[:, :, None] <= quantiles).mean(axis=0)
        assert (shares >= np.array([0.1, 0.5, 0.9]) - 0.03).all()
        assert len(family) == self.ROWS and family.std().shape == (self.ROWS,)
        assert family.cdf(family.quantile(0.5)) == pytest.approx(
            family.frozen.cdf(family.frozen.ppf(0.5))
        )

    def test_no_score_without_a_mean(self):
        family = distributions.StudentT(np.zeros(2), np.ones(2), 1.0)
        assert (family.crps([0.0, 1.0]) == np.inf).all()

    @pytest.mark.parametrize("q", [-0.1, [0.5, 1.5], [[0.5]], np.nan])
    def test_refuses_other_probabilities(self, q):
        with pytest.raises(ValueError, match=r"q must be a number in \[0, 1\]"):
            self.FAMILIES[0].quantile(q)


class TestBadInput:
    def refused(self, match, y, loss="normal", model=GradientBoostingRegressor, **settings):
        X = np.arange(40.0).reshape(20, 2)
        with pytest.raises(ValueError, match=match):
            model(loss=loss, **settings).fit(X, y)

    @pytest.mark.parametrize("loss", ["normal", "log_normal", "student_t", "negative_binomial"])
    def test_targets_without_spread(self, loss):
        self.refused("the same in all rows of positive weight", np.full(20, 3.0), loss)

    @pytest.mark.parametrize("loss", ["normal", "log_normal", "student_t"])
    def test_targets_whose_mean_is_rounded(self, loss):
        """The mean of 50 numbers 0.7 is not 0.7, nor is that of their logarithms."""
        X, y = np.arange(100.0).reshape(50, 2), np.full(50, 0.7)
        for weight in (None, np.full(50, 0.3)):
            with pytest.raises(ValueError, match="the same in all rows of positive weight"):
                GradientBoostingRegressor(loss=loss, n_estimators=1).fit(X, y, weight)

    def test_targets_outside_the_support(self):
        y = np.arange(20.0)
        self.refused(r"strictly positive y\. y is 0\.0 in row 0", y, "log_normal")
        self.refused(r"whole numbers >= 0\. y is 0\.5 in row 0", y + 0.5, "negative_binomial")
        self.refused(r"whole numbers >= 0\. y is -1\.0 in row 0", y - 1, "negative_binomial")

    def test_several_targets(self):
        self.refused("distribution of one target", np.arange(40.0).reshape(20, 2))

    def test_line_search(self):
        self.refused("line_search=True does not go with", np.arange(20.0), line_search=True)

    def test_another_estimator_to_start_from(self):
        self.refused("init must be None or 'zero'", np.arange(20.0), init=Ridge())

    def test_goes_with_regression_by_boosting_only(self):
        y = np.arange(20) % 2
        self.refused("is a loss of regression", y, Normal(), GradientBoostingClassifier)
        self.refused("is for GradientBoostingRegressor", y, Normal(), StagewiseRegressor)

    @pytest.mark.parametrize("df", [0.0, -1.0, np.inf, np.nan, "3"])
    def test_degrees_of_freedom(self, df):
        with pytest.raises(ValueError, match="df of StudentT must be a finite number > 0"):
            StudentT(df)

    def test_distribution_of_a_model_without_one(self):
        X, y = table(Normal(), 100)
        model = GradientBoostingRegressor(n_estimators=1).fit(X, y)
        with pytest.raises(ValueError, match="predict_dist needs a loss of distributions"):
            model.predict_dist(X)

    def test_exports(self, tmp_path):
        X, y = table(Normal(), 100)
        model = GradientBoostingRegressor("normal", n_estimators=1).fit(X, y)
        with pytest.raises(ValueError, match=r"loss=Normal\(\)"):
            model.to_xgboost(tmp_path / "model.json")


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["normal", "student_t"])
@pytest.mark.parametrize("n", [300, 1500])
def test_intervals_hold_with_nothing_set(loss, n):
    """A hundred rounds cover less than half of the rows."""
    X, y = make_friedman1(2 * n, noise=1.0, random_state=0)
    rows = GradientBoostingRegressor(loss, device="cpu").fit(X[:n], y[:n]).predict_dist(X[n:])
    low, high = rows.quantile([0.05, 0.95]).T
    assert 0.8 < ((low <= y[n:]) & (y[n:] <= high)).mean() < 0.97
