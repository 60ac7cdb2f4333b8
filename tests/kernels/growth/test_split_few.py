"""The search in nodes of few rows finds what the plain one finds with its rows counted."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.growth.cpu.histogram import STRIDE, unpack_record
from gpuens.kernels.growth.cpu.split import best_of_feature
from gpuens.kernels.growth.cpu.split_few import MOST_ROWS, best_of_few, counted
from gpuens.kernels.growth.cpu.split_plain import N_CANDIDATES
from gpuens.kernels.runtime.compilation import kernel
from gpuens.kernels.runtime.cpu.bits import lowest_bit, nonzero_bits
from gpuens.kernels.runtime.dtypes import MISSING, N_SLOTS


@kernel
def _few(codes, records, n_bins, total, least_h, least_rows, l2, floor, bins, out):
    prefix, scores = np.empty(N_CANDIDATES, np.int64), np.empty(N_CANDIDATES, np.float32)
    bin_of = np.empty(N_CANDIDATES, np.uint8)
    for k in range(codes.shape[0]):
        for i in range(records.size):
            bins[codes[k, i]] += counted(records[i])
        score, bin_, missing_left, left = best_of_few(
            bins, n_bins, total, least_h, least_rows, l2, floor, prefix, bin_of, scores
        )
        out[k, 0], out[k, 1], out[k, 2], out[k, 3] = score, bin_, missing_left, left


@kernel
def _all(codes, records, n_bins, total, least_h, least_rows, l2, out):
    prefix, scores = np.empty(N_SLOTS, np.int64), np.empty(N_SLOTS, np.float64)
    limits = (least_h, l2, -np.inf, np.inf, np.int64(0))
    for k in range(codes.shape[0]):
        bins, counts = np.zeros(N_SLOTS, np.int64), np.zeros(N_SLOTS, np.int64)
        for i in range(records.size):
            bins[codes[k, i]] += unpack_record(records[i])
            counts[codes[k, i]] += 1
        score, bin_, missing_left, left = best_of_feature(
            bins, n_bins, False, total, limits, counts, records.size, least_rows, prefix, scores
        )
        out[k, 0], out[k, 1], out[k, 2], out[k, 3] = score, bin_, missing_left, left


@pytest.mark.parametrize("l2", [0.0, 1.5])
@pytest.mark.parametrize("n_bins", [1, 2, 63, 64, 65, 255])
@pytest.mark.parametrize(
    ("n_rows", "largest_g", "largest_h", "missing"),
    [(2, 3, 3, 0.0), (30, 1, 1, 0.3), (90, 9, 2, 0.9), (MOST_ROWS, 32767, 32767, 0.1)],
)
def test_the_same_split(pack, l2, n_bins, n_rows, largest_g, largest_h, missing):
    """Also with rows whose statistics are zero, and with many equal scores."""
    rng = np.random.default_rng(n_rows + n_bins)
    codes = rng.integers(0, n_bins, (40, n_rows)).astype(np.uint8)
    codes[rng.random(codes.shape) < missing] = MISSING
    g = rng.integers(-largest_g, largest_g + 1, n_rows)
    h = rng.integers(0, largest_h + 1, n_rows)
    g[h == 0] = 0
    if largest_h > 3:
        g[:], h[:] = largest_g, largest_h  # the largest sums that a node may have
    records = pack(g, h, np.arange(n_rows))
    total, usual = ((g.sum() << 40) + (h.sum() << 16) + n_rows, (g.sum() << 32) + h.sum())
    bins = np.zeros(STRIDE, np.int64)
    for least_rows in (1, 3, n_rows // 3 + 1):
        found, expected = np.empty((40, 4)), np.empty((40, 4))
        _few(codes, records, n_bins, total, 1, least_rows, l2, -np.inf, bins, found)
        _all(codes, records, n_bins, usual, 1, least_rows, l2, expected)
        valid = expected[:, 0] > -np.inf
        np.testing.assert_array_equal(found[:, :2], expected[:, :2])
        np.testing.assert_array_equal(found[valid], expected[valid])
        assert not bins.any()


def test_scores_below_the_floor_may_be_given_up_others_not(pack):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 100, (40, 100)).astype(np.uint8)
    g, h = rng.integers(-900, 900, 100), rng.integers(1, 500, 100)
    records = pack(g, h, np.arange(100))
    total, usual = ((g.sum() << 40) + (h.sum() << 16) + 100, (g.sum() << 32) + h.sum())
    found, expected = np.empty((40, 4)), np.empty((40, 4))
    _all(codes, records, 100, usual, 1, 9, 1.0, expected)
    floor = float(np.sort(expected[:, 0])[20])
    _few(codes, records, 100, total, 1, 9, 1.0, floor, np.zeros(STRIDE, np.int64), found)
    kept = expected[:, 0] >= floor
    np.testing.assert_array_equal(found[kept], expected[kept])
    assert (found[~kept, 0] == -np.inf).sum() > 10


@kernel
def _positions(values, out):
    for first in range(0, values.size, 64):
        bits = nonzero_bits(values, first)
        while bits != 0:
            out[np.uint64(first) + lowest_bit(bits)] = 1
            bits &= bits - np.uint64(1)


def test_bits_say_which_entries_are_not_zero():
    values = np.random.default_rng(0).integers(-2, 3, 256) << np.arange(256) % 60
    found = np.zeros(256, np.uint8)
    _positions(values, found)
    np.testing.assert_array_equal(found, values != 0)
