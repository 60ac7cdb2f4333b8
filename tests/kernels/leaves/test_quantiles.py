"""Quantiles in leaves, and of the targets in leaves."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuens.kernels.leaves.quantiles import (
    SHARE_BITS,
    LeafTargets,
    leaf_quantiles,
    least_shares,
    quantile_of_leaves,
)

NONE = np.zeros(0, np.int64)
QUANTILES = (0.5, 0.1, 0.9, 1 / 3, 1e-9, 1 - 1e-9)


def run_in_leaves(target, leaf, values, weight, quantile, n_nodes):
    arrays = [target.array(a) for a in (values, weight)]
    found = [
        target.run(leaf_quantiles, own, *arrays, quantile, n_nodes) for own in target.leaves(leaf)
    ]
    np.testing.assert_array_equal(found[0], found[-1])
    return found[0]


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
        actual = run_in_leaves(
            target, leaf, values, weight if weighted else NONE, quantile, n_nodes
        )
        ones = np.ones(leaf.size, np.int64)
        same(actual, expected(leaf, values, weight if weighted else ones, quantile, n_nodes))


def test_without_weights_it_is_numpys(target):
    leaf, values, _ = table(target.rows(400), 4)
    for quantile in (0.25, 0.5):
        actual = run_in_leaves(target, leaf, values, NONE, quantile, 4)
        for node in (0, 1, 3):
            rows = values[leaf == node]
            theirs = np.quantile(rows, quantile, method="averaged_inverted_cdf")
            assert actual[node] == pytest.approx(theirs, rel=1e-15)


def test_a_weight_of_two_is_two_rows(target, same):
    leaf, values, weight = table(target.rows(300), 3)
    weight = weight % 4 + 1
    repeated = np.repeat(np.arange(leaf.size), weight)
    for quantile in (0.5, 0.8):
        actual = run_in_leaves(target, leaf, values, weight, quantile, 3)
        same(actual, run_in_leaves(target, leaf[repeated], values[repeated], NONE, quantile, 3))


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(1, 5)), min_size=1), st.data())
def test_no_constant_has_a_lower_quantile_loss(oracle, rows, data):
    quantile = data.draw(st.sampled_from(QUANTILES))
    values, weight = (np.array(column) for column in zip(*rows, strict=True))
    leaf = np.zeros(values.size, np.int32)
    (found,) = run_in_leaves(oracle, leaf, values.astype(float), weight, quantile, 1)

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


ONE = 1 << SHARE_BITS
Leaf = list[tuple[int, int]]


def targets_of(trees: list[list[Leaf]]) -> LeafTargets:
    """Trees given by their leaves, each a list of (rank, weight); node 0 is an inner one."""
    segments, entries = [], []
    for leaves in trees:
        place = 0
        segments.append((0, sum(map(len, leaves))))
        for leaf in leaves:
            segments.append((place, place + len(leaf)))
            place += len(leaf)
            so_far, total = 0, sum(weight for _, weight in leaf)
            for rank, weight in sorted(leaf):
                so_far += weight
                entries.append(rank << 32 | -(-so_far * ONE // total))
    n_nodes = [1 + len(leaves) for leaves in trees]
    n_entries = [sum(map(len, leaves)) for leaves in trees]
    return LeafTargets(
        np.concatenate([[0], np.cumsum(n_nodes)]).astype(np.int64),
        np.concatenate([[0], np.cumsum(n_entries)]).astype(np.int64),
        np.array(segments, np.int32),
        np.array(entries, np.int64),
    )


def random_trees(seed: int, n_trees: int, n_ranks: int, most: int) -> list[list[Leaf]]:
    rng = np.random.default_rng(seed)

    def leaf() -> Leaf:
        n = rng.integers(1, most + 1)
        return list(
            zip(rng.integers(0, n_ranks, n).tolist(), rng.integers(1, 32, n).tolist(), strict=True)
        )

    return [[leaf() for _ in range(rng.integers(1, 4))] for _ in range(n_trees)]


def run(target, targets, leaf, least):
    arrays = LeafTargets(*map(target.array, targets))
    return target.host(
        target.run(quantile_of_leaves, arrays, target.array(leaf), target.array(least))
    )


def rows_of(trees: list[list[Leaf]], n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(1, 1 + len(leaves), n) for leaves in trees], axis=1).astype(
        np.int32
    )


def by_hand(trees: list[list[Leaf]], row: np.ndarray, quantile: Fraction) -> int:
    """In exact fractions."""
    mass: dict[int, Fraction] = {}
    for leaves, node in zip(trees, row.tolist(), strict=True):
        leaf = leaves[node - 1]
        total = sum(weight for _, weight in leaf)
        for rank, weight in leaf:
            mass[rank] = mass.get(rank, Fraction(0)) + Fraction(weight, total * len(trees))
    so_far = Fraction(0)
    for rank in sorted(mass):
        so_far += mass[rank]
        if so_far >= quantile:
            return rank
    raise AssertionError


@pytest.mark.parametrize("most", [1, 3, 40])
@pytest.mark.parametrize("n_ranks", [1, 2, 500, 2**31 - 1])
@pytest.mark.parametrize("n_trees", [1, 7, 60])
def test_parity(target, oracle, same, n_trees, n_ranks, most):
    n = 12 if target.simulated else 200
    trees = random_trees(n_trees + most, min(n_trees, 7) if target.simulated else n_trees,
                         n_ranks, most)  # fmt: skip
    targets, leaf = targets_of(trees), rows_of(trees, n)
    least = least_shares(np.array([0.0, 0.05, 0.5, 0.9, 1.0]), len(trees))
    same(run(target, targets, leaf, least), run(oracle, targets, leaf, least))


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 12), st.integers(0, 24))
@example(0, 1, 1, 12)
def test_against_fractions(oracle, seed, n_trees, most, twelfths):
    """Also where weights add up to the quantile exactly."""
    trees = random_trees(seed, n_trees, 20, most)
    leaf = rows_of(trees, 3, seed)
    least = least_shares(np.array([twelfths / 24]), n_trees)
    found = run(oracle, targets_of(trees), leaf, least)[:, 0]
    quantile = Fraction(twelfths, 24)
    assert found.tolist() == [by_hand(trees, row, quantile) for row in leaf]


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 9))
def test_quantiles_rise_from_the_lowest_to_the_highest_rank(oracle, seed, n_trees, most):
    trees = random_trees(seed, n_trees, 50, most)
    leaf = rows_of(trees, 4, seed)
    found = run(oracle, targets_of(trees), leaf, least_shares(np.linspace(0, 1, 11), n_trees))
    assert bool((np.diff(found, axis=1) >= 0).all())
    for row, ranks in zip(leaf.tolist(), found, strict=True):
        inside = [r for leaves, node in zip(trees, row, strict=True) for r, _ in leaves[node - 1]]
        assert ranks[0] == min(inside) and ranks[-1] == max(inside)
        assert set(ranks.tolist()) <= set(inside)


def test_ties_go_to_the_lower_rank(target):
    trees = [[[(0, 1), (4, 1)]], [[(0, 1), (7, 1)]]]
    leaf = np.ones((1, 2), np.int32)
    least = least_shares(np.array([0.5, math.nextafter(0.5, 1), 0.75, 0.76]), 2)
    assert run(target, targets_of(trees), leaf, least).tolist() == [[0, 0, 4, 7]]


def test_least_shares():
    least = least_shares(np.array([0.0, 1e-300, 0.1, 0.5, 1.0]), 10)
    assert least.dtype == np.int64
    assert least.tolist() == [1, 1, ONE, 5 * ONE, 10 * ONE]


def test_no_rows(target, oracle, same):
    trees = random_trees(0, 3, 9, 4)
    leaf, least = np.empty((0, 3), np.int32), least_shares(np.array([0.5]), 3)
    found = run(target, targets_of(trees), leaf, least)
    same(found, np.empty((0, 1), np.int32))
