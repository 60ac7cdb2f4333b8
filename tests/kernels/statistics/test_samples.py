"""Rows drawn with replacement, and a tree's sample as records."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.statistics.samples import count_draws, records_of_sample
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
