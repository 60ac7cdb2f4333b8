"""Survival analysis: running sums, and times within bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from gpuens.kernels.scalars.primitives import vectorise
from gpuens.kernels.scalars.survival import UNBOUNDED, mills
from gpuens.kernels.survival.intervals import (
    EXTREME,
    LOGISTIC,
    NORMAL,
    interval_gradients,
    interval_values,
)
from gpuens.kernels.survival.running_sums import BLOCK, running_sums

DISTRIBUTIONS = {
    "normal": (NORMAL, stats.norm),
    "logistic": (LOGISTIC, stats.logistic),
    "extreme": (EXTREME, stats.gumbel_l),
}
distributions = pytest.mark.parametrize("number, known", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS)
INVERSE = 1.0 / 0.7


@pytest.mark.parametrize("n", [1, 2, BLOCK, BLOCK + 1, 3 * BLOCK, BLOCK * BLOCK + 5])
def test_parity_of_running_sums(target, oracle, same, n):
    n = target.rows(n, simulated=BLOCK + 40)
    values = np.random.default_rng(n).lognormal(0.0, 20.0, n)
    expected = oracle.host(oracle.run(running_sums, oracle.array(values)))
    same(target.host(target.run(running_sums, target.array(values))), expected)
    np.testing.assert_allclose(expected, np.cumsum(values), rtol=1e-12)


def bounds() -> np.ndarray:
    """Lower and upper bounds and scores, float64 of shape (3, n): all kinds of censoring, narrow
    and wide intervals, near and far from the score."""
    middle = np.repeat([-3.0, -0.4, 0.0, 0.9, 3.5], 8)
    width = np.tile([0.0, 1e-9, 1e-4, 0.1, 2.0, 9.0, np.inf, -np.inf], 5)
    lower = np.where(width == -np.inf, -UNBOUNDED, middle)
    upper = np.where(width == np.inf, UNBOUNDED, middle + np.where(np.isinf(width), 0.0, width))
    score = np.repeat([0.0, 0.7, -2.0, 40.0, -40.0, 1e8], lower.size)
    return np.stack([np.tile(lower, 6), np.tile(upper, 6), score])


@distributions
def test_parity_of_intervals(target, oracle, same, number, known):
    rows = bounds()[:, :64] if target.simulated else bounds()
    for op in (interval_gradients, interval_values):
        found, expected = (
            at.host(at.run(op, *map(at.array, rows), INVERSE, number)) for at in (target, oracle)
        )
        same(found, expected)
        assert np.isfinite(expected).all()
        if op is interval_gradients:
            assert (expected[1] >= 0.0).all()


def near() -> np.ndarray:
    rows = bounds()
    return rows[:, np.abs(rows[2]) < 3.0]


@distributions
def test_values_are_those_of_scipy(oracle, number, known):
    lower, upper, score = near()
    found = oracle.run(interval_values, lower, upper, score, INVERSE, number)
    low, high = (lower - score) * INVERSE, (upper - score) * INVERSE
    observed = lower == upper
    expected = -known.logpdf(low) - np.log(INVERSE)
    np.testing.assert_allclose(found[observed], expected[observed], rtol=1e-12, atol=1e-14)
    wide = upper - lower > 1e-5
    # From the side on which both probabilities are small, where their difference is exact.
    with np.errstate(over="ignore"):
        upwards, downwards = known.sf(low) - known.sf(high), known.cdf(high) - known.cdf(low)
    share = np.where(low + high > 0, upwards, downwards)
    wide &= share > 0.0
    np.testing.assert_allclose(found[wide], -np.log(share[wide]), rtol=2e-6, atol=1e-9)


@distributions
def test_gradients_are_derivatives_of_the_values(oracle, number, known):
    lower, upper, score = near()
    g, h = oracle.run(interval_gradients, lower, upper, score, INVERSE, number)
    step = 1e-5
    up, down = (
        oracle.run(interval_values, lower, upper, score + move, INVERSE, number)
        for move in (step, -step)
    )
    smooth = (upper - lower > 1e-3) | (lower == upper)  # values of narrow ones have few digits
    slope = (up - down) / (2 * step)
    np.testing.assert_allclose(g[smooth], slope[smooth], rtol=1e-6, atol=1e-7)
    above, below = (
        oracle.run(interval_gradients, lower, upper, score + move, INVERSE, number)[0]
        for move in (step, -step)
    )
    bend = (above - below) / (2 * step)
    least = {NORMAL: 0.5, LOGISTIC: 0.0, EXTREME: 0.21}[number] * INVERSE**2
    own = h  # the rate at the lower bound is added to the least hessian of "extreme"
    if number == EXTREME:
        own = h - np.where(lower > -UNBOUNDED, np.exp((lower - score) * INVERSE), 0.0) * INVERSE**2
    floored = abs(own - least) <= 1e-9
    exact = smooth & ~floored
    np.testing.assert_allclose(h[exact], bend[exact], rtol=1e-5, atol=1e-6)
    assert (h[smooth] >= bend[smooth] - 1e-5).all()


def test_the_ratio_of_mills():
    x = np.concatenate([[0.0], np.geomspace(1e-9, 30.0, 200)])
    expected = np.sqrt(np.pi / 2.0) * special.erfcx(x / np.sqrt(2.0))
    np.testing.assert_allclose(vectorise(mills)(x), expected, rtol=2e-15)
    far = np.array([1e3, 1e8, 1e30])
    np.testing.assert_allclose(vectorise(mills)(far), (1.0 - 1.0 / far**2) / far, rtol=1e-11)


def test_half_of_the_largest_curvature():
    """The least hessians are half of the largest curvature of each censored distribution."""
    x: Any = np.linspace(-3.0, 5.0, 20001)
    d = np.exp(x)
    r = d / np.expm1(d)
    assert 0.205 < (r * (d + r - 1.0)).max() / 2.0 <= 0.21
