"""Binning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gpuens.kernels.binning.bin_values import bin_values
from gpuens.kernels.runtime.arrays import LINE_BYTES
from gpuens.kernels.runtime.dtypes import MAX_BINS, MISSING


def cuts(columns: list[Any], dtype: Any) -> np.ndarray:
    """Thresholds of features, padded."""
    table = np.full((len(columns), MAX_BINS), np.inf, dtype)
    for row, column in zip(table, columns, strict=True):
        row[: len(column)] = np.sort(np.asarray(column, dtype))
    return table


def awkward_table(n: int, dtype: Any, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Columns with one bin, 255 bins, few bins, only missing values, and the float limits."""
    rng = np.random.default_rng(seed)
    limits = np.finfo(dtype)
    many = rng.normal(size=254)
    extreme = [-np.inf, limits.min, -limits.tiny, 0.0, limits.smallest_subnormal, limits.max]
    thresholds = cuts([[], many, [-1.0, 0.0, 1.0], many[:17], extreme], dtype)
    X = rng.normal(size=(n, 5)).astype(dtype)
    X[rng.random((n, 5)) < 0.1] = np.nan
    X[:, 3] = np.nan
    at = rng.choice(thresholds[1, :254], n)
    X[::3, 1] = np.nextafter(at, rng.choice([-np.inf, 0, np.inf], n).astype(dtype))[::3]
    X[::4, 1] = at[::4]
    X[:, 4] = rng.choice([*extreme, -0.0, np.inf, np.nan, -1.0, 1.0], n)
    return X, thresholds


LAYOUTS = {
    "rows": lambda a: a,
    "some columns": lambda a: a[:, :5],
    "reversed": lambda a: a[::-1, 4::-1],
    "columns": lambda a: a.T.copy().T[:, :5] if hasattr(a, "copy") else a[:, :5],
    "gaps": lambda a: a[::2, ::2],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n", [1, 1030])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parity(target, oracle, same, dtype, n, layout):
    X, thresholds = awkward_table(target.rows(n), dtype)
    X = np.concatenate([X, X[:, ::-1]], axis=1)
    thresholds = np.concatenate([thresholds, thresholds[::-1]])
    features = LAYOUTS[layout](np.arange(10)[None, :])[0]

    def run(t):
        return t.run(bin_values, t.view(t.array(X), LAYOUTS[layout]), thresholds[features].copy())

    actual, expected = run(target), run(oracle)
    same(target.host(actual.rows), expected.rows)
    same(target.host(actual.columns), expected.columns)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_code_is_the_number_of_smaller_thresholds(oracle, dtype):
    X, thresholds = awkward_table(2000, dtype)
    codes = oracle.run(bin_values, X, thresholds)
    below = np.sum(thresholds[None] < X[:, :, None], axis=2)
    np.testing.assert_array_equal(codes.columns.T, np.where(np.isnan(X), MISSING, below))


def test_both_copies_hold_the_same_and_the_padding_is_zero(oracle):
    X, thresholds = awkward_table(100, np.float64)
    codes = oracle.run(bin_values, X, thresholds)
    assert codes.rows.shape == (100, 8)
    np.testing.assert_array_equal(codes.rows[:, :5], codes.columns.T)
    assert not codes.rows[:, 5:].any()


@given(
    hnp.arrays(np.float32, 20, elements=st.floats(width=32, allow_nan=False)),
    hnp.arrays(np.float32, st.integers(0, 254), elements=st.floats(width=32, allow_nan=False)),
)
def test_bins_keep_the_order_and_route_like_the_threshold(oracle, values, thresholds):
    table = cuts([thresholds], np.float32)
    codes = oracle.run(bin_values, values[:, None], table).columns[0]
    assert np.all(np.diff(codes[np.argsort(values)].astype(int)) >= 0)
    for bin_, threshold in enumerate(table[0, : len(thresholds)]):
        np.testing.assert_array_equal(codes <= bin_, values <= threshold)


@pytest.mark.parametrize("shape", [(7, 5), (200_000, 28)])
def test_rows_on_the_cpu_begin_on_a_cache_line(shape):
    """Otherwise every other row of 32 bytes takes two lines from memory."""
    X = np.zeros(shape, np.float32)
    codes = bin_values(X, cuts([[]] * shape[1], np.float32))
    assert codes.rows.ctypes.data % LINE_BYTES == 0
