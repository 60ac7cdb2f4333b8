"""Update of the raw predictions."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.runtime.dtypes import NodeValues
from gpuens.kernels.statistics.add_leaf_values import add_leaf_values


def run(target, raw, leaf, values, factor=0.1):
    of_nodes = NodeValues(values, values)
    found = []
    for own in target.leaves(leaf):
        updated = target.array(raw)
        assert target.run(add_leaf_values, updated, own, of_nodes, factor) is None
        found.append(target.host(updated))
    np.testing.assert_array_equal(found[0], found[-1])
    return found[0]


@pytest.mark.parametrize("n_nodes", [1, 2, 255, 10_000])
@pytest.mark.parametrize("n", [1, 1023, 30_000])
def test_parity(target, oracle, same, n, n_nodes):
    rng = np.random.default_rng(n)
    n = target.rows(n)
    raw, values = rng.normal(size=n), rng.normal(size=n_nodes)
    leaf = rng.integers(0, n_nodes, n).astype(np.int32)
    expected = run(oracle, raw, leaf, values)
    same(run(target, raw, leaf, values), expected)
    np.testing.assert_array_equal(expected, raw + 0.1 * values[leaf])


def test_parity_on_special_values(target, oracle, same):
    raw = np.array([np.nan, np.inf, -np.inf, 1e308, -0.0, 5e-324, 1.0])
    values = np.array([-0.0, 1e308, -5e-324])
    leaf = np.array([0, 1, 2, 2, 0, 2, 0], np.int32)
    same(run(target, raw, leaf, values, 1.0), run(oracle, raw, leaf, values, 1.0))
