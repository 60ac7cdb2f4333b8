"""Prediction on raw values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuens.kernels.bin_values import bin_values
from gpuens.kernels.traverse import Trees, leaf_indices, traverse
from gpuens.kernels.traverse_codes import traverse_codes


@pytest.fixture
def random_forest(random_tree):
    """Trees of different sizes, a lone root among them."""

    def forest(rng: Any, sizes: Any, n_features: int, n_outputs: int = 1) -> Trees:
        trees = [random_tree(rng, n_leaves, n_features) for n_leaves in sizes]
        offset = np.cumsum([0, *(len(t["feature"]) for t in trees)]).astype(np.int64)
        joined = {name: np.concatenate([t[name] for t in trees]) for name in trees[0]}
        return Trees(
            offset,
            joined["feature"],
            rng.normal(size=offset[-1]),
            joined["missing_left"],
            joined["left"],
            joined["right"],
            rng.normal(size=offset[-1]),
            (np.arange(len(sizes)) % n_outputs).astype(np.int32),
        )

    return forest


def awkward_values(rng, trees, n, n_features, dtype):
    """Missing values, infinities, the thresholds themselves and their neighbours."""
    X = rng.normal(size=(n, n_features)).astype(dtype)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[rng.random(X.shape) < 0.05] = np.inf
    X[rng.random(X.shape) < 0.05] = -np.inf
    near = rng.choice(trees.threshold, X.shape).astype(dtype)
    X = np.where(rng.random(X.shape) < 0.2, near, X)
    return np.where(rng.random(X.shape) < 0.1, np.nextafter(near, dtype(0)), X)


def run(target, trees, X, raw, layout=lambda a: a):
    X = target.view(target.array(X), layout)
    trees = Trees(*(target.array(a) for a in trees))
    filled = target.array(raw)
    assert target.run(traverse, trees, X, filled) is None
    return target.host(filled), target.host(target.run(leaf_indices, trees, X))


LAYOUTS = {
    "rows": lambda a: a,
    "columns": lambda a: np.asfortranarray(a) if isinstance(a, np.ndarray) else a,
    "gaps": lambda a: a[::-2, :],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "n_features", "n_outputs"), [(2, 1, 1), (700, 6, 1), (2100, 3, 4)])
def test_parity(target, oracle, same, random_forest, n, n_features, n_outputs, dtype, layout):
    rng = np.random.default_rng(n)
    n = target.rows(n)
    trees = random_forest(rng, [7, 1, 60, 2, 19, 300], n_features, n_outputs)
    X = awkward_values(rng, trees, n, n_features, dtype)
    n_used = len(LAYOUTS[layout](X))
    args = trees, X, rng.normal(size=(n_outputs, n_used)), LAYOUTS[layout]
    for actual, expected in zip(run(target, *args), run(oracle, *args), strict=True):
        same(actual, expected)


def test_parity_next_to_the_limits_of_float(target, oracle, same, random_forest):
    limits = np.array([-np.inf, -1.7e308, -2.3e-308, -5e-324, -0.0, 0.0, 5e-324, 1.7e308])
    trees = random_forest(np.random.default_rng(0), [60], 1)._replace()
    trees.threshold[:] = np.random.default_rng(1).choice(limits, len(trees.threshold))
    X = np.concatenate([limits, [np.inf, np.nan]])[:, None]
    args = trees, X, np.zeros((1, len(X)))
    for actual, expected in zip(run(target, *args), run(oracle, *args), strict=True):
        same(actual, expected)


def test_single_precision_is_compared_in_double(target):
    """A threshold between two neighbouring float32 numbers separates them."""
    low = np.float32(1.1)
    high = np.nextafter(low, np.float32(2))
    leaf, i32 = [-1, -1], np.int32
    trees = Trees(
        np.array([0, 3]),
        np.array([0, *leaf], i32),
        np.array([(float(low) + float(high)) / 2, 0.0, 0.0]),
        np.zeros(3, np.uint8),
        np.array([1, *leaf], i32),
        np.array([2, *leaf], i32),
        np.array([0.0, -1.0, 1.0]),
        np.zeros(1, i32),
    )
    raw, leaves = run(target, trees, np.array([[low], [high]], np.float32), np.zeros((1, 2)))
    assert raw.tolist() == [[-1.0, 1.0]] and leaves.tolist() == [[1], [2]]


def test_against_plain_python(oracle, random_forest):
    rng = np.random.default_rng(4)
    trees = random_forest(rng, [20, 1, 9], 3, n_outputs=2)
    X = awkward_values(rng, trees, 100, 3, np.float64)
    base = rng.normal(size=(2, 100))
    raw, leaves = run(oracle, trees, X, base)
    for row in range(100):
        expected = base[:, row].copy()
        for tree, root in enumerate(trees.offset[:-1]):
            node = root
            while trees.feature[node] >= 0:
                x = X[row, trees.feature[node]]
                left = trees.missing_left[node] if np.isnan(x) else x <= trees.threshold[node]
                node = root + (trees.left if left else trees.right)[node]
            assert leaves[row, tree] == node - root
            expected[trees.output[tree]] += trees.value[node]
        np.testing.assert_array_equal(raw[:, row], expected)


@given(st.integers(1, 40), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_codes_and_raw_values_reach_the_same_leaf(
    oracle, random_tree, random_forest, n_leaves, n_features, seed
):
    rng = np.random.default_rng(seed)
    trees = random_forest(rng, [n_leaves], n_features)
    thresholds = np.full((n_features, 255), np.inf)
    thresholds[:, :254] = np.sort(rng.normal(size=(n_features, 254)), axis=1)
    bin_ = rng.integers(0, 254, len(trees.feature)).astype(np.int32)
    trees.threshold[:] = thresholds[trees.feature, bin_]
    X = awkward_values(rng, trees, 50, n_features, np.float64)
    codes = oracle.run(bin_values, X, thresholds)
    leaf = np.full(50, -1, np.int32)
    structure = trees.feature, bin_, trees.missing_left, trees.left, trees.right
    oracle.run(traverse_codes, codes, *structure, leaf)
    np.testing.assert_array_equal(leaf, oracle.run(leaf_indices, trees, X)[:, 0])
