"""Weighted quantiles in the leaves of a tree."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuens.kernels.leaves.leaf_quantiles import leaf_quantiles

NONE = np.zeros(0, np.int64)
QUANTILES = (0.5, 0.1, 0.9, 1 / 3, 1e-9, 1 - 1e-9)


def run(target, leaf, values, weight, quantile, n_nodes):
    arrays = (target.array(a) for a in (leaf, values, weight))
    return target.run(leaf_quantiles, *arrays, quantile, n_nodes)


def table(n, n_nodes, seed=0):
    """Ties, zeros of both signs, huge and tiny values, rows outside, nodes without rows."""
    rng = np.random.default_rng(seed)
    leaf = rng.integers(-1, n_nodes, n).astype(np.int32)
    leaf[leaf == n_nodes // 2] = -1
    values = rng.normal(size=n) * 10.0 ** rng.integers(-3, 4, n)
    values[rng.random(n) < 0.3] = rng.choice([-0.0, 0.0, 1.0, -1.0, 1e300, -5e-324])
    return leaf, values, rng.integers(1, 2**40, n)


def expected(leaf, values, weight, quantile, n_nodes):
    """From the definition, in exact fractions where float64 would round."""
    result = np.zeros(n_nodes)
    for node in range(n_nodes):
        rows = np.flatnonzero(leaf == node)
        if rows.size == 0:
            continue
        rows = rows[np.argsort(values[rows])]
        running = np.cumsum(weight[rows])
        share = Fraction(quantile * float(running[-1]))  # the contract's one rounded product
        at_least = next(i for i, w in enumerate(running.tolist()) if w >= share)
        beyond = next((i for i, w in enumerate(running.tolist()) if w > share), at_least)
        result[node] = 0.5 * values[rows[at_least]] + 0.5 * values[rows[beyond]] + 0.0
    return result


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n, n_nodes", [(1, 1), (2, 3), (257, 1), (5000, 9)])
def test_parity_and_definition(target, same, n, n_nodes, weighted):
    leaf, values, weight = table(target.rows(n), n_nodes)
    if n == 1:
        leaf[:] = 0
    for quantile in QUANTILES:
        actual = run(target, leaf, values, weight if weighted else NONE, quantile, n_nodes)
        ones = np.ones(leaf.size, np.int64)
        same(actual, expected(leaf, values, weight if weighted else ones, quantile, n_nodes))


def test_without_weights_it_is_numpys(target):
    leaf, values, _ = table(target.rows(400), 4)
    for quantile in (0.25, 0.5):
        actual = run(target, leaf, values, NONE, quantile, 4)
        for node in (0, 1, 3):
            rows = values[leaf == node]
            theirs = np.quantile(rows, quantile, method="averaged_inverted_cdf")
            assert actual[node] == pytest.approx(theirs, rel=1e-15)


def test_a_weight_of_two_is_two_rows(target, same):
    leaf, values, weight = table(target.rows(300), 3)
    weight = weight % 4 + 1
    repeated = np.repeat(np.arange(leaf.size), weight)
    for quantile in (0.5, 0.8):
        actual = run(target, leaf, values, weight, quantile, 3)
        same(actual, run(target, leaf[repeated], values[repeated], NONE, quantile, 3))


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(1, 5)), min_size=1), st.data())
def test_no_constant_has_a_lower_quantile_loss(oracle, rows, data):
    quantile = data.draw(st.sampled_from(QUANTILES))
    values, weight = (np.array(column) for column in zip(*rows, strict=True))
    leaf = np.zeros(values.size, np.int32)
    (found,) = run(oracle, leaf, values.astype(float), weight, quantile, 1)

    def loss(f: float) -> Fraction:
        q, residuals = Fraction(quantile), [Fraction(float(v)) - Fraction(f) for v in values]
        parts = (int(w) * max(q * r, (q - 1) * r) for r, w in zip(residuals, weight, strict=True))
        return sum(parts, Fraction(0))

    least = min(loss(float(v)) for v in values)
    slack = Fraction(1, 10**9)  # the product of quantile and total is rounded
    assert loss(float(found)) <= least * (1 + slack) + slack


@pytest.mark.parametrize("order", ["ascending", "descending", "organ pipe", "equal", "sawtooth"])
def test_no_order_of_the_rows_takes_long(order):
    """A search in quadratic time would take minutes."""
    n = 400_000
    rank = np.arange(n, dtype=float)
    values = {
        "ascending": rank,
        "descending": -rank,
        "organ pipe": np.minimum(rank, n - rank),
        "equal": np.zeros(n),
        "sawtooth": rank % 1000,
    }[order]
    for quantile in (0.5, 0.9):
        (found,) = leaf_quantiles(np.zeros(n, np.int32), values, NONE, quantile, 1)
        assert found == np.quantile(values, quantile, method="averaged_inverted_cdf")
