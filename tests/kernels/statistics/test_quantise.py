"""Statistics as integers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gpuens.kernels.runtime.dispatch import Implementation
from gpuens.kernels.runtime.dtypes import Scales, Totals
from gpuens.kernels.scalars.rounding import MAX_QUANTISED, MAX_ROWS
from gpuens.kernels.statistics.quantise import pack, quantise, scales_for

ALL = np.zeros(0, np.int32)
MAGNITUDES = st.floats(1e-300, 1e290)


def of_one(g, h, rows, key, scales):
    """The records of a single output."""
    return g[None], h[None], rows, key, 0, [scales]


def unpack(made):
    (records,) = made.words
    g = (records >> np.uint64(48)).astype(np.uint16).view(np.int16).astype(np.int64)
    h = ((records >> np.uint64(32)) & np.uint64(0xFFFF)).astype(np.int64)
    assert made.sums.tolist() == [[g.sum(), h.sum()]]
    return g, h, (records & np.uint64(0xFFFFFFFF)).astype(np.int64)


def measured(g, h):
    return Totals(*(float(f(v.astype(np.float64))) for v in (abs(g), h) for f in (np.max, np.sum)))


def statistics(n, seed=0):
    rng = np.random.default_rng(seed)
    g = (rng.normal(size=n) * 10.0 ** rng.integers(-9, 3, n)).astype(np.float32)
    h = np.abs(rng.normal(size=n)).astype(np.float32)
    g[::5] = 0.0
    h[::7] = 0.0
    return g, h


@pytest.mark.parametrize("key, first", [(0, 0), (1, 2**32 - 3), (2**32 - 1, 7)])
@pytest.mark.parametrize("n", [1, 1031])
@pytest.mark.parametrize("sampled", [False, True])
def test_parity(target, oracle, same, sampled, n, key, first):
    """Several outputs, each with scales and a key of its own."""
    both = [statistics(target.rows(n), seed) for seed in range(3)]
    g, h = (np.stack(lines) for lines in zip(*both, strict=True))
    rows = np.flatnonzero(np.arange(g.shape[1]) % 3 != 1).astype(np.int32) if sampled else ALL
    scales = [scales_for(measured(*own), g.shape[1]) for own in both]

    def run(t):
        made = t.run(quantise, t.array(g), t.array(h), t.array(rows), key, first, scales)
        return t.host(made.words), t.host(made.sums)

    for got, wanted in zip(run(target), run(oracle), strict=True):
        same(got, wanted)


@pytest.mark.parametrize("begin", [0, 5, 1000])
def test_packed_rows_have_the_statistics_of_records(target, same, begin):
    """Those of a table's rows from any row on."""
    if target.implementation is not Implementation.CPU:
        pytest.skip("is about the CPU alone")
    both = [statistics(1031, seed) for seed in range(3)]
    g, h = (np.stack(lines) for lines in zip(*both, strict=True))
    scales = [scales_for(measured(*own), g.shape[1]) for own in both]
    records = target.run(quantise, g, h, ALL, 1, 2**32 - 2, scales).words
    part = np.ascontiguousarray(g[:, begin:]), np.ascontiguousarray(h[:, begin:])
    words = np.empty(part[0].shape, np.uint32)
    sums = target.run(pack, begin, *part, 1, 2**32 - 2, scales, words)
    same(words, (records >> np.uint64(32)).astype(np.uint32)[:, begin:])
    of_rows = np.stack([words.view(np.int32) >> 16, words & 0xFFFF], axis=2)
    same(sums, of_rows.astype(np.int64).sum(axis=1))


