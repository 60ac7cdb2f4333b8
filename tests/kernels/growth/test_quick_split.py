"""The quick searches find the split of the full one, to the last bit; the one for few rows that of
the full one with its rows counted."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.growth.cpu.histogram import STRIDE, unpack_record
from gpuens.kernels.growth.cpu.quick_split import (
    LARGEST_L2,
    MOST_ROWS,
    N_CANDIDATES,
    best_of_few,
    best_of_plain,
    counted,
)
from gpuens.kernels.growth.cpu.split import best_of_feature
from gpuens.kernels.runtime.compilation import kernel
from gpuens.kernels.runtime.cpu.lanes import lowest_bit, nonzero_bits, running_sums
from gpuens.kernels.runtime.dtypes import MISSING, N_SLOTS


@kernel
def _plain(histograms, n_bins, totals, least_h, l2, floor, out):
    prefix, scores = np.empty(N_CANDIDATES, np.int64), np.empty(N_CANDIDATES, np.float32)
    for k in range(totals.size):
        score, bin_, missing_left, left = best_of_plain(
            histograms[k], n_bins, totals[k], least_h, l2, floor, prefix, scores
        )
        out[k, 0], out[k, 1], out[k, 2], out[k, 3] = score, bin_, missing_left, left


@kernel
def _all(histograms, n_bins, totals, least_h, l2, out):
    prefix, scores = np.empty(N_SLOTS, np.int64), np.empty(N_SLOTS, np.float64)
    no_counts = np.empty(0, np.int64)
    limits = (least_h, l2, -np.inf, np.inf, np.int64(0))
    for k in range(totals.size):
        score, bin_, missing_left, left = best_of_feature(
            histograms[k], n_bins, False, totals[k], limits, no_counts, 0, 1, prefix, scores
        )
        out[k, 0], out[k, 1], out[k, 2], out[k, 3] = score, bin_, missing_left, left


def histograms(rng, n_bins: int, n_rows: int, largest_g: int, largest_h: int, missing: float):
    """Packed histograms of 40 features."""
    found = np.zeros((40, STRIDE), np.int64)
    for line in found:
        codes = rng.integers(0, n_bins, n_rows)
        codes[rng.random(n_rows) < missing] = MISSING
        g = rng.integers(-largest_g, largest_g + 1, n_rows)
        h = rng.integers(0, largest_h + 1, n_rows)
        np.add.at(line, codes, (g << 32) + h)
    return found, found.sum(axis=1)


@pytest.mark.parametrize("l2", [0.0, 1.5, LARGEST_L2])
@pytest.mark.parametrize("n_bins", [1, 2, 31, 32, 33, 255])
@pytest.mark.parametrize(
    ("n_rows", "largest_g", "largest_h", "missing"),
    [(30, 1, 1, 0.0), (30, 1, 1, 0.3), (200, 9, 5, 0.1), (3000, 30_000, 700_000, 0.05)],
)
def test_the_same_split(l2, n_bins, n_rows, largest_g, largest_h, missing):
    """Also with many equal scores, which small statistics make."""
    rng = np.random.default_rng(n_rows + n_bins)
    lines, totals = histograms(rng, n_bins, n_rows, largest_g, largest_h, missing)
    for least_h in (1, int(totals.max() & 0xFFFFFFFF) // 5 + 1):
        found, expected = np.empty((40, 4)), np.empty((40, 4))
        _plain(lines, n_bins, totals, least_h, l2, -np.inf, found)
        _all(lines, n_bins, totals, least_h, l2, expected)
        valid = expected[:, 0] > -np.inf
        np.testing.assert_array_equal(found[:, :2], expected[:, :2])
        np.testing.assert_array_equal(found[valid], expected[valid])


def test_of_scores_below_the_floor_there_are_bounds():
    rng = np.random.default_rng(0)
    lines, totals = histograms(rng, 100, 500, 2000, 900, 0.1)
    expected, found = np.empty((40, 4)), np.empty((40, 4))
    _all(lines, 100, totals, 50, 1.0, expected)
    floor = float(np.sort(expected[:, 0])[20])
    _plain(lines, 100, totals, 50, 1.0, floor, found)
    kept = expected[:, 0] >= floor
    np.testing.assert_array_equal(found[kept], expected[kept])
    assert (found[~kept, 1] == -1).all()
    assert (found[~kept, 0] >= expected[~kept, 0]).all()
    np.testing.assert_allclose(found[~kept, 0], expected[~kept, 0], rtol=1e-5)


@kernel
def _running_sums(source, n, target, total):
    total[0] = running_sums(source, n, target)


@pytest.mark.parametrize("n", [0, 8, 256])
def test_running_sums(n):
    source = np.random.default_rng(n).integers(-(2**40), 2**40, 256)
    target, total = np.zeros(256, np.int64), np.zeros(1, np.int64)
    _running_sums(source, n, target, total)
    np.testing.assert_array_equal(target[:n], np.cumsum(source[:n]))
    assert total[0] == source[:n].sum()
    assert not target[n:].any()


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
def _all_of_rows(codes, records, n_bins, total, least_h, least_rows, l2, out):
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
def test_the_same_split_of_few_rows(pack, l2, n_bins, n_rows, largest_g, largest_h, missing):
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
        _all_of_rows(codes, records, n_bins, usual, 1, least_rows, l2, expected)
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
    _all_of_rows(codes, records, 100, usual, 1, 9, 1.0, expected)
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
