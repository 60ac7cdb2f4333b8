"""Exact sums in leaves, and Newton steps from them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuens.kernels.growth.grow import grow
from gpuens.kernels.growth.params import UNLIMITED, GrowthParams
from gpuens.kernels.leaves.newton_steps import leaf_sums, newton_steps
from gpuens.kernels.runtime.dtypes import Scales, Totals
from gpuens.kernels.scalars.losses import SquaredError
from gpuens.kernels.statistics.gradients import gradients, gradients_of_outputs
from gpuens.kernels.statistics.quantise import fixed_point_scales, quantise, scales_for


def measured(g, h):
    return Totals(float(np.max(np.abs(g))), math.nan, float(np.max(h)), math.nan)


def run(target, leaf, g, h, scales, n_nodes):
    return target.run(
        leaf_sums, target.array(leaf), target.array(g), target.array(h), scales, n_nodes
    )


def rows(n, n_nodes, seed=0):
    rng = np.random.default_rng(seed)
    leaf = rng.integers(-2, n_nodes, n).astype(np.int32)
    leaf[leaf == n_nodes // 2] = 0
    g = (rng.normal(size=n) * 10.0 ** rng.integers(-30, 30, n)).astype(np.float32)
    return leaf, g, np.abs(g[::-1]).copy()


@pytest.mark.parametrize("n_nodes", [1, 2, 61, 1000, 1500])
@pytest.mark.parametrize("n", [1, 1025, 50_000])
def test_parity_of_sums(target, oracle, same, n, n_nodes):
    leaf, g, h = rows(target.rows(n), n_nodes)
    scales = fixed_point_scales(measured(g, h), len(g))
    expected = run(oracle, leaf, g, h, scales, n_nodes)
    for own in target.leaves(leaf):
        args = own, target.array(g), target.array(h), scales, n_nodes
        same(target.run(leaf_sums, *args), expected)


@pytest.mark.parametrize("magnitude", [1e-45, 1e-38, 3.4e38])
def test_parity_at_the_ends_of_float32(target, oracle, same, magnitude):
    g = np.array([-magnitude, magnitude, magnitude / 3, 0.0, -0.0], np.float32)
    leaf = np.array([0, 1, 1, -1, 0], np.int32)
    args = leaf, g, np.abs(g), fixed_point_scales(measured(g, np.abs(g)), 5), 3
    expected = run(oracle, *args)
    same(run(target, *args), expected)
    assert expected[0, 0] <= -(2**48) and expected[1, 0] >= 2**48


def test_against_plain_python(oracle):
    leaf, g, h = rows(300, 9)
    scales = Scales(2.0**7, 2.0**-3)
    g, h = np.clip(g, -1e6, 1e6), np.clip(h, 0, 1e6)
    expected = np.zeros((9, 2), np.int64)
    for node, *values in zip(leaf, g, h, strict=True):
        if node >= 0:
            for k in range(2):
                expected[node, k] += math.floor(float(values[k]) * scales[k] + 0.5)
    np.testing.assert_array_equal(run(oracle, leaf, g, h, scales, 9), expected)


@given(st.integers(1, 200), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_order_of_the_rows_does_not_matter_and_leaves_add_up(oracle, n, n_nodes, seed):
    leaf, g, h = rows(n, n_nodes, seed)
    scales = fixed_point_scales(measured(g, h), n)
    sums = run(oracle, leaf, g, h, scales, n_nodes)
    order = np.random.default_rng(seed).permutation(n)
    shuffled = run(oracle, leaf[order], g[order], h[order], scales, n_nodes)
    np.testing.assert_array_equal(sums, shuffled)
    one_leaf = run(oracle, np.where(leaf < 0, -1, 0).astype(np.int32), g, h, scales, 1)
    np.testing.assert_array_equal(sums.sum(axis=0), one_leaf[0])


@given(st.floats(1e-300, 1e300), st.integers(1, 2**31 - 1))
@example(1e-300, 1)
@example(1e300, 1)
@example(float(np.nextafter(1.0, 0.0)), 4096)
@example(1e300, 2**31 - 1)
def test_scales_hold_their_bounds(largest, n):
    for scale in fixed_point_scales(Totals(largest, 0.0, largest, 0.0), n):
        assert math.frexp(scale)[0] == 0.5
        assert largest * scale < 2.0**50
        assert largest * scale * n <= 2.0**62
        assert largest * scale >= 2.0**29 or scale == 2.0**1000


def test_scale_of_nothing_is_one():
    assert fixed_point_scales(Totals(0.0, 0.0, 0.0, 0.0), 10) == (1.0, 1.0)


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


def stepped(target, codes, y, weight, rows, depth=2, l2=0.5, least_h=1e-3, n_trees=2, n_lines=None):
    """Gradients, trees of the first lines of these, and the values of their nodes."""
    n_lines = n_lines or n_trees
    g, h = (target.array(np.empty((n_lines, y.size), np.float32)) for _ in range(2))
    raw = target.array(np.zeros((n_lines, y.size)))
    none = target.array(NONE)
    targets = target.array(np.stack([y * (1.0 + k) for k in range(n_lines)]))
    of_rows = targets, raw, none, target.array(weight), g, h
    totals = target.run(gradients_of_outputs, SquaredError(), *of_rows)
    scales = [scales_for(own, y.size) for own in totals[:n_trees]]
    of_trees = g[:n_trees, ...], h[:n_trees, ...]
    records = target.run(quantise, *of_trees, target.array(rows), 3, 0, scales)
    keys = np.arange(n_trees, dtype=np.uint64)
    trees = target.run(grow, target.codes(codes), N_BINS, records, keys, params(depth))
    steps = target.run(newton_steps, trees, g, h, totals, l2, least_h)
    return trees, steps, target.host(g), target.host(h)


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("depth", [0, 3])
def test_parity(target, oracle, same, depth, sampled):
    n = target.rows(3000, 300)
    codes, y, weight = data(n)
    rows = np.arange(0, n, 2, dtype=np.int32) if sampled else ALL
    _, actual, _, _ = stepped(target, codes, y, weight, rows, depth)
    _, expected, _, _ = stepped(oracle, codes, y, weight, rows, depth)
    for found, wanted in zip(actual, expected, strict=True):
        same(found.value, wanted.value)
        same(found.hessian, wanted.hessian)


@pytest.mark.parametrize("depth", [0, 3])
def test_several_outputs_of_one_tree(target, oracle, same, depth):
    codes, y, weight = data(target.rows(3000, 300))
    how = {"depth": depth, "n_trees": 1, "n_lines": 3}
    _, actual, _, _ = stepped(target, codes, y, weight, ALL, **how)
    trees, expected, g, h = stepped(oracle, codes, y, weight, ALL, **how)
    assert len(actual) == len(expected) == 3
    for line, (found, wanted) in enumerate(zip(actual, expected, strict=True)):
        same(found.value, wanted.value)
        same(found.hessian, wanted.hessian)
        for node in np.unique(trees.leaf[0]):
            rows = trees.leaf[0] == node
            assert found.hessian[node] == pytest.approx(h[line, rows].sum(dtype=float), rel=1e-9)
            value = -g[line, rows].sum(dtype=float) / (found.hessian[node] + 0.5)
            assert found.value[node] == pytest.approx(value, abs=1e-6)


def test_against_exact_sums(oracle):
    codes, y, weight = data(400)
    trees, (_, steps), (_, g), (_, h) = stepped(oracle, codes, y, weight, ALL, l2=0.25)
    leaf = trees.leaf[1]
    for node in np.unique(leaf):
        sums = [sum(map(Fraction, values[leaf == node].tolist())) for values in (g, h)]
        assert steps.hessian[node] == pytest.approx(float(sums[1]), rel=1e-12)
        assert steps.value[node] == pytest.approx(float(-sums[0] / (sums[1] + Fraction(1, 4))))
    root = [sum(map(Fraction, values.tolist())) for values in (g, h)]
    assert steps.hessian[0] == pytest.approx(float(root[1]), rel=1e-12)


def test_hessians_count_at_least_the_minimum(target):
    codes, y, weight = data(target.rows(100, 100))
    how = {"depth": 0, "l2": 0.0, "least_h": 1e4, "n_trees": 1}
    _, (steps,), g, h = stepped(target, codes, y, weight, ALL, **how)
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
