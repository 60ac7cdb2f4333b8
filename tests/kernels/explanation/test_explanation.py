"""Shapley values of trees: parity of the implementations, and the definition."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from gpuens.kernels.explanation.contributions import add_contributions
from gpuens.kernels.explanation.interventional import add_interventional, pattern_weights
from gpuens.kernels.explanation.program import TREES_TOGETHER, DepthFirstSplits, Program, lay_out
from gpuens.kernels.explanation.quadrature import rules_up_to
from gpuens.kernels.prediction.traverse import Trees
from tests.support.forest_problems import (
    CATEGORIES,
    NUMERIC,
    awkward_values,
    frozen,
    random_forest,
)

SIZES = (7, 1, 12) * 6
assert len(SIZES) > TREES_TOGETHER


@pytest.fixture
def problem(target, random_tree):
    """Trees of some kind, weights of their nodes, and a table, small for the simulator."""

    def make(kinds: Any, width: int, n_outputs: int, n: int, dtype: Any) -> Any:
        rng = np.random.default_rng(n)
        trees = frozen(random_forest(random_tree, rng, SIZES, 7, n_outputs, width, kinds))
        X = awkward_values(rng, trees, target.rows(n, 3), 7, dtype)
        return trees, rng.random(trees.feature.size) + 0.01, X

    return make


def on(target: Any, program: Program) -> Program:
    splits = DepthFirstSplits(*map(target.array, program.splits))
    return Program(splits, *map(target.array, program[1:]))


def explain(target: Any, laid_out: Any, X: np.ndarray, with_pairs: bool, n_outputs: int) -> Any:
    program, size = laid_out
    phi = target.array(np.zeros((n_outputs, X.shape[1], len(X))))
    pairs = target.array(np.zeros((n_outputs, X.shape[1] ** 2, len(X)))) if with_pairs else None
    target.run(add_contributions, on(target, program), size, target.array(X), phi, pairs)
    return [target.host(a) for a in (phi, pairs) if a is not None]


def explain_against(target: Any, laid_out: Any, X: Any, background: Any, n_outputs: int) -> Any:
    program, size = laid_out
    phi = target.array(np.zeros((n_outputs, X.shape[1], len(X))))
    args = target.array(X), target.array(background), phi
    target.run(add_interventional, on(target, program), size, *args)
    return target.host(phi)


@pytest.mark.parametrize("with_pairs", [False, True], ids=["features", "pairs"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kinds, width, n_outputs, n", [
    (NUMERIC, 1, 1, 1), (CATEGORIES, 1, 3, 40), (CATEGORIES, 3, 3, 150),
], ids=["a row", "trees of outputs", "wide leaves"])  # fmt: skip
def test_parity(target, oracle, same, problem, kinds, width, n_outputs, n, dtype, with_pairs):
    trees, cover, X = problem(kinds, width, n_outputs, n, dtype)
    laid_out = lay_out(trees, cover, n_outputs)
    args = laid_out, X, with_pairs, n_outputs
    for actual, expected in zip(explain(target, *args), explain(oracle, *args), strict=True):
        assert np.abs(expected).max() > 0.01
        same(actual, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kinds, width, n_outputs, n, n_background", [
    (NUMERIC, 1, 1, 1, 1), (CATEGORIES, 1, 3, 300, 7), (CATEGORIES, 3, 3, 20, 25),
], ids=["a row", "tables", "comparisons"])  # fmt: skip
def test_parity_against_a_background(
    target, oracle, same, problem, kinds, width, n_outputs, n, n_background, dtype
):
    trees, cover, X = problem(kinds, width, n_outputs, n, dtype)
    background = awkward_values(np.random.default_rng(9), trees, n_background, 7, dtype)
    laid_out = lay_out(trees, cover, n_outputs)
    args = laid_out, X, background, n_outputs
    expected = explain_against(oracle, *args)
    assert n == 1 or np.abs(expected).max() > 0.01
    same(explain_against(target, *args), expected)


PAIR_ORDERS = list(permutations(range(3)))
"""Orders of four features, two of which follow each other and are one."""


def expected_with(trees: Trees, cover: np.ndarray, row: np.ndarray, known: set[int]) -> float:
    """The expected value of the trees where some features of a row are known, by recursion."""

    def value(root: int, node: int) -> float:
        at = root + node
        f = trees.feature[at]
        if f < 0:
            return float(trees.value[at, 0])
        children = trees.left[at], trees.right[at]
        if f in known:
            goes_left = (
                trees.missing_left[at] if np.isnan(row[f]) else row[f] <= trees.threshold[at]
            )
            return value(root, children[0] if goes_left else children[1])
        weights = [weight(root, child) for child in children]
        values = [value(root, child) for child in children]
        return float(np.average(values, weights=weights))

    def weight(root: int, node: int) -> float:
        at = root + node
        if trees.feature[at] < 0:
            return float(cover[at])
        return weight(root, trees.left[at]) + weight(root, trees.right[at])

    return sum(value(root, 0) for root in trees.offset[:-1])


def test_values_are_the_mean_over_all_orders(random_tree, oracle):
    """The definition, on deep trees of few features: features repeat on paths."""
    rng = np.random.default_rng(3)
    trees = frozen(random_forest(random_tree, rng, (12, 1, 25), 4))
    cover = rng.random(trees.feature.size) + 0.01
    X = rng.normal(size=(3, 4))
    X[0, 1] = np.nan
    phi, pairs = explain(oracle, lay_out(trees, cover, 1), X, True, 1)
    for i, row in enumerate(X):
        values, interactions = np.zeros(4), np.zeros((4, 4))
        orders = list(permutations(range(4)))
        for order in orders:
            for k, f in enumerate(order):
                before = set(order[:k])
                gain = [expected_with(trees, cover, row, s) for s in (before, before | {f})]
                values[f] += (gain[1] - gain[0]) / len(orders)
                if k == 3:
                    continue
                both = [before | {order[k + 1]}, before | {f, order[k + 1]}]
                more = [expected_with(trees, cover, row, s) for s in both]
                low, high = sorted((f, order[k + 1]))
                joint = more[1] - more[0] - gain[1] + gain[0]
                interactions[low, high] += joint / (2 * len(PAIR_ORDERS))
        np.testing.assert_allclose(phi[0, :, i], values, atol=1e-13)
        np.testing.assert_allclose(pairs[0, :, i].reshape(4, 4), interactions, atol=1e-13)


def test_quadrature():
    points, weights = rules_up_to(12)
    for n in range(1, 13):
        rule = slice(n * (n - 1) // 2, n * (n + 1) // 2)
        exact = np.polynomial.legendre.leggauss(n)
        np.testing.assert_allclose(points[rule], (exact[0] + 1) / 2, rtol=1e-14)
        np.testing.assert_allclose(weights[rule], exact[1] / 2, rtol=1e-13)
        power = 2 * n - 1
        np.testing.assert_allclose(points[rule] ** power @ weights[rule], 1 / (power + 1))


def test_weights_of_patterns():
    weights = pattern_weights(20)
    assert weights[1, 0] == 1.0 and weights[1, 1] == 0.5 and weights[2, 1] == 1 / 6
    for d in range(1, 21):  # k + m = d: the row's alone get all that there is to share
        assert not weights[0].any()
        shares = [k * weights[k, d - k] for k in range(1, d + 1)]
        np.testing.assert_allclose(shares[-1], 1.0)


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf])
def test_weights_of_nodes_are_required(random_tree, wrong):
    trees = random_forest(random_tree, np.random.default_rng(0), (5, 3), 2)
    cover = np.ones(trees.feature.size)
    cover[trees.offset[1] :] = wrong
    with pytest.raises(ValueError, match=r"of tree 1 has a training weight \(cover\)"):
        lay_out(trees, cover, 1)
