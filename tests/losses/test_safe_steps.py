"""The training loss never rises, at any learning rate up to one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import log_loss

from benchmarks.common.peers import GapError
from benchmarks.common.tables import DATA, load_table
from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.devices.placement import CPU
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
from gpuens.losses.safe_steps import largest_rate, largest_step

ROUNDS = 12


def psi(u):
    return (math.expm1(u) - u) / u**2


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("growth", [1.0, 3.0])
def test_the_largest_step_passes_the_test_and_a_larger_one_does_not(rate, growth):
    step = largest_step(rate, growth)
    assert psi(growth * rate * step) <= 1.0 / rate
    assert psi(growth * rate * (step + 2.0**-9)) > 1.0 / rate


@pytest.mark.parametrize("n_classes", [3, 10, 1000])
def test_the_largest_step_of_classes(n_classes):
    factor = n_classes / (n_classes - 1)
    for rate in (0.1, 0.5, min(largest_rate(factor), 1.0)):
        step = largest_step(rate, factor=factor, outputs_together=True)
        assert psi(2.0 * rate * step) <= factor / (2.0 * rate)
        assert psi(2.0 * rate * (step + 2.0**-9)) > factor / (2.0 * rate)
    assert rate * step >= 0.499


def test_rates_above_one_have_the_limit_of_one():
    assert largest_step(7.0) == largest_step(1.0) == pytest.approx(1.793, abs=2e-3)


def losses_by_round(model, loss, X, y, weight):
    """The mean training loss before the first round, and after each."""
    forest = model.forest_
    n_outputs = forest.n_outputs
    target = y.astype(np.float64)
    raw = np.repeat(forest.base[:, None], len(y), axis=1)
    found = [loss.mean(target, raw, weight, CPU)]
    for first in range(0, forest.n_trees, n_outputs):
        forest.slice(first, first + n_outputs).add_to(raw, X)
        found.append(loss.mean(target, raw, weight, CPU))
    return np.array(found)


def table(seed, n_rows=400):
    """A table, and a score that its rows follow."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    X[:, 3] = np.round(X[:, 3])
    return rng, X, X[:, 0] * 2.0 + np.abs(X[:, 1])


def weights(rng, n_rows, orders):
    """Weights over some orders of magnitude; empty for none."""
    return 10.0 ** rng.uniform(-orders / 2, orders / 2, n_rows) if orders else np.empty(0)


SETTINGS = st.fixed_dictionaries(
    {
        "learning_rate": st.sampled_from([0.05, 0.1, 0.3, 0.7, 1.0]),
        "l2_regularization": st.sampled_from([0.0, 1e-9, 0.1]),
        "min_samples_leaf": st.sampled_from([1, 20]),
        "min_sum_hessian": st.sampled_from([0.0, 1e-9, 1e-3]),
        "max_leaf_nodes": st.sampled_from([2, 31, 200]),
    }
)
EXAMPLES = settings(max_examples=25)


def check(model, loss, X, y, weight):
    fitted = model.fit(X, y, weight if weight.size else None)
    found = losses_by_round(fitted, loss, X, y, weight)
    assert np.isfinite(found).all()
    # Gradients are float32: sums next to zero are wrong by 1e-7 of what was added up.
    room = 2e-6 * np.maximum(np.abs(found[:-1]), np.abs(found).max() * 1e-3) + 1e-300
    assert (np.diff(found) <= room).all(), found


@pytest.mark.slow
@EXAMPLES
@given(
    st.sampled_from([LogLoss(), Exponential(), Focal(), Focal(0.5)]),
    st.sampled_from([2, 20, 200, 10_000]),
    st.sampled_from([0, 12]),
    st.integers(0, 10**6),
    SETTINGS,
)
def test_two_classes(loss, rare, orders, seed, parameters):
    rng, X, score = table(seed, max(400, rare))
    noisy = score + rng.normal(size=len(score))
    y = noisy > np.quantile(noisy, 1.0 - 1.0 / rare)
    y[:2] = False, True
    weight = weights(rng, len(y), orders)
    model = GradientBoostingClassifier(loss=loss, n_estimators=ROUNDS, **parameters)
    check(model, loss.for_classes(2), X, y, weight)


@EXAMPLES
@given(
    st.sampled_from([LogLoss(), Focal()]),
    st.sampled_from([3, 7]),
    st.sampled_from([0.05, 0.5]),
    st.sampled_from([0, 12]),
    st.integers(0, 10**6),
    SETTINGS,
)
def test_several_classes(loss, n_classes, rarest, orders, seed, parameters):
    rng, X, score = table(seed)
    shares = np.geomspace(rarest, 1.0, n_classes)
    noisy = score + rng.normal(size=len(score))
    y = np.searchsorted(np.quantile(noisy, np.cumsum(shares / shares.sum())[:-1]), noisy)
    y[:n_classes] = np.arange(n_classes)
    weight = weights(rng, len(y), orders)
    model = GradientBoostingClassifier(loss=loss, n_estimators=ROUNDS, **parameters)
    check(model, loss.for_classes(n_classes), X, y, weight)


