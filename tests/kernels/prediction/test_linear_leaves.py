"""The values of linear functions in leaves."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.prediction.linear_leaves import (
    LinearLeaves,
    add_linear_values,
    largest_linear_values,
)
from tests.support.forest_problems import frozen

N_FEATURES = 5
# The simulator warns of what hardware does in silence: rows with infinite values.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore:{what} encountered in scalar")
    for what in ("invalid value", "overflow")
]


def leaves(n_trees, n_outputs, seed=0):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, n_trees)
    offset = np.cumsum([0, *sizes])
    n_nodes = int(offset[-1])
    counts = rng.integers(0, 4, n_nodes)
    begin = np.cumsum([0, *counts])
    return frozen(LinearLeaves(
        offset,
        (np.arange(n_trees) % n_outputs).astype(np.int32),
        begin,
        rng.integers(0, N_FEATURES, begin[-1]).astype(np.int32),
        rng.normal(size=begin[-1]),
        rng.normal(size=n_nodes),
        rng.normal(size=n_nodes),
    ))  # fmt: skip


def rows(n, n_trees, of, dtype, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, N_FEATURES)).astype(dtype)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[rng.random(X.shape) < 0.05] = np.inf
    X[rng.random(X.shape) < 0.05] = np.finfo(dtype).max
    sizes = np.diff(of.offset)
    return X, (rng.random((n, n_trees)) * sizes).astype(np.int32)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize(("n", "n_trees", "n_outputs"), [(1, 1, 1), (65, 7, 3), (3000, 2, 1)])
def test_parity(target, oracle, same, n, n_trees, n_outputs, layout, dtype):
    n, of = target.rows(n, 150), leaves(n_trees, n_outputs)
    X, leaf = rows(n, n_trees, of, dtype)
    start = np.random.default_rng(2).normal(size=(n_outputs, n))
    expected, found = start.copy(), target.array(start)
    oracle.run(add_linear_values, of, X, leaf, expected)
    assert np.isfinite(expected).all() and (expected != start).all()
    own = LinearLeaves(*map(target.array, of))
    table = target.array(X) if layout == "C" else target.array(X.T.copy()).T
    target.run(add_linear_values, own, table, target.array(leaf), found)
    same(target.host(found), expected)


@pytest.mark.parametrize("n", [1, 3000])
def test_parity_of_the_largest(target, oracle, same, n):
    n, of = target.rows(n, 150), leaves(1, 1, seed=3)
    X, leaf = rows(n, 1, of, np.float64)
    leaf = np.where(np.arange(n) % 7 == 5, -1, leaf[:, 0]).astype(np.int32)
    expected = oracle.run(largest_linear_values, of, X, leaf)
    own = LinearLeaves(*map(target.array, of))
    for kind in target.leaves(leaf):
        same(target.run(largest_linear_values, own, target.array(X), kind), expected)


def test_against_plain_python(oracle):
    of = leaves(3, 2)
    X, leaf = rows(200, 3, of, np.float64)
    raw = np.zeros((2, 200))
    oracle.run(add_linear_values, of, X, leaf, raw)
    expected = np.zeros((2, 200))
    largest, node_of_first = np.zeros(int(of.offset[1])), leaf[:, 0]
    for row in range(200):
        for tree in range(3):
            node = of.offset[tree] + leaf[row, tree]
            value = of.intercept[node]
            with np.errstate(invalid="ignore", over="ignore"):
                for c in range(of.begin[node], of.begin[node + 1]):
                    value += of.coefficient[c] * X[row, of.feature[c]]
            finite = np.isfinite(value)
            expected[of.output[tree], row] += value if finite else of.value[node]
            if tree == 0 and finite and of.begin[node] < of.begin[node + 1]:
                largest[leaf[row, 0]] = max(largest[leaf[row, 0]], abs(value))
    np.testing.assert_array_equal(raw, expected)
    first = LinearLeaves(
        of.offset[:2], of.output[:1], of.begin[: of.offset[1] + 1], *of[3:5],
        of.intercept[: of.offset[1]], of.value[: of.offset[1]],
    )  # fmt: skip
    found = oracle.run(largest_linear_values, first, X, node_of_first)
    np.testing.assert_array_equal(found, largest)
