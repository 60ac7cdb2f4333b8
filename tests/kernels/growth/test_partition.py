"""The reference of the partition of records, and of the leaves of their rows. Those of training are
compared with it in ``test_phases.py``."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuens.kernels.growth.reference.partition import partition, scatter_leaves
from gpuens.kernels.runtime.dtypes import MISSING

LOW_32 = np.uint64(0xFFFFFFFF)


def run(target, columns, records, begin, end, feature, bin_, missing_left):
    """The records afterwards, and the counts."""
    moved = target.array(records)
    n_left = target.run(
        partition,
        target.codes(columns),
        moved,
        np.array(begin, np.int64),
        np.array(end, np.int64),
        np.array(feature, np.int32),
        np.array(bin_, np.int32),
        np.array(missing_left, np.uint8),
    )
    return target.host(moved), n_left


def sorted_within(records, begin, end, n_left):
    """The records with both sides of every segment in the order of their words."""
    records = records.copy()
    for b, e, count in zip(begin, end, n_left, strict=True):
        records[b : b + count] = np.sort(records[b : b + count])
        records[b + count : e] = np.sort(records[b + count : e])
    return records


def table(rng, n_features, n):
    columns = rng.integers(0, 256, (n_features, n)).astype(np.uint8)
    columns[rng.random((n_features, n)) < 0.1] = MISSING
    return columns


def test_standard_arrays(strict, oracle, same, pack):
    """Some are empty, some go to one side only; rows between them stay where they are."""
    rng = np.random.default_rng(3)
    n = 6000
    columns = table(rng, 5, n)
    columns[4] = MISSING
    records = pack(rng.integers(-9, 9, n), rng.integers(0, 9, n), rng.permutation(n))
    cuts = np.sort(rng.integers(n // 10, n - n // 10, 24))
    cuts[5] = cuts[6]
    begin, end = cuts[::2], cuts[1::2].copy()
    end[3] = begin[3]
    feature = rng.integers(0, 4, 12)
    feature[:2] = 4
    bin_ = rng.choice([0, 20, 130, 253, 254], 12)
    args = columns, records, begin, end, feature, bin_, np.arange(12) % 2
    (actual, actual_left), (expected, expected_left) = run(strict, *args), run(oracle, *args)
    same(actual_left, expected_left)
    same(
        sorted_within(actual, begin, end, actual_left),
        sorted_within(expected, begin, end, expected_left),
    )
    outside = np.ones(n, bool)
    for b, e in zip(begin, end, strict=True):
        outside[b:e] = False
    np.testing.assert_array_equal(actual[outside], records[outside])


@given(st.integers(0, 200), st.integers(0, 254), st.booleans(), st.integers(0, 2**32 - 1))
def test_is_a_permutation_with_the_right_sides(oracle, pack, n, bin_, missing_left, seed):
    rng = np.random.default_rng(seed)
    columns = table(rng, 1, max(n, 1))
    records = pack(rng.integers(-9, 9, n), rng.integers(0, 9, n), rng.permutation(n))
    moved, (n_left,) = run(oracle, columns, records, [0], [n], [0], [bin_], [missing_left])
    np.testing.assert_array_equal(np.sort(moved), np.sort(records))
    code = columns[0, moved & LOW_32]
    goes_left = np.where(code == MISSING, missing_left, code <= bin_)
    assert np.all(goes_left[:n_left]) and not np.any(goes_left[n_left:])


@pytest.mark.parametrize("n_trees", [1, 3])
def test_scatter_leaves(strict, oracle, same, pack, n_trees):
    rng = np.random.default_rng(n_trees)
    n_rows, n = 400, 200
    rows = np.concatenate([rng.permutation(n_rows)[:n] for _ in range(n_trees)])
    records = pack(rng.integers(-9, 9, rows.size), rng.integers(0, 9, rows.size), rows)
    cuts = np.sort(np.concatenate([np.arange(n_trees + 1) * n, [3, 3, n_trees * n - 1]]))
    begin, end = cuts[:-1], cuts[1:]
    tree = np.minimum(begin // n, n_trees - 1).astype(np.int32)
    leaf = np.arange(begin.size, dtype=np.int32) + 10
    segments = (begin, end, tree, leaf, (n_trees, n_rows))
    actual = strict.host(strict.run(scatter_leaves, strict.array(records), *segments))
    same(actual, oracle.run(scatter_leaves, records, *segments))
    expected = np.full((n_trees, n_rows), -1, np.int32)
    for b, e, t, number in zip(begin, end, tree, leaf, strict=True):
        expected[t, rows[b:e]] = number
    np.testing.assert_array_equal(actual, expected)
