"""Features that are passed over without being scored, on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from gpuens.kernels.cart.cpu import screen as screens
from gpuens.kernels.cart.problem import GINI, SQUARED_ERROR, CartTarget, GrownCart
from gpuens.kernels.runtime.compilation import callable_from_python
from gpuens.kernels.runtime.dispatch import Implementation
from tests.support.cart_problems import Problem, classes_target, problem, values_target
from tests.support.lanes import few

compiled = cache(callable_from_python)

N_ROWS, N_FEATURES, N_TREES = 2500, 14, 3
"""Small nodes of so many trees that look at all features read their codes row by row."""
CASES = {
    "two classes": {},
    "numbers": {},
    "numbers far from zero": {"offset": 1e6},
    "numbers of one outlier": {"outlier": 1e9},
    "weights": {"most_weight": 1000},
    "weights of numbers": {"most_weight": 1000, "offset": -50.0},
}


def case(
    n_classes: int, offset: float = 0.0, outlier: float = 0.0, most_weight: int = 1
) -> Problem:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N_ROWS, N_FEATURES))
    X[:, 3] = np.round(X[:, 3])
    X[:, 4] = 1.0
    X[:, 5] = rng.integers(0, 9, N_ROWS)  # categories
    X[rng.random(N_ROWS) < 0.1, 6] = np.nan
    X[:, 7] = X[:, 0]  # a tie, which the first of the two wins
    signal = X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.normal(size=N_ROWS)
    weight = rng.integers(1, most_weight + 1, N_ROWS)
    if n_classes:
        target = classes_target((signal > 0).astype(int), weight)
    else:
        signal[17] += outlier
        target = values_target(signal + offset, weight)
    multiplicity = rng.choice(4, (N_TREES, N_ROWS), p=(0.05, 0.6, 0.25, 0.1))
    return problem(X, target, multiplicity, categorical=(5,))


@pytest.mark.parametrize(("max_features", "least"), few([(N_FEATURES, 1), (9, 1), (9, 5)], 0, 1))
@pytest.mark.parametrize("name", CASES)
def test_parity_of_nodes_that_pass_over_features(oracle, same, name, max_features, least):
    numbers = "numbers" in name
    trees = case(0 if numbers else 2, **CASES[name])
    settings: dict[str, Any] = {
        "criterion": SQUARED_ERROR if numbers else GINI,
        "max_features": max_features,
        "shuffle": int(max_features < N_FEATURES),
        "min_samples_leaf": least,
        "max_depth": 6,
    }
    cpu = type(oracle)(Implementation.CPU, import_module("array_api_compat.numpy"))
    expected, expected_records = trees.grow(oracle, **settings)
    grown, records = trees.grow(cpu, **settings)
    for field, actual, wanted in zip(GrownCart._fields, grown, expected, strict=True):
        assert actual.shape == wanted.shape, field
        same(actual, wanted)
    same(records, expected_records)


def exceeds(table: np.ndarray, added: int, root: float) -> bool:
    """Return whether a feature is not passed over; ``table`` are its words by code."""
    best_ratio, ratio_to_beat = compiled(screens.best_ratio), compiled(screens.ratio_to_beat)
    return bool(best_ratio(table.copy(), added) > ratio_to_beat(root, added & 0xFFFFFFFF))


@pytest.mark.parametrize("is_regression", [False, True], ids=["classes", "numbers"])
def test_features_are_passed_over_below_their_gain_and_not_above_it(is_regression):
    """A bound a little above the best gain passes the feature over, one below it does not."""
    fill, root_to_beat = map(compiled, (screens.fill_words, screens.root_to_beat))
    rng = np.random.default_rng(3)
    for n in (33, 200, 5000):
        codes = rng.integers(0, 255, n)
        weights = rng.integers(1, 4, n)
        values = (codes > 90) ^ (rng.random(n) < 0.3)
        items = np.rint(1e9 * (values + rng.normal(size=n))).astype(np.int64) * weights
        items = items if is_regression else values.astype(np.int64)
        own = items if is_regression else items * weights
        total, weight = own.sum(), weights.sum()
        words = np.empty(n, np.int64)
        added, unit = fill(n, weight, is_regression, total, weights, items[:], words)
        order = np.argsort(codes, kind="stable")
        ends = np.flatnonzero(np.diff(codes[order]))
        left, below = np.cumsum(own[order])[ends], np.cumsum(weights[order])[ends]
        off = left.astype(float) - total / weight * below
        gain = (off**2 * weight / (below * (weight - below).astype(float))).max()
        gain *= 1.0 if is_regression else 2.0
        table = np.zeros(screens.N_CODES, np.int64)
        np.add.at(table, codes, words)
        for factor, expected in (0.5, True), (0.999, True), (1.001, False), (2.0, False):
            root = root_to_beat(gain * factor, 0.0, unit, weight)
            assert root > 0.0
            assert exceeds(table, added, root) == expected, (n, factor)


def filled(is_regression: bool, values: np.ndarray, weights: np.ndarray) -> tuple[Any, ...]:
    """Return the words of rows, their sum and its unit, the sums of the rows, and these by row."""
    own = values * weights
    total, weight = int(own.sum()), int(weights.sum())
    words = np.empty(values.size, np.int64)
    added, unit = compiled(screens.fill_words)(
        values.size, weight, is_regression, total, weights, own if is_regression else values, words
    )
    return words, added, unit, total, weight, own


def small_values(rng: np.random.Generator, n: int, kind: int, most: int) -> np.ndarray:
    """Return integers of 0 ... most, of which few, some or most differ from zero; not all alike."""
    share = (0.03, 0.5, 0.97)[kind % 3] ** rng.uniform(0.5, 2.0)
    values = (rng.random(n) < share) * rng.integers(1, most + 1, n)
    values[:2] = 0, 1
    return values


def left_sides(
    rng: np.random.Generator, own: np.ndarray, weights: np.ndarray, n_sides: int
) -> Iterator[np.ndarray]:
    """Return the rows with one of the codes of features of two: one, a few or many, with a sum near
    that of as many rows anywhere."""
    order = np.argsort(own, kind="stable")
    low, high = np.array_split(order, [np.searchsorted(own[order], 1)])
    share = own.sum() / weights.sum() / max(1.0, own[high].mean())
    for _ in range(n_sides):
        n = int(np.exp(rng.uniform(0.0, np.log(min(own.size / 2, 200)))))
        n_high = min(n, high.size, max(0, round(n * share) + int(rng.integers(-1, 2))))
        begins = rng.integers(0, high.size - n_high + 1), rng.integers(0, max(1, low.size - n))
        yield np.concatenate([
            high[begins[0] : begins[0] + n_high], low[begins[1] : begins[1] + n - n_high]
        ])  # fmt: skip


@pytest.mark.parametrize(
    ("is_regression", "most"),
    few([(False, 1), (True, 1), (True, 3)], 2),
    ids=["classes", "0 and 1", "0 to 3"],
)
def test_no_gain_is_passed_over_that_is_larger_by_a_little(is_regression, most):
    """Small integers do not add up to zero, and are doubled most often; gains are exact here."""
    rng = np.random.default_rng(7)
    root_to_beat = compiled(screens.root_to_beat)
    table = np.zeros(screens.N_CODES, np.int64)
    sizes = [33, 40, 64, 100, 333, 1000, 2000, 5000, 20_000] * 4 + [2**17, 2**20] * 2
    n_compared = 0
    for k, n in enumerate(sizes):
        weights = rng.integers(1, (1, 1, 4)[k % 3] + 1, n) if n < 2**20 else np.ones(n, np.int64)
        values = small_values(rng, n, k, most)
        words, added, unit, total, weight, own = filled(is_regression, values, weights)
        for rows in left_sides(rng, own, weights, 150):
            left, of_left = int(own[rows].sum()), int(weights[rows].sum())
            gain = (left * weight - total * of_left) ** 2 / (weight * of_left * (weight - of_left))
            gain *= 1.0 if is_regression else 2.0
            root = root_to_beat(gain * (1.0 - 2.0**-40), 0.0, unit, weight)
            n_compared += root > 0.0
            for word in words[rows].sum(), added - words[rows].sum():  # of the rows, of the others
                table[:2] = word, added - word
                assert root <= 0.0 or exceeds(table, added, root), (n, total, left, of_left)
    assert n_compared > 2000


def test_no_score_is_passed_over_that_is_larger_by_its_last_digit():
    """Scores far from zero differ by less than they are rounded by."""
    rng = np.random.default_rng(8)
    root_to_beat = compiled(screens.root_to_beat)
    table = np.zeros(screens.N_CODES, np.int64)
    for n in [33, 100, 1000] * 4:
        values = 2**49 + small_values(rng, n, 1, 1)
        words, added, unit, total, weight, own = filled(True, values, np.ones(n, np.int64))
        parent = float(total) ** 2 / weight
        for rows in left_sides(rng, values - 2**49, np.ones(n, np.int64), 50):
            left, of_left = int(own[rows].sum()), rows.size
            score = float(left) ** 2 / of_left + float(total - left) ** 2 / (weight - of_left)
            word = words[rows].sum()
            table[:2] = word, added - word
            root = root_to_beat(np.nextafter(score, 0.0), parent, unit, weight)
            assert root <= 0.0 or exceeds(table, added, root), (n, left, of_left)


def test_parity_of_zeros_and_ones_beside_far_numbers(oracle, same):
    """Once these are parted off, the others are small integers, with more ones than zeros."""
    n, n_ones = 1543, 1312
    y = np.zeros(n + 2, np.int64)
    y[:n_ones], y[n:] = 1, (2**48, -(2**48))
    X = np.zeros((n + 2, 10))
    for f in range(9):
        X[[*range(8), *range(n_ones, n_ones + 5)], f] = 1.0
    X[:, 5] = 0.0
    X[n_ones + 13, 5] = 1.0
    X[n:, 9] = 1.0, -1.0
    begin = np.arange(2, dtype=np.int64)
    target = CartTarget(np.zeros((0, 0), np.int32), y[None], np.ones(n + 2, np.int64), begin)
    trees = problem(X, target)
    settings: dict[str, Any] = {"criterion": SQUARED_ERROR, "max_depth": 3}
    cpu = type(oracle)(Implementation.CPU, import_module("array_api_compat.numpy"))
    for actual, wanted in zip(
        trees.grow(cpu, **settings)[0], trees.grow(oracle, **settings)[0], strict=True
    ):
        same(actual, wanted)


def test_ratio_is_that_of_the_best_cut_and_leaves_zeros():
    best_ratio = compiled(screens.best_ratio)
    rng = np.random.default_rng(9)
    table = np.zeros(screens.N_CODES, np.int64)
    for codes in ([7], [0, 255], [3, 90, 91, 254], np.arange(256)):
        weight = rng.integers(1, 100, len(codes))
        value = rng.integers(-(2**20), 2**20, len(codes))
        table[codes] = (value << 32) + weight
        found = best_ratio(table, int(table.sum()))
        assert not table.any()
        left, below = np.cumsum(value)[:-1], np.cumsum(weight)[:-1]
        off = left - value.sum() / weight.sum() * below
        wanted = (off**2 / (below * (weight.sum() - below))).max(initial=-1.0)
        assert found == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("n", [1, 9, 200])
def test_features_are_put_in_order(n):
    features = np.random.default_rng(n).permutation(200)
    drawn, order = np.zeros(4, np.uint64), np.full(200, -1)
    compiled(screens.put_in_order)(features, n, drawn, order)
    assert not drawn.any()
    assert order[:n].tolist() == np.sort(features[:n]).tolist()
    assert (order[n:] == -1).all()


def test_nothing_is_passed_over_before_a_candidate_is_known():
    assert compiled(screens.root_to_beat)(-np.inf, 1.0, 1.0, 10) < 0.0
