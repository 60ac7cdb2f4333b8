"""Leaf statistics in fixed point."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuens.kernels.leaves.leaf_sums import leaf_sums
from gpuens.kernels.runtime.dtypes import Scales, Totals
from gpuens.kernels.statistics.scaling import fixed_point_scales


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


@pytest.mark.parametrize("n_nodes", [1, 2, 61, 1000])
@pytest.mark.parametrize("n", [1, 1025, 50_000])
def test_parity(target, oracle, same, n, n_nodes):
    leaf, g, h = rows(target.rows(n), n_nodes)
    scales = fixed_point_scales(measured(g, h), len(g))
    args = leaf, g, h, scales, n_nodes
    same(run(target, *args), run(oracle, *args))


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
