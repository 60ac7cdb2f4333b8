"""Update of the raw predictions."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.runtime.dtypes import NodeValues
from gpuens.kernels.statistics.add_leaf_values import add_leaf_values, add_values_of_trees


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


@pytest.mark.parametrize("factors", [(0.1, 0.1, 0.1), (0.1, 0.3, -2.0)])
def test_several_trees(target, oracle, same, factors):
    """Trees of different sizes, each with its own raw predictions."""
    rng = np.random.default_rng(5)
    n, sizes = target.rows(2000), (1, 40, 7)
    raw = rng.normal(size=(3, n))
    values = [NodeValues(own, own) for own in map(rng.normal, (0,) * 3, (1,) * 3, sizes)]
    leaf = np.stack([rng.integers(0, size, n) for size in sizes]).astype(np.int32)
    expected = [
        run(oracle, *rows, own.value, factor)
        for *rows, own, factor in zip(raw, leaf, values, factors, strict=True)
    ]
    for own in target.leaves(leaf):
        updated = target.array(raw)
        assert target.run(add_values_of_trees, updated, own, values, factors) is None
        same(target.host(updated), np.stack(expected))


@pytest.mark.parametrize("factors", [(0.1, 0.1), (0.3, -2.0)])
def test_several_outputs_of_one_tree(target, oracle, same, factors):
    rng = np.random.default_rng(6)
    n = target.rows(2000)
    raw, of_nodes = rng.normal(size=(2, n)), rng.normal(size=(2, 40))
    leaf = rng.integers(0, 40, (1, n)).astype(np.int32)
    expected = raw + np.array(factors)[:, None] * of_nodes[:, leaf[0]]
    for own in target.leaves(leaf):
        updated = target.array(raw)
        values = [NodeValues(line, line) for line in of_nodes]
        assert target.run(add_values_of_trees, updated, own, values, factors) is None
        same(target.host(updated), expected)


def test_parity_on_special_values(target, oracle, same):
    raw = np.array([np.nan, np.inf, -np.inf, 1e308, -0.0, 5e-324, 1.0])
    values = np.array([-0.0, 1e308, -5e-324])
    leaf = np.array([0, 1, 2, 2, 0, 2, 0], np.int32)
    same(run(target, raw, leaf, values, 1.0), run(oracle, raw, leaf, values, 1.0))
