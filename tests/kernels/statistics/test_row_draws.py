"""Samples of the rows without replacement."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.scalars.rng import draw
from gpuens.kernels.statistics.row_draws import draw_below, draw_by_chances

N = 700


def expected_rows(weight, n, limit, key):
    bits = np.array([int(draw(np.uint64(key), np.uint64(i))) for i in range(n)])
    if weight.size:
        bits[weight == 0] = 2**32
    return np.flatnonzero((bits < limit) | (bits == bits.min()))


@pytest.mark.parametrize("limit", [0, 1, 2**31, int(0.8 * 2**32), 2**32 - 1])
@pytest.mark.parametrize("n", [1, 2, N])
def test_rows(target, n, limit):
    some = (np.arange(n) % 3 == 0) * 1.5
    for weight in (np.empty(0), some, np.zeros(n)):
        limits, keys = [limit, 2**30, limit], [12345, 12345, 6]
        n_rows = [n] * 3 if weight.size else [n, max(n - 1, 1), n]
        samples = target.run(draw_below, target.array(weight), n_rows, limits, keys)
        for found, *of_sample in zip(samples, n_rows, limits, keys, strict=True):
            assert target.host(found).dtype == np.int32
            np.testing.assert_array_equal(target.host(found), expected_rows(weight, *of_sample))


@pytest.mark.parametrize("n", [1, 2, N])
@pytest.mark.parametrize("weights", ["none", "of all", "of samples"])
def test_chances(target, n, weights):
    """Sample 0 has certain rows alone, of sample 2 next to none; sample 3 is of fewer rows."""
    rng, n_rows = np.random.default_rng(n), [n, n, n, max(n // 2, 1)]
    chances = rng.choice([0.1, 0.6, 1.0], (4, n))
    chances[0], chances[2] = 1.0, 1e-9
    weight = {"none": np.empty(0), "of all": np.arange(n) % 3 * 1.0,
              "of samples": (np.arange(4 * n) % 5 * 0.5).reshape(4, n)}[weights]  # fmt: skip
    keys = [7, 8, 9, 10]
    found = target.run(draw_by_chances, target.array(weight), target.array(chances), n_rows, keys)
    for k, ((rows, factors), own_n, key) in enumerate(zip(found, n_rows, keys, strict=True)):
        own, chance = weight[k] if weight.ndim == 2 else weight, chances[k, :own_n]
        expected = expected_rows(own[:own_n], own_n, np.floor(chance * 2.0**32), key)
        if expected.size == own_n and (chance[expected] == 1.0).all():
            expected = expected[:0]
        rows, factors = target.host(rows), target.host(factors)
        assert (rows.dtype, factors.dtype) == (np.int32, np.float32)
        np.testing.assert_array_equal(rows, expected)
        np.testing.assert_array_equal(factors, (1.0 / chance[expected]).astype(np.float32))


def test_samples_have_weights_of_their_own(target):
    weight = (np.arange(2 * N) % 3).astype(np.float64).reshape(2, N)
    found = target.run(draw_below, target.array(weight), [N, N - 9], [2**31] * 2, [3, 4])
    for rows, own, n, key in zip(found, weight, [N, N - 9], [3, 4], strict=True):
        expected = expected_rows(own[:n], n, 2**31, key)
        np.testing.assert_array_equal(target.host(rows), expected)


def test_keys_draw_other_rows():
    one, other = draw_below(np.empty(0), [N] * 2, [2**31] * 2, [1, 2])
    assert not np.array_equal(one[:100], other[:100])
