"""From the segments of a grown tree to the leaf of every row."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.growth.scatter_leaves import scatter_leaves


@pytest.mark.parametrize("n_trees", [1, 3])
def test_parity(target, oracle, same, pack, n_trees):
    rng = np.random.default_rng(n_trees)
    n_rows, n = target.rows(400), target.rows(400) // 2
    rows = np.concatenate([rng.permutation(n_rows)[:n] for _ in range(n_trees)])
    records = pack(rng.integers(-9, 9, rows.size), rng.integers(0, 9, rows.size), rows)
    cuts = np.sort(np.concatenate([np.arange(n_trees + 1) * n, [3, 3, n_trees * n - 1]]))
    begin, end = cuts[:-1], cuts[1:]
    tree = np.minimum(begin // n, n_trees - 1).astype(np.int32)
    leaf = np.arange(begin.size, dtype=np.int32) + 10
    segments = (begin, end, tree, leaf, (n_trees, n_rows))
    actual = target.host(target.run(scatter_leaves, target.array(records), *segments))
    same(actual, oracle.run(scatter_leaves, records, *segments))
    expected = np.full((n_trees, n_rows), -1, np.int32)
    for b, e, t, number in zip(begin, end, tree, leaf, strict=True):
        expected[t, rows[b:e]] = number
    np.testing.assert_array_equal(actual, expected)
