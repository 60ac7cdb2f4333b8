from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.cuda.traverse import leaf_indices, traverse
from gpuens.kernels.cuda.traverse_codes import traverse_codes
from gpuens.kernels.dtypes import MISSING
from gpuens.kernels.traverse import Trees

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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_traverse(rng, dtype, order):
    threshold = np.where(FEATURE >= 0, np.round(rng.normal(size=9), 1), 0.0)
    value = rng.normal(size=9)
    X = np.round(rng.normal(size=(70, 3)), 1).astype(dtype, order=order)
    X[rng.random(X.shape) < 0.2] = np.nan
    output = np.array([1, 0, 1], np.int32)
    trees = Trees(OFFSET, FEATURE, threshold, MISSING_LEFT, LEFT, RIGHT, value, output)
    raw = rng.normal(size=(2, 70))
    expected = raw.copy()

    leaves = leaf_indices(trees, X)
    traverse(trees, X, raw)

    for i in range(70):
        for t in range(3):
            leaf = leaf_of(X[i].astype(np.float64), t, threshold, np.isnan)
            assert leaves[i, t] == leaf
            expected[output[t], i] += value[OFFSET[t] + leaf]
    np.testing.assert_array_equal(raw, expected)
    assert leaves.dtype == np.int32


def test_traverse_codes(rng, codes):
    tree = slice(0, 5)
    bin_ = np.array([20, -1, 9, -1, -1], np.int32)
    leaf = rng.integers(-1, 2, 150).astype(np.int32) * 7  # -7, 0 or 7
    before = leaf.copy()

    traverse_codes(codes, FEATURE[tree], bin_, MISSING_LEFT[tree], LEFT[tree], RIGHT[tree], leaf)

    for i in range(150):
        reached = leaf_of(codes.columns[:, i], 0, bin_, lambda code: code == MISSING)
        assert leaf[i] == (reached if before[i] < 0 else before[i])
