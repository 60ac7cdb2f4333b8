"""Rows down the trees: raw values and codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuens.kernels.binning.bin_values import bin_values
from gpuens.kernels.prediction.traverse import Trees, leaf_indices, traverse, traverse_codes
from gpuens.kernels.runtime.dtypes import MISSING
from tests.support.forest_problems import (
    CATEGORIES,
    LARGE,
    NUMERIC,
    SMALL,
    awkward_values,
    frozen,
    random_forest,
)


def run(target, trees, X, raw, layout=lambda a: a):
    X = target.view(target.array(X), layout)
    trees = Trees(*(target.array(a) for a in frozen(trees)))
    filled = target.array(raw)
    assert target.run(traverse, trees, X, filled) is None
    return target.host(filled), target.host(target.run(leaf_indices, trees, X))


@pytest.fixture
def assert_parity(target, oracle, same):
    """Equal predictions and leaves, on the target and on the oracle."""

    def check(trees: Trees, X: Any, raw: Any, *layout: Any) -> None:
        results = run(target, trees, X, raw, *layout), run(oracle, trees, X, raw, *layout)
        for actual, expected in zip(*results, strict=True):
            same(actual, expected)

    return check


LAYOUTS = {
    "rows": lambda a: a,
    "columns": lambda a: np.asfortranarray(a) if isinstance(a, np.ndarray) else a,
    "gaps": lambda a: a[::-2, :],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sizes", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize(("n", "n_features", "n_outputs"), [(2, 1, 1), (700, 6, 1), (2100, 3, 4)])
def test_parity(target, assert_parity, random_tree, n, n_features, n_outputs, sizes, dtype, layout):
    rng = np.random.default_rng(n)
    n = target.rows(n)
    trees = random_forest(random_tree, rng, sizes, n_features, n_outputs)
    X = awkward_values(rng, trees, n, n_features, dtype)
    n_used = len(LAYOUTS[layout](X))
    assert_parity(trees, X, rng.normal(size=(n_outputs, n_used)), LAYOUTS[layout])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kinds", [NUMERIC, CATEGORIES], ids=["numbers", "categories"])
@pytest.mark.parametrize("sizes", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize(("n", "width", "n_outputs"), [(1, 3, 3), (50, 1, 2), (900, 5, 7)])
def test_parity_of_forests(
    target, assert_parity, random_tree, n, width, n_outputs, sizes, kinds, dtype
):
    """Leaves of several values, splits by categories."""
    rng = np.random.default_rng(n)
    n = target.rows(n)
    trees = random_forest(random_tree, rng, sizes, 7, n_outputs, width, kinds)
    X = awkward_values(rng, trees, n, 7, dtype)
    assert_parity(trees, X, rng.normal(size=(n_outputs, n)))


@pytest.mark.parametrize("kinds", [NUMERIC, CATEGORIES], ids=["numbers", "categories"])
@pytest.mark.parametrize("sizes", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize(("n", "width", "n_outputs"), [(50, 1, 2), (900, 1, 1), (900, 3, 4)])
def test_parity_of_sums_in_float32(
    target, assert_parity, random_tree, n, width, n_outputs, sizes, kinds
):
    """Every sum is rounded; the rows differ from sums that are rounded at the end."""
    rng = np.random.default_rng(n)
    trees = random_forest(random_tree, rng, sizes, 7, n_outputs, width, kinds)
    trees.value[:] = trees.value.astype(np.float32)
    X = awkward_values(rng, trees, n, 7, np.float32)
    raw = rng.normal(size=(n_outputs, n)).astype(np.float32)
    assert_parity(trees, X, raw)
    wide = raw.astype(np.float64)
    traverse(trees, X, wide)
    traverse(trees, X, raw)
    assert (wide.astype(np.float32) != raw).any()


@pytest.mark.parametrize("n_values", [1, 2, 900, 2000])
def test_parity_whatever_leaves_have_in_common(target, assert_parity, random_tree, n_values):
    """Many leaves of a classification tree are alike; zeros of both signs are not."""
    rng = np.random.default_rng(n_values)
    trees = random_forest(random_tree, rng, [1500], 3, 2, 2)
    values = np.concatenate([[[0.0, -0.0], [-0.0, 0.0]], rng.normal(size=(n_values, 2))])[:n_values]
    trees.value[:] = values[rng.integers(0, n_values, len(trees.value))]
    X = awkward_values(rng, trees, target.rows(3000, 100), 3, np.float32)
    assert_parity(trees, X, np.full((2, len(X)), -0.0))


@pytest.mark.parametrize("missing", [0.0, 0.3], ids=["complete", "missing"])
def test_parity_of_a_chain(target, assert_parity, missing):
    """Depth 200: every other node leads on."""
    rng = np.random.default_rng(0)
    n_nodes = 401
    node = np.arange(n_nodes, dtype=np.int32)
    inner = (node % 2 == 0) & (node < n_nodes - 1)
    trees = Trees(
        np.array([0, n_nodes]),
        np.where(inner, node % 5, -1).astype(np.int32),
        rng.normal(size=n_nodes) - 2.5,
        rng.integers(0, 2, n_nodes).astype(np.uint8) * (rng.random(n_nodes) < 0.1),
        np.where(inner, node + 1, -1).astype(np.int32),
        np.where(inner, node + 2, -1).astype(np.int32),
        np.full(n_nodes, -1, np.int32),
        np.empty(0, np.uint32),
        np.zeros(5, np.int32),
        rng.normal(size=(n_nodes, 1)),
        np.zeros(1, np.int32),
    )
    X = rng.normal(size=(target.rows(1000, 60), 5)) + rng.integers(0, 3, (1, 5))
    X[rng.random(X.shape) < missing] = np.nan
    assert_parity(trees, X, np.zeros((1, len(X))))


def test_parity_next_to_the_limits_of_float(target, assert_parity, random_tree):
    limits = np.array([-np.inf, -1.7e308, -2.3e-308, -5e-324, -0.0, 0.0, 5e-324, 1.7e308])
    X = np.concatenate([limits, [np.inf, np.nan]])[:, None]
    for n_leaves in (60, 300):
        trees = random_forest(random_tree, np.random.default_rng(0), [n_leaves], 1)
        trees.threshold[:] = np.random.default_rng(1).choice(limits, len(trees.threshold))
        for n in (1, 7, target.rows(100, 7)):
            table = np.tile(X, (n, 1))
            assert_parity(trees, table, np.zeros((1, len(table))))


@pytest.mark.parametrize("n_leaves", [3, 300])
def test_thresholds_beyond_the_type_of_the_table(target, assert_parity, random_tree, n_leaves):
    """For float32 they lie between neighbours, below the smallest and above the largest."""
    rng = np.random.default_rng(n_leaves)
    trees = random_forest(random_tree, rng, [n_leaves], 2)
    limits = [1e300, -1e300, 1e-60, -1e-60, 3.4028235e38, 3.40282351e38, 1.0 + 1e-12, 1.0 - 1e-12]
    trees.threshold[:] = rng.choice(limits, len(trees.threshold))
    values = np.array([*limits, 0.0, -0.0, 1.0, np.inf, -np.inf, np.nan])
    with np.errstate(over="ignore"):
        X = rng.choice(values, (target.rows(1000, 50), 2)).astype(np.float32)
    assert_parity(trees, X, np.zeros((1, len(X))))


@pytest.mark.parametrize("n", [0, 1, 70])
def test_no_trees_and_no_rows(target, assert_parity, random_tree, n):
    rng = np.random.default_rng(0)
    some = random_forest(random_tree, rng, [5, 300], 2, 3, 2, CATEGORIES)
    none = Trees(
        some.offset[:1],
        *(array[:0] for array in some[1:8]),
        some.n_categories,
        some.value[:0],
        some.output[:0],
    )
    if n:
        assert_parity(none, rng.normal(size=(n, 2)), rng.normal(size=(3, n)))
    elif not target.simulated:
        assert_parity(some, np.empty((0, 2)), np.empty((3, 0)))


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
        np.full(3, -1, i32),
        np.empty(0, np.uint32),
        np.zeros(1, i32),
        np.array([[0.0], [-1.0], [1.0]]),
        np.zeros(1, i32),
    )
    raw, leaves = run(target, trees, np.array([[low], [high]], np.float32), np.zeros((1, 2)))
    assert raw.tolist() == [[-1.0, 1.0]] and leaves.tolist() == [[1], [2]]


def in_left_set(trees, node, x):
    """Whether a split by categories sends a value left."""
    n = trees.n_categories[trees.feature[node]]
    if not (np.isfinite(x) and x == int(x) and 0 <= x < n):
        return trees.missing_left[node]
    word, bit = divmod(int(x), 32)
    return int(trees.categories[trees.category_begin[node] + word]) >> bit & 1


@pytest.mark.parametrize("kinds", [NUMERIC, CATEGORIES], ids=["numbers", "categories"])
def test_against_plain_python(oracle, random_tree, kinds):
    rng = np.random.default_rng(4)
    trees = random_forest(random_tree, rng, [20, 1, 9], 3, 3, 2, kinds)
    X = awkward_values(rng, trees, 100, 3, np.float64)
    base = rng.normal(size=(3, 100))
    raw, leaves = run(oracle, trees, X, base)
    assert (trees.category_begin >= 0).any() == bool(kinds)
    for row in range(100):
        expected = base[:, row].copy()
        for tree, root in enumerate(trees.offset[:-1]):
            node = root
            while trees.feature[node] >= 0:
                x = X[row, trees.feature[node]]
                if trees.category_begin[node] >= 0:
                    left = in_left_set(trees, node, x)
                else:
                    left = trees.missing_left[node] if np.isnan(x) else x <= trees.threshold[node]
                node = root + (trees.left if left else trees.right)[node]
            assert leaves[row, tree] == node - root
            for j in range(2):
                expected[trees.output[tree] + j] += trees.value[node, j]
        np.testing.assert_array_equal(raw[:, row], expected)


@given(st.integers(1, 40), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_codes_and_raw_values_reach_the_same_leaf(oracle, random_tree, n_leaves, n_features, seed):
    rng = np.random.default_rng(seed)
    trees = random_forest(random_tree, rng, [n_leaves], n_features)
    thresholds = np.full((n_features, 255), np.inf)
    thresholds[:, :254] = np.sort(rng.normal(size=(n_features, 254)), axis=1)
    bin_ = rng.integers(0, 254, len(trees.feature)).astype(np.int32)
    trees.threshold[:] = thresholds[trees.feature, bin_]
    X = awkward_values(rng, trees, 50, n_features, np.float64)
    codes = oracle.run(bin_values, X, thresholds)
    leaf = np.full(50, -1, np.int32)
    structure = trees.feature, bin_, trees.missing_left, trees.left, trees.right
    oracle.run(traverse_codes, codes, trees.offset, *structure, leaf[None])
    np.testing.assert_array_equal(leaf, oracle.run(leaf_indices, trees, X)[:, 0])


def run_codes(target, columns, trees, leaves):
    """The leaves of rows, a line a tree."""
    offset = np.cumsum([0, *(len(tree["feature"]) for tree in trees)])
    order = ("feature", "bin_", "missing_left", "left", "right")
    arrays = [np.concatenate([tree[name] for tree in trees]) for name in order]
    found = []
    for filled in target.leaves(leaves):
        codes = target.codes(columns)
        assert target.run(traverse_codes, codes, offset, *arrays, filled) is None
        found.append(target.host_leaves(filled))
    np.testing.assert_array_equal(found[0], found[-1])
    return found[0]


def table(rng, n_features, n):
    columns = rng.integers(0, 256, (n_features, n)).astype(np.uint8)
    columns[rng.random((n_features, n)) < 0.2] = MISSING
    return columns


@pytest.mark.parametrize("sizes", [[1], [2], [500], [31, 1, 9, 2]], ids=str)
@pytest.mark.parametrize(("n", "n_features"), [(1, 1), (1025, 3), (30_000, 11)])
def test_parity_of_codes(target, oracle, same, random_tree, n, n_features, sizes):
    rng = np.random.default_rng(sizes[0])
    n = target.rows(n)
    trees = [random_tree(rng, n_leaves, n_features) for n_leaves in sizes]
    columns = table(rng, n_features, n)
    inside = np.stack([rng.integers(0, 2 * n_leaves - 1, n) for n_leaves in sizes])
    leaf = np.where(rng.random(inside.shape) < 0.3, inside, -1)
    args = columns, trees, leaf.astype(np.int32)
    expected = run_codes(oracle, *args)
    same(run_codes(target, *args), expected)
    np.testing.assert_array_equal(expected[leaf >= 0], leaf[leaf >= 0])


def test_codes_against_plain_python(oracle, random_tree):
    rng = np.random.default_rng(0)
    tree, columns = random_tree(rng, 40, 4), table(rng, 4, 300)
    (reached,) = run_codes(oracle, columns, [tree], np.full((1, 300), -1, np.int32))
    for row in range(300):
        node = 0
        while tree["feature"][node] >= 0:
            code = columns[tree["feature"][node], row]
            left = tree["missing_left"][node] if code == MISSING else code <= tree["bin_"][node]
            node = tree["left" if left else "right"][node]
        assert reached[row] == node
