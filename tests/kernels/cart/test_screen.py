"""Features that are passed over without being scored, on the CPU."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from gpuens.kernels.cart.cpu import screen as screens
from gpuens.kernels.cart.problem import GINI, SQUARED_ERROR, GrownCart
from gpuens.kernels.runtime.compilation import callable_from_python
from gpuens.kernels.runtime.dispatch import Implementation
from tests.support.cart_problems import Problem, classes_target, problem, values_target

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


@pytest.mark.parametrize(("max_features", "least"), [(N_FEATURES, 1), (9, 5)])
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


@pytest.mark.parametrize("is_regression", [False, True], ids=["classes", "numbers"])
def test_features_are_passed_over_below_their_gain_and_not_above_it(is_regression):
    """A bound a little above the best gain passes the feature over, one below it does not."""
    fill, root_to_beat = map(callable_from_python, (screens.fill_words, screens.root_to_beat))
    exceeds = callable_from_python(screens.exceeds)
    rng = np.random.default_rng(3)
    sums, weights_left = np.empty((2, screens.N_CODES), np.int32)
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
        running = np.cumsum(table)
        sums[:], weights_left[:] = running >> 32, running & 0xFFFFFFFF
        for factor, expected in (0.5, True), (0.999, True), (1.001, False), (2.0, False):
            root = root_to_beat(gain * factor, 0.0, unit, weight)
            assert root > 0.0
            assert exceeds(sums, weights_left, added, root) == expected, (n, factor)


def test_nothing_is_passed_over_before_a_candidate_is_known():
    assert callable_from_python(screens.root_to_beat)(-np.inf, 1.0, 1.0, 10) < 0.0
