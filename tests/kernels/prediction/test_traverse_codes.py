"""Leaves of rows that are binned."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.prediction.traverse_codes import traverse_codes
from gpuens.kernels.runtime.dtypes import MISSING


def run(target, columns, tree, leaf):
    filled = target.array(leaf)
    order = ("feature", "bin_", "missing_left", "left", "right")
    arrays = (tree[name] for name in order)
    assert target.run(traverse_codes, target.codes(columns), *arrays, filled) is None
    return target.host(filled)


def table(rng, n_features, n):
    columns = rng.integers(0, 256, (n_features, n)).astype(np.uint8)
    columns[rng.random((n_features, n)) < 0.2] = MISSING
    return columns


@pytest.mark.parametrize("n_leaves", [1, 2, 31, 500])
@pytest.mark.parametrize(("n", "n_features"), [(1, 1), (1025, 3), (30_000, 11)])
def test_parity(target, oracle, same, random_tree, n, n_features, n_leaves):
    rng = np.random.default_rng(n_leaves)
    n = target.rows(n)
    tree = random_tree(rng, n_leaves, n_features)
    columns = table(rng, n_features, n)
    leaf = np.where(rng.random(n) < 0.3, rng.integers(0, 2 * n_leaves - 1, n), -1)
    args = columns, tree, leaf.astype(np.int32)
    expected = run(oracle, *args)
    same(run(target, *args), expected)
    np.testing.assert_array_equal(expected[leaf >= 0], leaf[leaf >= 0])


def test_against_plain_python(oracle, random_tree):
    rng = np.random.default_rng(0)
    tree, columns = random_tree(rng, 40, 4), table(rng, 4, 300)
    reached = run(oracle, columns, tree, np.full(300, -1, np.int32))
    for row in range(300):
        node = 0
        while tree["feature"][node] >= 0:
            code = columns[tree["feature"][node], row]
            left = tree["missing_left"][node] if code == MISSING else code <= tree["bin_"][node]
            node = tree["left" if left else "right"][node]
        assert reached[row] == node
