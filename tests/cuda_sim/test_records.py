"""Operations on the records of nodes: histogram, partition, leaf sums."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.growth.cuda.histogram import histogram
from gpuens.kernels.growth.cuda.partition import partition
from gpuens.kernels.leaves.cuda.newton_steps import SHARED_NODES, leaf_sums
from gpuens.kernels.runtime.cuda.blocks import cut
from gpuens.kernels.runtime.dtypes import MISSING, Codes, Scales


def test_tiles_cover_the_segments():
    begin = np.array([0, 7, 7, 20], np.int64)
    end = np.array([7, 7, 19, 24], np.int64)
    tiles = cut(begin, end, 4)
    assert tiles["of"].tolist() == [0, 0, 2, 2, 2, 3]
    assert tiles["begin"].tolist() == [0, 4, 7, 11, 15, 20]
    assert tiles["end"].tolist() == [4, 7, 11, 15, 19, 24]
    assert not tiles["buffer"].any()


@pytest.mark.parametrize("n_features", [3, 18])
def test_histogram(codes, records, n_features):
    codes = Codes(np.ascontiguousarray(codes.rows[:, : -(-n_features // 8) * 8]), codes.columns)
    codes.rows[:, n_features:] = 0
    codes = Codes(codes.rows, codes.columns[:n_features])
    begin = np.array([0, 100, 30, 90], np.int64)  # the last two overlap the others
    end = np.array([100, 100, 130, 91], np.int64)

    out = histogram(codes, records, begin, end)

    words = records.astype(np.int64)
    expected = np.zeros((4, 2, n_features, 256), np.int64)
    for node in range(4):
        for word in words[begin[node] : end[node]]:
            for f in range(n_features):
                code = codes.columns[f, word & 0xFFFFFFFF]
                expected[node, 0, f, code] += word >> 48
                expected[node, 1, f, code] += (word >> 32) & 0xFFFF
    assert out.dtype == np.int32
    np.testing.assert_array_equal(out, expected)


def test_histogram_of_empty_nodes(codes, records):
    nowhere = np.array([5, 9], np.int64)
    out = histogram(codes, records, nowhere, nowhere)
    assert out.shape == (2, 2, 18, 256)
    assert not out.any()


def test_partition(rng, codes):
    n = 700  # several tiles in the largest segment; rows repeat
    records = rng.integers(0, 2**32, n).astype(np.uint64) << np.uint64(32)
    records |= rng.integers(0, 150, n).astype(np.uint64)
    before = records.copy()
    begin = np.array([3, 610, 620, 650], np.int64)
    end = np.array([609, 610, 650, 699], np.int64)
    feature = np.array([2, 0, 11, 17], np.int32)
    bin_ = np.array([12, 3, 254, 20], np.int32)
    missing_left = np.array([1, 1, 0, 0], np.uint8)

    n_left = partition(codes, records, begin, end, feature, bin_, missing_left)

    kept = np.ones(n, bool)
    for k in range(4):
        kept[begin[k] : end[k]] = False
        rows = (before & np.uint64(0xFFFFFFFF)).astype(np.int64)[begin[k] : end[k]]
        code = codes.columns[feature[k], rows]
        left = np.where(code == MISSING, missing_left[k] == 1, code <= bin_[k])
        segment = before[begin[k] : end[k]]
        middle = begin[k] + left.sum()
        assert n_left[k] == left.sum()
        np.testing.assert_array_equal(np.sort(records[begin[k] : middle]), np.sort(segment[left]))
        np.testing.assert_array_equal(np.sort(records[middle : end[k]]), np.sort(segment[~left]))
    np.testing.assert_array_equal(records[kept], before[kept])
    assert n_left.dtype == np.int64


def test_partition_without_rows(codes, records):
    before = records.copy()
    at = np.array([4], np.int64)
    one = np.array([1], np.int32)
    assert partition(codes, records, at, at, one, one, np.array([0], np.uint8)).tolist() == [0]
    np.testing.assert_array_equal(records, before)


@pytest.mark.parametrize("n_nodes", [6, SHARED_NODES + 3])
def test_leaf_sums(rng, n_nodes):
    n = 200
    leaf = rng.integers(-1, n_nodes, n).astype(np.int32)
    g = rng.normal(size=n).astype(np.float32)
    h = rng.random(n).astype(np.float32)
    scales = Scales(2.0**47, 2.0**49)  # up to 2**49 either way, beyond any 32-bit sum

    out = leaf_sums(leaf, g, h, scales, n_nodes)

    expected = [[0, 0] for _ in range(n_nodes)]
    for node, a, b in zip(leaf.tolist(), g.tolist(), h.tolist(), strict=True):
        if node >= 0:
            expected[node][0] += int(np.floor(a * scales.g + 0.5))
            expected[node][1] += int(np.floor(b * scales.h + 0.5))
    assert out.dtype == np.int64
    assert out.tolist() == expected
