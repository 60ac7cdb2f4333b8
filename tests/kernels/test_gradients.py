"""Gradients, hessians and their order-fixed sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuens.kernels.dtypes import SUM_CHUNK
from gpuens.kernels.gradients import gradients
from gpuens.kernels.log_sum_exp import log_sum_exp
from gpuens.kernels.scalars.losses import (
    LOSSES,
    BinomialLogLoss,
    MultinomialLogLoss,
    SquaredError,
)
from gpuens.kernels.scalars.primitives import vectorise

LOSS_OBJECTS = [SquaredError(), BinomialLogLoss(), MultinomialLogLoss(1.5)]
NONE = np.zeros(0)


def inputs(loss, n, seed=0):
    rng = np.random.default_rng(seed)
    y, raw, shift = rng.normal(size=n) * 3, rng.normal(size=n) * 5, rng.normal(size=n)
    if not isinstance(loss, SquaredError):
        y = (y > 0).astype(np.float64)
    if isinstance(loss, MultinomialLogLoss):
        raw, shift = -np.abs(raw), np.abs(shift)
    weight = rng.choice([0.0, 0.1, 1.0, 3.0], n)
    return y, raw, shift, weight


def run(target, loss, y, raw, shift, weight):
    n = raw.shape[0]
    g, h = (target.array(np.full(n, np.nan, np.float32)) for _ in range(2))
    arrays = (target.array(a) for a in (y, raw, shift, weight))
    totals = target.run(gradients, loss, *arrays, g, h)
    return target.host(g), target.host(h), totals


@pytest.mark.parametrize("n", [1, 2, SUM_CHUNK - 1, SUM_CHUNK, 5 * SUM_CHUNK + 7])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("loss", LOSS_OBJECTS, ids=lambda loss: type(loss).__name__)
def test_parity(target, oracle, same, loss, shifted, weighted, n):
    y, raw, shift, weight = inputs(loss, target.rows(n, simulated=SUM_CHUNK + 7))
    args = loss, y, raw, shift if shifted else NONE, weight if weighted else NONE
    actual, expected = run(target, *args), run(oracle, *args)
    same(actual[0], expected[0])
    same(actual[1], expected[1])
    assert actual[2] == expected[2]
    assert all(type(total) is float for total in actual[2])


@pytest.mark.parametrize("loss", LOSS_OBJECTS[1:], ids=lambda loss: type(loss).__name__)
def test_parity_where_the_exponential_is_clipped(target, oracle, same, loss):
    raw = np.array([-1e300, -745.0, -708.0, -40.0, -0.0, 0.0, 1e-300, 20.0, 1e300])
    if isinstance(loss, MultinomialLogLoss):
        raw = np.minimum(raw, 0.0)
    y = np.arange(len(raw)) % 2.0
    actual = run(target, loss, y, raw, NONE, NONE)
    expected = run(oracle, loss, y, raw, NONE, NONE)
    same(actual[0], expected[0])
    same(actual[1], expected[1])
    assert np.all(np.isfinite(expected[0])) and np.all(expected[1] >= 0)


def test_measures_are_the_largest_and_the_sum_in_the_stated_order(oracle):
    args = inputs(SquaredError(), 3 * SUM_CHUNK + 11)
    g, h, totals = run(oracle, SquaredError(), *args)

    def halve(values):
        while len(values) > 1:
            half = len(values) // 2
            values = [a + b for a, b in zip(values[:half], values[half:], strict=True)]
        return values[0]

    for values, largest, total in ((np.abs(g), *totals[:2]), (h, *totals[2:])):
        values = [float(v) for v in values] + [0.0] * (SUM_CHUNK - 11)
        chunks = [halve(values[i : i + SUM_CHUNK]) for i in range(0, len(values), SUM_CHUNK)]
        assert total == halve(chunks) == pytest.approx(math.fsum(values), rel=1e-14)
        assert largest == max(values)


def test_zero_weights_measure_zero(oracle):
    y, raw, _, _ = inputs(BinomialLogLoss(), 10)
    g, h, totals = run(oracle, BinomialLogLoss(), y, raw, NONE, np.zeros(10))
    assert not g.any() and not h.any() and totals == (0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("loss", LOSS_OBJECTS[:2], ids=lambda loss: type(loss).__name__)
@given(f=st.floats(-30, 30), y=st.sampled_from([0.0, 1.0]))
def test_gradient_and_hessian_are_derivatives(loss, f, y):
    value, gradient = (vectorise(formula) for formula in LOSSES[type(loss)])
    step = 1e-4
    at = np.array([f - step, f, f + step])
    values = value(y, at, loss.parameter)
    slopes, curvatures = gradient(y, at, loss.parameter)
    assert (values[2] - values[0]) / (2 * step) == pytest.approx(slopes[1], abs=1e-7)
    curvature = np.broadcast_to(curvatures, 3)[1]
    assert (slopes[2] - slopes[0]) / (2 * step) == pytest.approx(curvature, abs=1e-7)


@given(st.lists(st.floats(-20, 20), min_size=2, max_size=5), st.data())
def test_multinomial_derivatives_through_the_normaliser(oracle, scores, data):
    k = data.draw(st.integers(0, len(scores) - 1))
    of = data.draw(st.integers(0, len(scores) - 1))
    loss = MultinomialLogLoss(len(scores) / (len(scores) - 1))
    value, gradient = (vectorise(formula) for formula in LOSSES[MultinomialLogLoss])
    step = 1e-4
    raw = np.tile(np.array(scores)[:, None], 3)
    raw[of] += [-step, 0.0, step]
    f = raw - oracle.run(log_sum_exp, raw)
    slopes, curvatures = gradient(float(k == of), f[of], loss.parameter)
    values = value(1.0, f[k], loss.parameter)
    assert (values[2] - values[0]) / (2 * step) == pytest.approx(slopes[1], abs=1e-7)
    numeric = loss.parameter * (slopes[2] - slopes[0]) / (2 * step)
    assert numeric == pytest.approx(curvatures[1], abs=1e-7)
