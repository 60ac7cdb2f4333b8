from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.prediction.cuda.traverse import leaf_indices, traverse, traverse_codes
from gpuens.kernels.prediction.traverse import Trees
from gpuens.kernels.runtime.dtypes import MISSING

#       0: x2            0: x0          0 (a leaf)
#      /     \          /    \
#     1      2: x0     1      2
#           /    \
#          3      4
FEATURE = np.array([2, -1, 0, -1, -1, 0, -1, -1, -1], np.int32)
LEFT = np.array([1, -1, 3, -1, -1, 1, -1, -1, -1], np.int32)
RIGHT = np.array([2, -1, 4, -1, -1, 2, -1, -1, -1], np.int32)
MISSING_LEFT = np.array([1, 0, 0, 0, 0, 1, 0, 0, 0], np.uint8)
OFFSET = np.array([0, 5, 8, 9], np.int64)


def leaf_of(x, tree, threshold, is_missing):
    root = OFFSET[tree]
    node = 0
    while FEATURE[root + node] >= 0:
        at = root + node
        value = x[FEATURE[at]]
        goes_left = MISSING_LEFT[at] if is_missing(value) else value <= threshold[at]
        node = LEFT[at] if goes_left else RIGHT[at]
    return node


def trees_of(threshold, value, output):
    """All splits by thresholds."""
    no_sets = np.full(9, -1, np.int32), np.empty(0, np.uint32), np.zeros(3, np.int32)
    structure = MISSING_LEFT, LEFT, RIGHT, *no_sets
    return Trees(OFFSET, FEATURE, threshold, *structure, value, np.array(output, np.int32))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_traverse(rng, dtype, order):
    threshold = np.where(FEATURE >= 0, np.round(rng.normal(size=9), 1), 0.0)
    X = np.round(rng.normal(size=(70, 3)), 1).astype(dtype, order=order)
    X[rng.random(X.shape) < 0.2] = np.nan
    output = [1, 0, 1]
    trees = trees_of(threshold, rng.normal(size=(9, 1)), output)
    raw = rng.normal(size=(2, 70))
    expected = raw.copy()

    leaves = leaf_indices(trees, X)
    traverse(trees, X, raw)

    for i in range(70):
        for t in range(3):
            leaf = leaf_of(X[i].astype(np.float64), t, threshold, np.isnan)
            assert leaves[i, t] == leaf
            expected[output[t], i] += trees.value[OFFSET[t] + leaf, 0]
    np.testing.assert_array_equal(raw, expected)
    assert leaves.dtype == np.int32


def test_leaves_of_several_values(rng):
    trees = trees_of(rng.normal(size=9), rng.normal(size=(9, 3)), [1, 0, 1])
    X = rng.normal(size=(70, 3))
    raw = rng.normal(size=(4, 70))
    expected = raw.copy()

    traverse(trees, X, raw)

    reached = trees.value[leaf_indices(trees, X) + OFFSET[:-1]]
    for t, first in enumerate(trees.output):
        expected[first : first + 3] += reached[:, t].T
    np.testing.assert_array_equal(raw, expected)


def test_splits_by_categories():
    """Of 40 categories the multiples of 3 go left; what is no category goes right, at the root
    of a tree, and left, at the root of the other."""
    words = (
        sum(1 << c for c in range(0, 40, 3)) & 0xFFFFFFFF,
        sum(1 << c - 32 for c in (33, 36, 39)),
    )
    feature = np.tile(np.array([0, -1, -1], np.int32), 2)
    trees = Trees(
        np.array([0, 3, 6]),
        feature,
        np.zeros(6),
        np.array([0, 0, 0, 1, 0, 0], np.uint8),
        np.where(feature == 0, 1, -1).astype(np.int32),
        np.where(feature == 0, 2, -1).astype(np.int32),
        np.array([0, -1, -1, 2, -1, -1], np.int32),
        np.array([*words, *words], np.uint32),
        np.array([40], np.int32),
        np.zeros((6, 1)),
        np.zeros(2, np.int32),
    )
    no_category = [40.0, -1.0, 0.5, np.nan, np.inf, -np.inf, 1e30]
    X = np.array([*range(40), -0.0, *no_category])[:, None]

    leaves = leaf_indices(trees, X)

    left = np.array([c % 3 == 0 for c in range(40)] + [True])
    np.testing.assert_array_equal(leaves[:41], np.where(left, 1, 2)[:, None] * [1, 1])
    np.testing.assert_array_equal(leaves[41:], [[2, 1]] * len(no_category))


def test_traverse_codes(rng, codes):
    tree = slice(0, 5)
    bin_ = np.array([20, -1, 9, -1, -1], np.int32)
    leaf = rng.integers(-1, 2, 150).astype(np.int32) * 7  # -7, 0 or 7
    before = leaf.copy()

    traverse_codes(codes, FEATURE[tree], bin_, MISSING_LEFT[tree], LEFT[tree], RIGHT[tree], leaf)

    for i in range(150):
        reached = leaf_of(codes.columns[:, i], 0, bin_, lambda code: code == MISSING)
        assert leaf[i] == (reached if before[i] < 0 else before[i])
