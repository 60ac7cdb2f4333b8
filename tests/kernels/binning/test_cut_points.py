"""Sorting, and where features are cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuens.kernels.binning.cut_points import BINS_OF_A_GAP, cut_points, sort_rows


def values_of_all_kinds(n, dtype, seed=0):
    """Rows of a table: continuous, few values, powers, one value of most rows, equal values, zeros
    of both signs and infinities, few known values, none."""
    rng = np.random.default_rng(seed)
    table = np.empty((8, n))
    table[0] = rng.normal(size=n)
    table[1] = rng.integers(-100, 100, n) / 4
    table[2] = rng.choice([-1, 1], n) * 2.0 ** rng.uniform(-120, 120, n)
    table[3] = np.where(rng.random(n) < 0.7, 3.0, rng.normal(size=n))
    table[4] = 7.0
    table[5] = rng.choice([-np.inf, np.inf, 0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38, 1.0], n)
    table[6] = np.where(np.arange(n) % 100 == 1, rng.normal(size=n), np.nan)
    table[7] = np.copysign(np.nan, rng.choice([-1, 1], n))
    table[0, ::9] = np.nan
    return table.astype(dtype)


@pytest.mark.parametrize("n", [1, 900, 2500])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sorting(target, dtype, n):
    table = values_of_all_kinds(n, dtype)
    ordered = target.host(target.run(sort_rows, target.array(table)))
    assert ordered.dtype == dtype
    np.testing.assert_array_equal(ordered, np.sort(table, axis=1))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [1, 300, 2500])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parity(target, oracle, same, dtype, n, weighted):
    ordered = np.sort(values_of_all_kinds(n, dtype), axis=1)
    weight = np.random.default_rng(1).integers(1, 2**20, ordered.shape).astype(float)
    weight[:, ::50] *= 2**20
    weight = weight if weighted else np.empty((0, 0))

    def run(t, max_bins):
        return t.run(cut_points, t.array(ordered), t.array(weight), max_bins)

    for max_bins in (2, 3, 16, 17, 64, 255):
        for own, expected in zip(run(target, max_bins), run(oracle, max_bins), strict=True):
            same(own, expected)


@given(
    st.lists(st.sampled_from([1, 2, 3, 50, 400]), min_size=1, max_size=60),
    st.lists(st.floats(0.001, 1e9), min_size=60, max_size=60),
    st.integers(2, 40),
)
def test_bins_of_a_few_values(oracle, mass, gaps, max_bins):
    """They are as many as may be, and where values are heavy, those have bins of their own."""
    distinct = np.cumsum(gaps[: len(mass)])
    (cuts,) = oracle.run(cut_points, np.repeat(distinct, mass)[None], np.empty((0, 0)), max_bins)
    assert cuts.size < max_bins and (np.diff(cuts) > 0).all()
    bins = np.searchsorted(cuts, distinct)
    if distinct.size <= max_bins:
        assert cuts.size == distinct.size - 1
    elif max_bins < BINS_OF_A_GAP:
        heavy = np.flatnonzero(np.array(mass) >= sum(mass) / max_bins)
        if 2 * heavy.size + 1 <= max_bins:
            assert (np.bincount(bins)[bins[heavy]] == 1).all()
