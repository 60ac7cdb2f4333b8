"""The quick search finds the split of the full one, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.growth.cpu import search
from gpuens.kernels.growth.cpu.few_rows import FEW_ROWS, N_LINES, best_of_rows, load_rows
from gpuens.kernels.growth.cpu.histogram import STRIDE
from gpuens.kernels.growth.cpu.quick_split import (
    LARGEST_L2,
    N_CANDIDATES,
    best_of_plain,
)
from gpuens.kernels.growth.cpu.split import best_of_feature
from gpuens.kernels.runtime.cpu.lanes import running_sums
from gpuens.kernels.runtime.dtypes import MISSING, N_SLOTS
from tests.kernels.growth.compiled import kernel_around


@kernel_around(search)
def _plain(histograms, n_bins, totals, least_h, l2, floor, out):
    lefts, scores = np.empty((2, N_CANDIDATES), np.int32), np.empty(N_CANDIDATES, np.float32)
    for k in range(totals.size):
        score, bin_, missing_left, left = best_of_plain(
            histograms[k], n_bins, totals[k], least_h, l2, floor, lefts, scores
        )
        out[k, 0], out[k, 1], out[k, 2], out[k, 3] = score, bin_, missing_left, left


@kernel_around(search)
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
@pytest.mark.parametrize("n_rows, largest_g, largest_h, missing", [
    (30, 1, 1, 0.0), (30, 1, 1, 0.3), (200, 9, 5, 0.1), (3000, 30_000, 700_000, 0.05),
])  # fmt: skip
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
    assert (found[~kept, 0] < floor * (1 + 1e-5)).all()


@pytest.mark.parametrize("l2", [0.0, 1.5, LARGEST_L2])
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("largest_g, largest_h, n_rows", [
    (1, 1, 30), (3, 60_000, 2000), (30_000, 2, 2000), (30_000, 60_000, 60), (30_000, 60_000, 30_000)
])  # fmt: skip
@pytest.mark.parametrize("n_bins", [2, 17, 255])
def test_a_split_that_scores_just_the_floor_is_found(
    l2, missing, largest_g, largest_h, n_rows, n_bins
):
    """Also where the gradient of the node, or of one row, dwarfs the gain."""
    rng = np.random.default_rng(n_bins)
    lines, _ = histograms(rng, n_bins, n_rows, largest_g, largest_h, missing)
    for shift in (0, largest_g):
        # All gradients, or those of one bin, are far from zero.
        lines[:20, :n_bins] += (n_rows * shift // n_bins) << 32
        lines[20:, 0] += (n_rows * shift // 2) << 32
        totals, found, expected = (
            lines[:, :N_SLOTS].sum(axis=1),
            np.empty((1, 4)),
            np.empty((40, 4)),
        )
        _all(lines, n_bins, totals, 1, l2, expected)
        assert (expected[:, 0] > -np.inf).any()
        for k in np.flatnonzero(expected[:, 0] > -np.inf):
            own = lines[k : k + 1], n_bins, totals[k : k + 1], 1, l2
            _plain(*own, expected[k, 0], found)
            np.testing.assert_array_equal(found[0], expected[k])
            _plain(*own, expected[k, 0] * 1.1, found)
            assert found[0, 1] == -1


@kernel_around(search)
def _of_rows(words, records, total, least_h, least_rows, l2, floor, out):
    lines = np.zeros((N_LINES, N_SLOTS), np.int64)
    lefts, scores = np.empty((2, N_CANDIDATES), np.int32), np.empty(N_CANDIDATES, np.float32)
    load_rows(words, 2, 1, records, 0, records.size, lines)
    for f in range(8):
        score, bin_, missing_left, left = best_of_rows(
            lines, records.size, 8 * f, total, least_h, least_rows, l2, floor, lefts, scores
        )
        out[f, 0], out[f, 1], out[f, 2], out[f, 3] = score, bin_, missing_left, left


@kernel_around(search)
def _all_counted(histograms, counts, total, least_h, least_rows, l2, out):
    prefix, scores = np.empty(N_SLOTS, np.int64), np.empty(N_SLOTS, np.float64)
    limits = (least_h, l2, -np.inf, np.inf, np.int64(0))
    for f in range(8):
        n_rows = counts[f].sum()
        score, bin_, missing_left, left = best_of_feature(
            histograms[f], 255, False, total, limits, counts[f], n_rows, least_rows, prefix, scores
        )
        out[f, 0], out[f, 1], out[f, 2], out[f, 3] = score, bin_, missing_left, left


@pytest.mark.parametrize("l2", [0.0, 1.5, LARGEST_L2])
@pytest.mark.parametrize("missing", [0.0, 0.05, 0.6, 1.0])
@pytest.mark.parametrize(
    ("largest_g", "largest_h"), [(0, 0), (1, 1), (9, 5), (2**15 - 1, 2**16 - 1)]
)
def test_the_same_split_from_few_rows(l2, missing, largest_g, largest_h):
    """Small statistics make rows that weigh nothing, and equal scores."""
    rng = np.random.default_rng(largest_h)
    for n_rows in (2, 3, 20, FEW_ROWS - 1):
        codes = rng.integers(0, rng.choice([1, 3, 60, 255], 16), (500, 16)).astype(np.uint8)
        codes[rng.random(codes.shape) < missing] = MISSING
        rows = rng.permutation(500)[:n_rows]
        g = rng.integers(-largest_g, largest_g + 1, n_rows)
        h = rng.integers(0, largest_h + 1, n_rows)
        records = (g << 48) + (h << 32) + rows
        sums, counts = np.zeros((8, N_SLOTS), np.int64), np.zeros((8, N_SLOTS), np.int64)
        for f in range(8):
            np.add.at(sums[f], codes[rows, 8 + f], (g << 32) + h)
            np.add.at(counts[f], codes[rows, 8 + f], 1)
        total = int(sums[0].sum())
        words = codes.reshape(-1).view(np.uint64)
        for least_h, least_rows in ((1, 1), (1, n_rows // 3 + 1), (int(h.sum()) // 4 + 1, 1)):
            found, expected = np.empty((8, 4)), np.empty((8, 4))
            how = least_h, least_rows, l2
            _of_rows(words, records.astype(np.uint64), total, *how, -np.inf, found)
            _all_counted(sums, counts, total, *how, expected)
            valid = expected[:, 0] > -np.inf
            np.testing.assert_array_equal(found[:, :2], expected[:, :2])
            np.testing.assert_array_equal(found[valid], expected[valid])
            if valid.any():
                floor = float(np.median(expected[valid, 0]))
                _of_rows(words, records.astype(np.uint64), total, *how, floor, found)
                kept = expected[:, 0] >= floor
                np.testing.assert_array_equal(found[kept], expected[kept])
                assert (found[~kept, 1] == -1).all()
                for f in np.flatnonzero(valid):
                    _of_rows(words, records.astype(np.uint64), total, *how, expected[f, 0], found)
                    np.testing.assert_array_equal(found[f], expected[f])


@kernel_around(search)
def _running_sums(source, n, high, low, total):
    total[0] = running_sums(source, n, high, low)


@pytest.mark.parametrize("n", [0, 8, 256])
def test_running_sums(n):
    rng = np.random.default_rng(n)
    g, h = rng.integers(-(2**22), 2**22, 256), rng.integers(0, 2**22, 256)
    lefts, total = np.zeros((2, 256), np.int32), np.zeros(1, np.int64)
    _running_sums((g << 32) + h, n, lefts[0], lefts[1], total)
    np.testing.assert_array_equal(lefts[:, :n], np.cumsum([g, h], axis=1)[:, :n])
    assert total[0] == (g[:n].sum() << 32) + h[:n].sum()
    assert not lefts[:, n:].any()
