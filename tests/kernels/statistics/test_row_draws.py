"""Samples of the rows without replacement."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.scalars.rng import draw
from gpuens.kernels.statistics.row_draws import draw_below

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


def test_keys_draw_other_rows():
    one, other = draw_below(np.empty(0), [N] * 2, [2**31] * 2, [1, 2])
    assert not np.array_equal(one[:100], other[:100])