@pytest.mark.parametrize("magnitude", [1e-45, 1e-38, 1e-20, 1e20, 3.4e38])
def test_parity_at_the_ends_of_float32(target, oracle, same, magnitude):
    g = np.array([-magnitude, 0.0, -0.0, magnitude / 3, magnitude], np.float32)
    h = np.abs(g[::-1])
    scales = scales_for(measured(g, h), len(g))

    def run(t):
        made = t.run(quantise, t.array(g[None]), t.array(h[None]), t.array(ALL), 5, 0, [scales])
        return t.host(made.words)

    expected = run(oracle)
    same(run(target), expected)
    assert np.all(np.abs((expected.astype(np.int64) >> 48)[0, [0, 4]]) >= MAX_QUANTISED // 2)


def hash_of(key, counter):
    """The documented hash in Python's integers."""
    x = (counter * 0x9E3779B9 + key) % 2**32
    x = (x ^ (x >> 16)) * 0x21F0AAAD % 2**32 ^ key
    x = (x ^ (x >> 15)) * 0xD35A2D97 % 2**32
    return x ^ (x >> 15)


def test_against_plain_python(oracle):
    g, h = statistics(200)
    scales = Scales(2.0**5, 2.0**7)
    g_int, h_int, row = unpack(oracle.run(quantise, g[None], h[None], ALL, 12345, 9, [scales]))
    key = hash_of(12345, 9)
    for i in range(200):
        bits = hash_of(key, i)
        assert row[i] == i
        assert g_int[i] == math.floor(float(g[i]) * 2**5 + ((bits & 0xFFFF) + 0.5) / 65536)
        assert h_int[i] == math.floor(float(h[i]) * 2**7 + ((bits >> 16) + 0.5) / 65536)


def test_a_row_is_rounded_alike_in_every_sample(oracle):
    g, h = statistics(300)
    scales = Scales(2.0**6, 2.0**6)
    rows = np.arange(7, 300, 11, dtype=np.int32)
    whole = oracle.run(quantise, *of_one(g, h, ALL, 3, scales)).words
    some = oracle.run(quantise, *of_one(g, h, rows, 3, scales)).words
    np.testing.assert_array_equal(some, whole[:, rows])


def test_rounding_is_unbiased(oracle):
    n = 50_000
    for value in (0.001, 0.3, 0.5, -0.75, 17.9):
        g, h = np.full(n, value, np.float32), np.full(n, abs(value), np.float32)
        g_int, h_int, _ = unpack(oracle.run(quantise, *of_one(g, h, ALL, 99, Scales(1.0, 1.0))))
        fraction = value - math.floor(value)
        tolerance = 5 * math.sqrt(fraction * (1 - fraction) / n)
        assert abs(g_int.mean() - value) < tolerance
        assert abs(h_int.mean() - abs(value)) < tolerance


def test_integers_stay_what_they_are(oracle):
    g = np.arange(-500, 500).astype(np.float32)
    args = of_one(g, np.abs(g), ALL, 1, Scales(4.0, 8.0))
    g_int, h_int, _ = unpack(oracle.run(quantise, *args))
    np.testing.assert_array_equal(g_int, 4 * g)
    np.testing.assert_array_equal(h_int, 8 * np.abs(g))


@given(
    hnp.arrays(np.float32, st.integers(1, 60), elements=st.floats(-(2.0**100), 2.0**100, width=32)),
    st.integers(0, 2**32 - 1),
)
@example(np.array([1e-45], np.float32), 0)
@example(np.full(1, 3.4e38, np.float32), 2**32 - 1)
@example(np.full(3, 32767.0, np.float32), 0)
def test_no_subset_can_overflow(oracle, g, key):
    scales = scales_for(measured(g, np.abs(g)), len(g))
    g_int, h_int, _ = unpack(oracle.run(quantise, *of_one(g, np.abs(g), ALL, key, scales)))
    assert np.all(np.abs(g_int) <= MAX_QUANTISED) and np.all(h_int <= MAX_QUANTISED)
    assert max(g_int[g_int > 0].sum(), -g_int[g_int < 0].sum(), h_int.sum()) <= MAX_ROWS


@given(MAGNITUDES, st.floats(0.0, 1.0), st.integers(1, 2**31 - 2))
@example(1e-300, 1.0, 1)
@example(1e300, 1.0, 1)
@example(1e290, 1.0, 2**30)
@example(1e-300, 1.0, 2**30)
def test_scales_hold_their_bounds(largest, share, n):
    total = largest * (1 + (n - 1) * share)
    for scale in scales_for(Totals(largest, total, largest, total), n):
        assert math.frexp(scale)[0] == 0.5
        assert largest * scale <= MAX_QUANTISED
        assert total * scale + n <= MAX_ROWS * (1 + 1e-12)
        finer = 2 * scale
        if scale < 2.0**1000:
            assert largest * finer > MAX_QUANTISED or total * finer + n > MAX_ROWS


def test_scale_of_nothing_is_one():
    assert scales_for(Totals(0.0, 0.0, 0.0, 0.0), 10) == (1.0, 1.0)
