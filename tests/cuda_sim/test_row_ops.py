"""Operations that treat every row for itself."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.binning.cuda.bin_values import bin_values
from gpuens.kernels.prediction.cuda.probabilities import log_sum_exp
from gpuens.kernels.runtime.dtypes import MISSING, NodeValues, Scales
from gpuens.kernels.scalars import elementary, losses
from gpuens.kernels.scalars.losses import BinomialLogLoss, MultinomialLogLoss, SquaredError
from gpuens.kernels.statistics.cuda.add_leaf_values import add_leaf_values
from gpuens.kernels.statistics.cuda.gradients import gradients
from gpuens.kernels.statistics.cuda.quantise import quantise

EMPTY = np.empty(0)
EMPTY_ROWS = np.empty(0, np.int32)


def test_add_leaf_values(rng):
    raw, values = rng.normal(size=77), rng.normal(size=5)
    leaf = rng.integers(0, 5, 77).astype(np.int32)
    expected = raw + 0.1 * values[leaf]
    add_leaf_values(raw, leaf, NodeValues(values, values), 0.1)
    np.testing.assert_array_equal(raw, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_bin_values(rng, dtype, order):
    n_features = 10
    thresholds = np.full((n_features, 255), np.inf, dtype)
    for f, n_cuts in enumerate([0, 1, 2, 254, 7, 100, 3, 9, 200, 5]):
        thresholds[f, :n_cuts] = np.sort(rng.choice(2000, n_cuts, replace=False) - 1000) / 7
    X = (rng.integers(-1100, 1100, (60, n_features)) / 7).astype(dtype, order=order)
    X[0] = np.nan
    X[1] = np.inf
    X[2] = -np.inf
    X[3:9] = thresholds[:, :6].T  # a value on a threshold is not above it

    codes = bin_values(X, thresholds)

    expected = (thresholds[None] < X[:, :, None]).sum(axis=2).astype(np.uint8)
    expected[np.isnan(X)] = MISSING
    assert codes.rows.dtype == codes.columns.dtype == np.uint8
    assert codes.rows.shape == (60, 16)
    np.testing.assert_array_equal(codes.rows[:, :n_features], expected)
    np.testing.assert_array_equal(codes.rows[:, n_features:], 0)
    np.testing.assert_array_equal(codes.columns, expected.T)


def test_log_sum_exp(rng):
    raw = rng.normal(scale=30, size=(3, 70))

    out = log_sum_exp(raw)

    for i, column in enumerate(raw.T):
        largest = column.max()
        terms = [elementary.exp(x - largest) for x in column]
        assert out[i] == largest + elementary.log(terms[0] + terms[1] + terms[2])
    np.testing.assert_allclose(out, np.logaddexp.reduce(raw, axis=0), rtol=1e-14)


def lowbias32(key, counter):
    """``rng.draw`` written with Python's integers."""
    x = (counter * 0x9E3779B9 + key) % 2**32
    x = (x ^ x >> 16) * 0x21F0AAAD % 2**32 ^ key
    x = (x ^ x >> 15) * 0xD35A2D97 % 2**32
    return x ^ x >> 15


@pytest.mark.parametrize("sampled", [False, True])
def test_quantise(rng, sampled):
    n = 90
    g = rng.normal(size=n).astype(np.float32)
    h = rng.random(n).astype(np.float32)
    g[5], h[6] = 0, 0
    rows = np.sort(rng.permutation(n)[:40]).astype(np.int32) if sampled else EMPTY_ROWS
    scales, key = Scales(2.0**12, 2.0**15), 3_000_000_019

    made = quantise(g, h, rows, key, scales)

    assert made.words.dtype == np.uint64
    expected = []
    for row in rows.tolist() if sampled else range(n):
        bits = lowbias32(key, row)
        g_int = np.floor(float(g[row]) * scales.g + ((bits & 0xFFFF) + 0.5) / 65536)
        h_int = np.floor(float(h[row]) * scales.h + ((bits >> 16) + 0.5) / 65536)
        expected.append((int(g_int) % 2**16) << 48 | int(h_int) << 32 | row)
    assert made.words.tolist() == expected
    signed = made.words.astype(np.int64)
    assert made.sums.tolist() == [(signed >> 48).sum(), ((signed >> 32) & 0xFFFF).sum()]


def total_in_fixed_order(values):
    """The order of the contract, in Python floats."""
    values = [float(v) for v in values]
    values += [0.0] * (-len(values) % 1024)
    chunks = [halved(values[i : i + 1024]) for i in range(0, len(values), 1024)]
    while len(chunks) & (len(chunks) - 1):
        chunks.append(0.0)
    return halved(chunks)


def halved(values):
    while len(values) > 1:
        half = len(values) // 2
        values = [a + b for a, b in zip(values[:half], values[half:], strict=True)]
    return values[0]


@pytest.mark.parametrize(
    ("loss", "n", "shifted", "weighted"),
    [
        (SquaredError(), 33, False, False),
        (SquaredError(), 2500, True, True),
        (BinomialLogLoss(), 1024, False, True),
        (MultinomialLogLoss(1.5), 1100, True, False),
    ],
)
def test_gradients(rng, loss, n, shifted, weighted):
    y = rng.integers(0, 2, n).astype(np.float64)
    raw = rng.normal(size=n)
    shift = rng.normal(size=n) if shifted else EMPTY
    weight = rng.random(n) if weighted else EMPTY
    g, h = np.empty(n, np.float32), np.empty(n, np.float32)

    totals = gradients(loss, y, raw, shift, weight, g, h)

    formula = losses.LOSSES[type(loss)].gradient
    f = raw - shift if shifted else raw
    rows = [formula(a, b, loss.parameter) for a, b in zip(y, f, strict=True)]
    expected = np.array(rows) * (weight[:, None] if weighted else 1.0)
    np.testing.assert_array_equal(g, expected[:, 0].astype(np.float32))
    np.testing.assert_array_equal(h, expected[:, 1].astype(np.float32))
    assert totals.max_g == np.abs(g).max()
    assert totals.max_h == h.max()
    assert totals.sum_g == total_in_fixed_order(np.abs(g))
    assert totals.sum_h == total_in_fixed_order(h)
    assert all(type(field) is float for field in totals)
    assert totals.is_here  # in the simulator
