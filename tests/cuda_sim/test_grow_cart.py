"""Growth of classification and regression trees in the simulator."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpuens.kernels.cart.cuda import cuts, grow_cart, rows
from gpuens.kernels.cart.problem import (
    ENTROPY,
    GINI,
    MISCLASSIFICATION,
    POISSON,
    SQUARED_ERROR,
    GrownCart,
)
from gpuens.kernels.runtime.dispatch import Implementation, using
from tests.support.cart_problems import classes_target, mixed_problem, problem, rows_of


@pytest.fixture(autouse=True)
def threads_take_turns_quickly() -> Iterator[None]:
    """The simulator's threads wait for each other at every barrier."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


def on(implementation: Implementation) -> Any:
    """What ``Problem.grow`` takes."""

    def run(op: Any, *args: Any) -> Any:
        with using(implementation):
            return op(*args)

    return SimpleNamespace(run=run, array=np.array, host=np.asarray)


def check(case, **settings):
    (grown, records), (expected, expected_records) = (
        case.grow(on(i), **settings) for i in (Implementation.CUDA, Implementation.REFERENCE)
    )
    for name, actual, wanted in zip(GrownCart._fields, grown, expected, strict=True):
        np.testing.assert_array_equal(actual, wanted, err_msg=name, strict=True)
    np.testing.assert_array_equal(records, expected_records)
    return grown


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("criterion", [GINI, ENTROPY, MISCLASSIFICATION, SQUARED_ERROR, POISSON])
def test_criteria(criterion, n_outputs):
    n_classes = 3 if criterion <= MISCLASSIFICATION else 0
    case = mixed_problem(24, n_classes, n_outputs, n_trees=2, features=[0, 3, 4])
    assert check(case, criterion=criterion, max_depth=2).feature.size > 4


def test_monotone_constraints():
    case = mixed_problem(30, n_trees=1, features=[0, 2, 6]).with_monotone(1, -1, 0)
    assert check(case, criterion=SQUARED_ERROR, max_depth=2).feature.size > 3


@pytest.mark.parametrize("max_features", [1, 3])
def test_random_splits(max_features):
    case = mixed_problem(30, 2, n_trees=2, features=[0, 1, 3, 4])
    settings = {"random_splits": 1, "shuffle": 1, "max_features": max_features}
    assert check(case, max_depth=2, **settings).feature.size > 4


def test_small_pieces_grow_the_same_trees(monkeypatch):
    """Tiles of a few rows, memory for one item, orders of features of one node."""
    monkeypatch.setattr(rows, "SUMS_TILE", 5)
    monkeypatch.setattr(rows, "PARTITION_TILE", 7)
    monkeypatch.setattr(cuts, "SCRATCH_BYTES", 1)
    monkeypatch.setattr(grow_cart, "MOST_FEATURES", 1)
    check(mixed_problem(24, 3, n_trees=2, features=[0, 4]), max_depth=2, max_features=1, shuffle=1)


def test_the_first_feature_that_varies_counts():
    """Three rounds: one constant feature, two, then four at once of which the second splits
    worse than the third."""
    X = np.ones((8, 7))
    X[:, 4] = [1, 1, 1, 1, 1, 1, 1, 2]
    X[:, 5] = np.arange(8)
    case = problem(X, classes_target(np.arange(8) > 3))
    grown = check(case, max_features=1, max_depth=1)
    assert grown.feature[0] == 4


def test_partition_is_stable(rng):
    """Tiles that end within a block and after several of them."""
    n = rows.PARTITION_TILE + 70
    codes = rng.integers(0, 40, (2, n)).astype(np.uint8)
    table = SimpleNamespace(
        codes=codes, n_bins=np.array([39, 39], np.int32), categorical=np.array([0, 1], np.uint8)
    )
    records = np.arange(n, dtype=np.uint64) | np.uint64(2**32)
    nodes = np.zeros(
        2,
        [(name, np.int64) for name in ("begin", "end", "feature", "bin", "missing_left")]
        + [("categories", np.uint32, (2,))],
    )
    nodes["begin"], nodes["end"] = [0, n - 20], [n - 20, n]
    nodes["feature"], nodes["bin"], nodes["missing_left"] = [0, 1], [17, 0], [1, 0]
    nodes["categories"][1] = 2**31 + 5, 1

    n_left = rows.partition(table, records, nodes)

    row = np.arange(n)
    first = (codes[0] <= 17) | (codes[0] == 39)
    second = np.isin(codes[1], [0, 2, 31, 32])
    expected = []
    for part, left in ((row[:-20], first[:-20]), (row[-20:], second[-20:])):
        expected += [part[left], part[~left]]
    np.testing.assert_array_equal(rows_of(records), np.concatenate(expected))
    assert n_left.tolist() == [expected[0].size, expected[2].size]
