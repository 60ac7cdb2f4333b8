"""Rows drawn with replacement and without, and a tree's sample as records."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.scalars.rng import draw
from gpuens.kernels.statistics.samples import count_draws, draw_below, records_of_sample
from tests.kernels.statistics.test_quantise import hash_of


def run(target, n, n_draws, key):
    counts = target.array(np.zeros(n, np.int32))
    assert target.run(count_draws, counts, n_draws, key) is None
    return target.host(counts)


def records(target, counts):
    sample = target.run(records_of_sample, target.array(counts))
    (size,) = target.host(sample.size)
    return target.host(sample.records)[:size]


@pytest.mark.parametrize("key", [0, 1, 2**32 - 1])
@pytest.mark.parametrize(("n", "n_draws"), [(1, 1), (1, 300), (7, 0), (300, 5), (1031, 2000)])
def test_parity_of_counts(target, oracle, same, n, n_draws, key):
    n_draws = target.rows(n_draws)
    expected = run(oracle, n, n_draws, key)
    same(run(target, n, n_draws, key), expected)
    assert expected.sum() == n_draws


def test_against_plain_python(oracle):
    expected = np.zeros(77, np.int32)
    for i in range(200):
        expected[hash_of(5, i) * 77 >> 32] += 1
    np.testing.assert_array_equal(run(oracle, 77, 200, 5), expected)


def test_it_adds(target):
    counts = target.array(np.arange(50, dtype=np.int32))
    target.run(count_draws, counts, 60, 3)
    np.testing.assert_array_equal(target.host(counts) - np.arange(50), run(target, 50, 60, 3))


def test_every_row_is_equally_likely(oracle):
    n, n_draws = 100, 100_000
    hits = run(oracle, n, n_draws, 12345)
    statistic = ((hits - n_draws / n) ** 2 / (n_draws / n)).sum()
    assert abs(statistic - (n - 1)) < 5 * np.sqrt(2 * (n - 1))  # chi-square with n - 1 degrees


@pytest.mark.parametrize("dtype", [np.uint8, np.int32])
@pytest.mark.parametrize(
    "counts", [[0], [3], [0, 0, 2, 0], [1, 1], [31, 0, 255], [0] * 900 + [5], "many"]
)
def test_parity_of_records(target, oracle, same, counts, dtype):
    if counts == "many":
        counts = np.random.default_rng(0).poisson(1, 2000)
    counts = np.array(counts, dtype)
    expected = records(oracle, counts)
    same(records(target, counts), expected)
    pairs = [(int(r) & 0xFFFFFFFF, int(r) >> 32) for r in expected]
    assert pairs == [(row, count) for row, count in enumerate(counts.tolist()) if count]


def test_counts_beyond_a_byte(target):
    counts = np.array([0, 2**31 - 1, 70_000], np.int32)
    assert records(target, counts).tolist() == [(2**31 - 1) << 32 | 1, 70_000 << 32 | 2]


N = 700


def expected_rows(weight, n, limit, key):
    bits = np.array([int(draw(np.uint64(key), np.uint64(i))) for i in range(n)])
    if weight.size:
        bits[weight == 0] = 2**32
    return np.flatnonzero((bits < limit) | (bits == bits.min()))


@pytest.mark.parametrize("limit", [0, 1, 2**31, int(0.8 * 2**32), 2**32 - 1])
@pytest.mark.parametrize("n", [1, 2, N])
def test_rows_without_replacement(target, n, limit):
    some = (np.arange(n) % 3 == 0) * 1.5
    for weight in (np.empty(0), some, np.zeros(n)):
        limits, keys = [limit, 2**30, limit], [12345, 12345, 6]
        n_rows = [n] * 3 if weight.size else [n, max(n - 1, 1), n]
        samples = target.run(draw_below, target.array(weight), n_rows, limits, keys)
        for found, *of_sample in zip(samples, n_rows, limits, keys, strict=True):
            assert target.host(found).dtype == np.int32
            np.testing.assert_array_equal(target.host(found), expected_rows(weight, *of_sample))


def test_keys_draw_other_rows():
    one, other = draw_below(np.empty(0), [N] * 2, [2**31] * 2, [1, 2])
    assert not np.array_equal(one[:100], other[:100])
