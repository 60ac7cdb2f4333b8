"""Newton steps of the nodes of a tree, and what they are computed from."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from gpuens.kernels.growth.grow import grow
from gpuens.kernels.growth.params import UNLIMITED, GrowthParams
from gpuens.kernels.leaves.newton_steps import newton_steps
from gpuens.kernels.runtime.dtypes import Scales, Totals
from gpuens.kernels.scalars.losses import SquaredError
from gpuens.kernels.statistics.gradients import gradients
from gpuens.kernels.statistics.quantise import quantise
from gpuens.kernels.statistics.scaling import fixed_point_scales, scales_for

NONE, ALL = np.zeros(0), np.zeros(0, np.int32)
N_BINS = np.array([20, 5], np.int32)


def params(max_depth):
    return GrowthParams(
        max_leaves=UNLIMITED, max_depth=max_depth, min_samples_leaf=3, min_sum_hessian=1e-3,
        l2=0.0, min_gain=0.0, colsample_bytree=1.0, colsample_bylevel=1.0, colsample_bynode=1.0,
    )  # fmt: skip


def data(n):
    rng = np.random.default_rng(7)
    codes = np.stack([rng.integers(0, k, n) for k in N_BINS]).astype(np.uint8)
    return codes, codes[0] * 0.3 + rng.normal(size=n), rng.random(n) + 0.5


def stepped(target, codes, y, weight, rows, depth=2, l2=0.5, least_h=1e-3, n_trees=2):
    """Gradients, trees of these, and the values of the last tree's nodes."""
    g, h = (target.array(np.empty(y.size, np.float32)) for _ in range(2))
    raw = target.array(np.zeros(y.size))
    none = target.array(NONE)
    weight = target.array(weight)
    totals = target.run(gradients, SquaredError(), target.array(y), raw, none, weight, g, h)
    scales = scales_for(totals, y.size)
    records = [
        target.run(quantise, g, h, target.array(rows), key, scales) for key in range(n_trees)
    ]
    keys = np.arange(n_trees, dtype=np.uint64)
    trees = target.run(grow, target.codes(codes), N_BINS, records, keys, params(depth))
    args = (trees, n_trees - 1, g, h, totals, l2, least_h)
    return totals, trees, target.run(newton_steps, *args), target.host(g), target.host(h)


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("depth", [0, 3])
def test_parity(target, oracle, same, depth, sampled):
    n = target.rows(3000, 300)
    codes, y, weight = data(n)
    rows = np.arange(0, n, 2, dtype=np.int32) if sampled else ALL
    *_, actual, _, _ = stepped(target, codes, y, weight, rows, depth)
    *_, expected, _, _ = stepped(oracle, codes, y, weight, rows, depth)
    same(actual.value, expected.value)
    same(actual.hessian, expected.hessian)


def test_against_exact_sums(oracle):
    codes, y, weight = data(400)
    _, trees, steps, g, h = stepped(oracle, codes, y, weight, ALL, l2=0.25)
    leaf = trees.leaf[1]
    for node in np.unique(leaf):
        sums = [sum(map(Fraction, values[leaf == node].tolist())) for values in (g, h)]
        assert steps.hessian[node] == pytest.approx(float(sums[1]), rel=1e-12)
        assert steps.value[node] == pytest.approx(float(-sums[0] / (sums[1] + Fraction(1, 4))))
    root = [sum(map(Fraction, values.tolist())) for values in (g, h)]
    assert steps.hessian[0] == pytest.approx(float(root[1]), rel=1e-12)


def test_hessians_count_at_least_the_minimum(target):
    codes, y, weight = data(target.rows(100, 100))
    _, _, steps, g, h = stepped(target, codes, y, weight, ALL, depth=0, l2=0.0, least_h=1e4)
    assert steps.value[0] == pytest.approx(-float(g.sum(dtype=np.float64)) / 1e4, rel=1e-6)
    assert steps.hessian[0] < 1e3


@pytest.mark.parametrize("magnitude", [0.0, 1e-30, 1.0, 3e18])
def test_scales_of_the_implementations_agree(target, magnitude):
    """Those that a GPU computes for itself, and those of the host from the same totals."""
    n = 77
    y = np.linspace(-1.0, 0.3, n) * magnitude
    g, h = (target.array(np.empty(n, np.float32)) for _ in range(2))
    args = (target.array(a) for a in (y, np.zeros(n), NONE, NONE))
    totals = target.run(gradients, SquaredError(), *args, g, h)
    known = Totals(totals.max_g, totals.sum_g, totals.max_h, totals.sum_h)
    assert tuple(totals) == tuple(known)
    for find in (scales_for, fixed_point_scales):
        found, expected = find(totals, n), find(known, n)
        assert type(expected) is Scales
        assert (found.g, found.h) == (expected.g, expected.h)
        assert math.frexp(found.g)[0] == 0.5