@EXAMPLES
@given(
    st.sampled_from(
        [SquaredError(), AbsoluteError(), Quantile(0.9), Poisson(), Poisson(0.7), Gamma(),
         Tweedie(1.1), Tweedie(1.9), Expectile(0.1), Expectile(0.8), Expectile(0.99)]
    ),
    st.sampled_from([1.0, 1e6]),
    st.sampled_from([0, 12]),
    st.integers(0, 10**6),
    SETTINGS,
)  # fmt: skip
def test_regression(loss, outlier, orders, seed, parameters):
    rng, X, score = table(seed)
    y = np.exp(score + rng.normal(size=len(score)))
    y[rng.random(len(y)) < 0.3] = 1e-6 if isinstance(loss, Gamma) else 0.0
    y[:3] *= outlier
    y[:3] += 1.0
    weight = weights(rng, len(y), orders)
    model = GradientBoostingRegressor(loss=loss, n_estimators=ROUNDS, **parameters)
    check(model, loss.for_targets(1), X, y, weight)


@EXAMPLES
@given(st.sampled_from([0.05, 0.5, 0.95]), st.booleans(), st.integers(0, 10**6), SETTINGS)
def test_huber(alpha, two_heaps, seed, parameters):
    """Its threshold is another one in every round: the loss of that round does not rise."""
    rng, X, score = table(seed)
    y = score + rng.standard_cauchy(len(score)) * (rng.random(len(score)) < 0.5)
    if two_heaps:  # the median is far from the best value
        y = np.where(rng.random(len(score)) < 0.51, 1.0, -0.9) + 0.01 * score
    loss, weight = Huber(alpha), np.empty(0)
    model = GradientBoostingRegressor(loss=loss, n_estimators=ROUNDS, **parameters).fit(X, y)
    forest = model.forest_
    raw = np.repeat(forest.base[:, None], len(y), axis=1)
    everything = np.empty(0, np.int64), np.empty(0, np.int32)
    for t in range(forest.n_trees):
        of_round = loss.in_round(t, y, raw, *everything, CPU)
        before = of_round.mean(y, raw, weight, CPU)
        forest.slice(t, t + 1).add_to(raw, X)
        after = of_round.mean(y, raw, weight, CPU)
        assert after <= before + 2e-6 * before


def test_expectiles_at_any_rate():
    """Newton's own step from above the target of a rare large one goes below the minimum."""
    X = np.repeat([[0.0], [1.0]], 10, axis=0)
    y = np.where(np.arange(20) % 10 == 0, 1.0, 0.0)
    for level, rate in ((0.99, 1.0), (0.01, 0.5), (0.7, 1.0)):
        loss = Expectile(level)
        assert loss.safe_rate(0.01) == 0.01 and loss.safe_rate(0.1) == 0.1
        model = GradientBoostingRegressor(
            loss, init="zero", n_estimators=30, learning_rate=rate, min_samples_leaf=1,
            l2_regularization=0.0,
        )  # fmt: skip
        check(model, loss, X, y * 2.0 - 1.5, np.empty(0))


@pytest.mark.slow
def test_a_rare_class_of_almost_certain_rows():
    """Newton's own steps diverge here: the training loss reached 18."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 20))
    noise = rng.normal(size=(3000, 7))
    shares = np.array([0.36, 0.49, 0.06, 0.005, 0.016, 0.03, 0.035])
    y = (1.5 * X[:, :7] + noise + 1.3 * np.log(shares)).argmax(axis=1)
    model = GradientBoostingClassifier(
        n_estimators=60, learning_rate=0.3, max_leaf_nodes=31, min_samples_leaf=20,
        l2_regularization=0.0, min_sum_hessian=1e-3,
    ).fit(X, y)  # fmt: skip
    found = losses_by_round(model, LogLoss().for_classes(7), X, y, np.empty(0))
    assert (np.diff(found) <= 0).all()
    assert found[-1] < 0.2


@pytest.mark.slow
def test_covertype():
    """With the classes' own shares, of which the rarest is 0.5 %, Newton's steps diverge: the log
    loss of HistGradientBoosting at these settings is 6.4, that of LightGBM 0.461."""
    try:
        table = load_table(DATA, "covtype_shares")
    except GapError as gap:
        pytest.skip(str(gap))
    X, X_test, y, y_test = table.split(0)
    model = GradientBoostingClassifier(
        n_estimators=100, learning_rate=0.1, max_leaf_nodes=31, min_samples_leaf=20,
        l2_regularization=0.0, min_sum_hessian=1e-3,
    ).fit(X, y)  # fmt: skip
    assert log_loss(y_test, model.predict_proba(X_test)) <= 1.05 * 0.461


def test_steps_that_are_safe_are_newtons():
    """The same model as without a limit, to the last bit."""
    rng, X, score = table(1)
    y = score > np.median(score)
    model = GradientBoostingClassifier(n_estimators=20, l2_regularization=0.0).fit(X, y)
    assert abs(model.forest_.value).max() < 0.1 * largest_step(0.1)
    loss = LogLoss().for_classes(2)
    unlimited = type("Unlimited", (type(loss),), {"largest_step": lambda self, rate: math.inf})
    again = GradientBoostingClassifier(
        loss=type("Named", (LogLoss,), {"for_classes": lambda self, n: unlimited()})(),
        n_estimators=20,
        l2_regularization=0.0,
    ).fit(X, y)
    assert again.forest_.fingerprint() == model.forest_.fingerprint()
