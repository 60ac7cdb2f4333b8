"""Learning to rank: orders, gradients and measures of queries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gpuens.kernels.ranking.gradients import PairSettings, list_gradients, pair_gradients
from gpuens.kernels.ranking.measures import average_precisions, discounted_gains
from gpuens.kernels.ranking.order import order_queries
from gpuens.kernels.ranking.queries import Queries
from gpuens.kernels.scalars import ranking
from gpuens.kernels.scalars.primitives import vectorise

SIZES = [1, 2, 33, 1, 128, 3, 129, 300]
"""Rows of queries: one, less than a lane each, a run and one more, several merges."""
SETTINGS = {
    "LambdaRank": PairSettings(1.0, 30, True, True),
    "one rank": PairSettings(0.5, 1, False, True),
    "RankNet": PairSettings(2.0, 100, True, False),
}
discount = vectorise(ranking.discount)


def queries_of(sizes: list[int], target: Any) -> Queries:
    begin = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    of_row = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    return Queries(target.array(begin), target.array(of_row), max(sizes))


def documents(sizes: list[int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores with ties, zeros of both signs and large ones; gains, the same throughout a query."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    score = rng.integers(-40, 40, n) / 7.0
    score[rng.random(n) < 0.1] = -0.0
    score[rng.random(n) < 0.02] *= 1e4
    gain = 2.0 ** rng.integers(0, 5, n) - 1.0
    gain[sum(sizes[:2]) : sum(sizes[:3])] = 3.0
    return score, gain


@pytest.fixture
def sizes(target):
    return [3, 40, 1] if target.simulated else SIZES


def on(target: Any, sizes: list[int], seed: int = 0) -> tuple[Any, ...]:
    """Scores, gains, queries, order and discounts as arrays of a target."""
    score, gain = documents(sizes, seed)
    queries = queries_of(sizes, target)
    score, gain = target.array(score), target.array(gain)
    order = target.run(order_queries, score, queries)
    of_ranks = target.array(discount(np.arange(max(sizes), dtype=np.float64)))
    return score, gain, queries, order, of_ranks


def test_parity_of_order(target, oracle, same, sizes):
    found, expected = target.host(on(target, sizes)[3]), on(oracle, sizes)[3]
    same(found, expected)
    score, _ = documents(sizes)
    query = np.repeat(np.arange(len(sizes)), sizes)
    np.testing.assert_array_equal(expected, np.lexsort((np.arange(score.size), -score, query)))


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_parity_of_pairs(target, oracle, same, sizes, settings):
    def run(at: Any) -> np.ndarray:
        score, gain, queries, order, of_ranks = on(at, sizes)
        inverse = at.array(np.linspace(0.0, 0.2, len(sizes)))
        args = (score, gain, order, inverse, of_ranks, queries, settings)
        return at.host(at.run(pair_gradients, *args))

    expected = run(oracle)
    same(run(target), expected)
    gradient, hessian = expected
    assert np.isfinite(expected).all() and (hessian >= 0).all() and hessian.any()
    query = np.repeat(np.arange(len(sizes)), sizes)
    sums = np.bincount(query, gradient)
    assert np.abs(sums).max() < 1e-12 * max(1.0, np.abs(gradient).max()) * max(sizes)


@pytest.mark.parametrize("key", [0, 2**32 - 1])
def test_parity_of_lists(target, oracle, same, sizes, key):
    def run(at: Any) -> np.ndarray:
        score, gain, queries, _, _ = on(at, sizes)
        return at.host(at.run(list_gradients, score, gain, queries, key))

    expected = run(oracle)
    same(run(target), expected)
    assert np.isfinite(expected).all() and (expected[1] >= 0).all()


@pytest.mark.parametrize("depth", [1, 10, 300])
def test_parity_of_measures(target, oracle, same, sizes, depth):
    def run(at: Any) -> list[np.ndarray]:
        _, gain, queries, order, of_ranks = on(at, sizes)
        gains = at.run(discounted_gains, gain, order, queries, of_ranks, depth)
        precisions = at.run(average_precisions, gain, order, queries, depth)
        return [at.host(gains), at.host(precisions)]

    for found, expected in zip(run(target), run(oracle), strict=True):
        same(found, expected)


def test_the_pairs_of_two_documents(oracle):
    """By hand: Burges (2010), with the normalisation of LightGBM."""
    queries = queries_of([2], oracle)
    score, gain = np.array([0.3, 0.8]), np.array([3.0, 1.0])
    order = oracle.run(order_queries, score, queries)
    of_ranks = discount(np.arange(2.0))
    ideal = 3.0 + 1.0 / math.log2(3)

    def gradient(normalise: bool) -> Any:
        settings = PairSettings(2.0, 30, normalise, True)
        args = (score, gain, order, np.array([1.0 / ideal]), of_ranks, queries, settings)
        return oracle.run(pair_gradients, *args)

    change = (3.0 - 1.0) * (1.0 - 1.0 / math.log2(3)) / ideal
    p = 1.0 / (1.0 + math.exp(2.0 * (0.3 - 0.8)))
    slope, curvature = 2.0 * change * p, 4.0 * change * p * (1.0 - p)
    expected = [[-slope, slope], [curvature, curvature]]
    np.testing.assert_allclose(gradient(False), expected, rtol=1e-14)
    total = 2.0 * slope / 0.51
    factor = math.log2(1.0 + total) / total / 0.51
    np.testing.assert_allclose(gradient(True), np.array(expected) * factor, rtol=1e-13)


def test_the_gradient_is_the_derivative_of_the_pairs_logistic_loss(oracle):
    """Without normalisation and gains the loss is a smooth function of the scores."""
    rng = np.random.default_rng(0)
    score, gain = rng.normal(size=20), rng.integers(0, 3, 20).astype(np.float64)
    queries, settings = queries_of([12, 8], oracle), PairSettings(1.5, 20, False, False)
    better = gain[:, None] > gain
    better &= (np.arange(20)[:, None] < 12) == (np.arange(20) < 12)

    def loss(score: np.ndarray) -> float:
        gaps = score[:, None] - score
        return float(np.log1p(np.exp(-1.5 * gaps))[better].sum())

    order = oracle.run(order_queries, score, queries)
    args = (score, gain, order, np.ones(2), np.ones(12), queries, settings)
    gradient, _ = oracle.run(pair_gradients, *args)
    for i in range(20):
        step = 1e-5 * (np.arange(20) == i)
        slope = (loss(score + step) - loss(score - step)) / 2e-5
        assert gradient[i] == pytest.approx(slope, abs=1e-8)


def test_a_list_of_one_document_has_no_gradient(oracle):
    queries = queries_of([1, 1], oracle)
    found = oracle.run(list_gradients, np.array([3.0, -9.0]), np.array([0.0, 7.0]), queries, 5)
    np.testing.assert_array_equal(found, np.zeros((2, 2)))
