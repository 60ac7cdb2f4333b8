"""Vectors of many entries: flags, codes and scores."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.runtime.compilation import kernel
from gpuens.kernels.runtime.cpu.lanes import (
    chosen,
    flags_set,
    lanes_equal,
    lanes_left,
    largest_score,
    place_in_line,
    range_of_lanes,
)

u64 = np.uint64


@kernel
def _flags(flags, first):
    return flags_set(flags, first)


@kernel
def _places(line, which, out):
    for i in range(out.size):
        out[i] = place_in_line(line, u64(i), which)


@kernel
def _equal(line, value):
    return lanes_equal(line, value)


@kernel
def _left(line, first, limit, other):
    return lanes_left(line, first, limit, other)


@kernel
def _range(line, first, which):
    return range_of_lanes(line, first, which)


@kernel
def _larger(a, b):
    return chosen(a > b, a, b)


@kernel
def _largest(left, right, weights, mask, weight, n):
    return largest_score(left, right, weights, mask, weight, n)


def test_flags_become_the_bits_of_a_word():
    flags = np.random.default_rng(0).integers(0, 3, 200).astype(np.uint8)
    for first in (0, 64, 100):
        expected = sum(1 << i for i in range(64) if flags[first + i])
        assert int(_flags(flags, u64(first))) == expected


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32])
@pytest.mark.parametrize("n", [1, 2, 7, 31, 32])
def test_the_place_of_each_entry_is_that_of_a_stable_sort(dtype, n):
    """Whatever the entries are that do not count."""
    rng = np.random.default_rng(n)
    for largest in (1, 10, np.iinfo(dtype).max):
        line = rng.integers(0, largest, 32, dtype=dtype, endpoint=True)
        place = np.empty(n, np.int64)
        _places(line, u64((1 << n) - 1), place)
        np.testing.assert_array_equal(np.argsort(place), np.argsort(line[:n], kind="stable"))
        bits = int(_equal(line, u64(line[n - 1])))
        assert [bits >> i & 1 for i in range(32)] == (line == line[n - 1]).tolist()


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32])
def test_the_entries_up_to_a_limit_or_like_another(dtype):
    most = np.iinfo(dtype).max
    line = np.random.default_rng(0).integers(0, most, 100, dtype=dtype, endpoint=True)
    for first, limit, other in ((0, most // 2, line[3]), (36, 0, most), (7, most, 0)):
        bits = int(_left(line, u64(first), u64(limit), u64(other)))
        expected = (line <= limit) | (line == other)
        assert [bits >> i & 1 for i in range(64)] == expected[first : first + 64].tolist()


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32])
def test_the_range_of_some_entries(dtype):
    most = np.iinfo(dtype).max
    rng = np.random.default_rng(0)
    line = rng.integers(0, most, 100, dtype=dtype, endpoint=True)
    line[40:42] = 0, most
    for first, lanes in ((0, [0]), (36, [63]), (7, [3, 8, 60]), (36, [4, 5, 6]), (20, range(64))):
        both = int(_range(line, u64(first), u64(sum(1 << i for i in lanes))))
        entries = line[first : first + 64][list(lanes)]
        assert (both & (2**32 - 1), both >> 32) == (entries.min(), entries.max())


def test_one_of_two_numbers_is_chosen():
    assert [_larger(a, b) for a, b in ((-3, 5), (5, -3), (2, 2))] == [5, 5, 2]


@pytest.mark.parametrize("n", [8, 24])
def test_the_largest_score(n):
    rng = np.random.default_rng(n)
    left, right = rng.random((2, n))
    weights = rng.integers(1, 2**36, n)
    total = float(2**36)
    score = left / weights + right / (total - weights)
    packed = weights | (rng.integers(0, 100, n) << 36)
    mask = 2**36 - 1
    assert _largest(left, right, packed, mask, total, n) == score.max()
    left[score.argmax()] = -np.inf
    weights[0] = packed[0] = 0  # 0 / 0 is no score
    left[0] = 0.0
    with np.errstate(invalid="ignore"):
        score = left / weights + right / (total - weights)
    assert _largest(left, right, packed, mask, total, n) == np.nanmax(score)
