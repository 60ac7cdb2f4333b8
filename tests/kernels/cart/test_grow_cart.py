"""Growth of classification and regression trees: the same trees from every implementation,
and what holds for each of them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from gpuens.kernels.cart import problem as problems
from gpuens.kernels.cart.problem import (
    ABSOLUTE_ERROR,
    COUNT_SHIFT,
    ENTROPY,
    GINI,
    MISCLASSIFICATION,
    POISSON,
    SQUARED_ERROR,
    WEIGHT_MASK,
    GrownCart,
)
from gpuens.kernels.growth.params import UNLIMITED
from gpuens.kernels.runtime.dispatch import Implementation
from tests.kernels.implementations import Target
from tests.support.cart_problems import (
    UNIT,
    Problem,
    classes_target,
    leaves_by_values,
    mixed_problem,
    nodes_of,
    problem,
    rows_of,
    values_target,
)
from tests.support.lanes import few

CRITERIA = {
    "gini": GINI,
    "entropy": ENTROPY,
    "misclassification": MISCLASSIFICATION,
    "squared error": SQUARED_ERROR,
    "poisson": POISSON,
    "absolute error": ABSOLUTE_ERROR,
}
CLASSIFICATION = (GINI, ENTROPY, MISCLASSIFICATION)
SETTINGS: dict[str, dict[str, Any]] = {
    "without limits": {},
    "depth": {"max_depth": 3},
    "best first": {"max_leaves": 7},
    "one leaf": {"max_leaves": 1},
    "large leaves": {"min_samples_leaf": 6},
    "large nodes": {"min_samples_split": 25},
    "heavy leaves": {"min_weight_fraction": 0.06},
    "few features": {"max_features": 2, "shuffle": 1},
    "one feature, large leaves": {"max_features": 1, "shuffle": 1, "min_samples_leaf": 4},
    "random": {"random_splits": 1},
    "random, one feature": {"random_splits": 1, "max_features": 1, "shuffle": 1},
    "random, best first": {"random_splits": 1, "max_leaves": 6, "min_samples_leaf": 2},
}
SMALL = {"n": 24, "n_trees": 2, "features": (0, 2, 3, 4, 5)}
"""What the simulator and the strict library grow."""


@pytest.fixture(autouse=True)
def threads_take_turns_quickly() -> Iterator[None]:
    """The simulator's threads wait for each other at every barrier."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


@functools.cache
def cached_problem(monotone: tuple[int, ...], arguments: tuple[Any, ...]) -> Problem:
    case = mixed_problem(**dict(arguments))
    return case.with_monotone(*monotone) if monotone else case


@functools.cache
def expected_trees(oracle: Any, monotone: Any, arguments: Any, settings: Any) -> Any:
    return cached_problem(monotone, arguments).grow(oracle, **dict(settings))


def check_parity(target, oracle, same, settings, monotone=(), **arguments):
    """Equal trees, and equal records behind them."""
    slow = target.xp.__name__ == "array_api_strict"
    if target.simulated or slow:
        arguments |= SMALL
        monotone = tuple(monotone[f] for f in SMALL["features"] if monotone)
    if slow:
        settings = settings | {"max_depth": 2}
        settings["max_leaves"] = min(settings.get("max_leaves", UNLIMITED), 3)
    key = monotone, tuple(arguments.items())
    expected, expected_records = expected_trees(oracle, *key, tuple(settings.items()))
    grown, records = cached_problem(*key).grow(target, **settings)
    for name, actual, wanted in zip(GrownCart._fields, grown, expected, strict=True):
        assert actual.shape == wanted.shape, name
        same(actual, wanted)
    same(records, expected_records)
    return grown


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("criterion", ["gini", "squared error"])
def test_parity_of_settings(target, oracle, same, criterion, settings):
    settings = {"criterion": CRITERIA[criterion], **SETTINGS[settings]}
    n_classes = 3 if criterion == "gini" else 0
    check_parity(target, oracle, same, settings, n=120, n_classes=n_classes)


@pytest.mark.parametrize("wide", few([False, True], 0), ids=["uint8", "uint32"])
@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("settings", ["without limits", "random, one feature"])
def test_parity_of_criteria(
    target, oracle, same, monkeypatch, criterion, n_outputs, wide, settings
):
    """In wide codes, features with more than five bins have many for a GPU."""
    monkeypatch.setattr(problems, "FEW_BINS", 5 if wide else 255)
    n_classes = (3 if n_outputs == 1 else 2) if CRITERIA[criterion] in CLASSIFICATION else 0
    settings = {"criterion": CRITERIA[criterion], **SETTINGS[settings]}
    arguments = {"n": 60, "n_classes": n_classes, "n_outputs": n_outputs, "wide": wide}
    if wide:
        arguments["n_categories"] = 200 if n_outputs == 1 else 300
    check_parity(target, oracle, same, settings, **arguments)


@pytest.mark.parametrize("settings", ["without limits", "best first", "random"])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_parity_under_monotone_constraints(target, oracle, same, criterion, settings):
    n_classes = 2 if CRITERIA[criterion] in CLASSIFICATION else 0
    settings = {"criterion": CRITERIA[criterion], **SETTINGS[settings]}
    monotone = (1, 0, -1, 0, 0, 0, 0)
    check_parity(target, oracle, same, settings, monotone, n=90, n_classes=n_classes)


@pytest.mark.parametrize(
    ("criterion", "least"),
    [(GINI, 0.02), (SQUARED_ERROR, 0.4 * UNIT**2), (ABSOLUTE_ERROR, 0.1 * UNIT)],
)
def test_parity_with_a_least_gain(target, oracle, same, criterion, least):
    n_classes = 2 if criterion == GINI else 0
    settings = {"criterion": criterion, "min_gain": least}
    grown = check_parity(target, oracle, same, settings, n=120, n_classes=n_classes)
    weight = grown.statistics[0, : max(n_classes, 1)].sum() & WEIGHT_MASK
    gains = nodes_of(grown, 0)["gain"]
    assert gains.max() > 0
    assert gains[gains != 0].min() >= least * weight


@pytest.mark.parametrize("wide", [False, True], ids=["uint8", "uint32"])
def test_parity_of_large_nodes(target, oracle, same, monkeypatch, wide):
    """With 255 bins, or one for each value, and missing values."""
    monkeypatch.setattr(problems, "FEW_BINS", 5 if wide else 255)
    settings = {"max_depth": 4}
    check_parity(target, oracle, same, settings, n=700, n_classes=2, n_trees=1, wide=wide)


HUGE: dict[str, dict[str, Any]] = {
    "classes": {},
    "numbers": {"criterion": SQUARED_ERROR, "max_features": 2, "shuffle": 1},
    "best first": {"max_leaves": 9},
    "random": {"random_splits": 1},
    "many bins": {},
    "many bins, numbers": {"criterion": SQUARED_ERROR, "min_samples_leaf": 3},
    "many bins, random": {"random_splits": 1},
    "many bins, random, numbers": {
        "criterion": SQUARED_ERROR,
        "random_splits": 1,
        "max_features": 2,
        "shuffle": 1,
    },
    "many bins, no room for tiles": {"max_features": 2, "shuffle": 1},
    "room for one node": {"max_features": 1, "shuffle": 1},
    "no room for children": {},
}


@pytest.mark.parametrize("name", HUGE)
def test_parity_of_nodes_that_several_blocks_share(target, oracle, same, monkeypatch, name):
    if target.implementation is not Implementation.CUDA:
        pytest.skip("this implementation shares all nodes, or none")
    cuda = "gpuens.kernels.cart.cuda"
    small = {"MOST_LARGE": 9, "TILE": 4} if target.simulated else {"MOST_LARGE": 70, "TILE": 20}
    for constant, value in small.items():
        monkeypatch.setattr(f"{cuda}.grow_cart.{constant}", value)
    if name == "many bins, no room for tiles":
        monkeypatch.setattr(f"{cuda}.cut_tiles.SUMMED_BYTES", 2**10)
    if name == "room for one node":
        monkeypatch.setattr(f"{cuda}.tiles.SUMMED_BYTES", 8 * 300 * 3)
    if name == "no room for children":
        for constant, value in (("LIKELY_NODES", 0.05), ("LEAST_ROOM", 3)):
            monkeypatch.setattr(f"{cuda}.grow_cart.{constant}", value)
    wide = "many bins" in name
    monkeypatch.setattr(problems, "FEW_BINS", 5 if wide else 255)
    arguments = {"n": 400, "n_classes": 0 if "numbers" in name else 3}
    check_parity(target, oracle, same, HUGE[name], **arguments, wide=wide)


@pytest.mark.parametrize("n_classes", [2, 0], ids=["classes", "numbers"])
def test_cuts_of_equal_score_in_several_tiles(target, oracle, same, monkeypatch, n_classes):
    """The first of them wins, wherever tiles begin: values that are alike lie in two tiles, tiles
    have nothing but missing values, or one value."""
    n = 36 if target.simulated else 360
    if target.implementation is Implementation.CUDA:
        for constant, value in (("MOST_LARGE", n // 4), ("TILE", n // 9)):
            monkeypatch.setattr(f"gpuens.kernels.cart.cuda.grow_cart.{constant}", value)
    monkeypatch.setattr(problems, "FEW_BINS", 2)
    i = np.arange(n)
    X = np.column_stack([
        i, np.ones(n), i // (n // 8), np.where(i < n // 3, np.nan, i[::-1] // 3),
        np.where(i == n // 2, i, np.nan), i % 3 + (i > n // 2),
    ]).astype(float)  # fmt: skip
    y = np.isin(i, [0, n - 1]).astype(int)
    weight = np.where(i % 5 == 0, 2, 1)
    make = classes_target if n_classes else values_target
    case = problem(X, make(y, np.maximum(weight, weight[::-1])), dtype=np.uint32, max_bins=n)
    settings = {"max_depth": 2, "criterion": GINI if n_classes else SQUARED_ERROR}
    for direction in (1, -1) if not n_classes else (1,):
        ordered = case.with_monotone(direction, 0, 0, -direction, 0, 0)
        equal_trees(same, ordered, target, oracle, **settings)
    grown, _ = equal_trees(same, case, target, oracle, **settings)
    assert (grown.feature[0], grown.threshold[0]) == (0, 0.5)


@pytest.mark.parametrize("wide", [False, True], ids=["uint8", "uint32"])
@pytest.mark.parametrize("n_classes", [0, 2, 4])
@pytest.mark.parametrize("least", [1, 3])
def test_parity_where_no_value_is_missing(target, oracle, same, n_classes, least, wide):
    """Down to nodes of two rows, with distinct values, ties and two values."""
    n = 150 if target.xp is np else 30
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(n, 2)), rng.integers(0, 20, n), rng.integers(0, 2, n)])
    y = X[:, 0] + X[:, 2] / 5 + rng.normal(size=n)
    weight = rng.integers(1, 3, n)
    labels = np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]))
    made = classes_target(labels, weight) if n_classes else values_target(y, weight)
    case = problem(X, made, rng.poisson(1.0, (2, n)), dtype=np.uint32 if wide else np.uint8)
    settings = {"criterion": GINI if n_classes else SQUARED_ERROR, "min_samples_leaf": least}
    if least > 1:
        settings |= {"min_weight_fraction": 0.03, "max_features": 2, "shuffle": 1}
    grown, _ = equal_trees(same, case, target, oracle, **settings)
    leaves = grown.feature < 0
    assert (grown.end - grown.begin)[leaves].min() >= least


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_parity_of_sorted_rows(target, oracle, same, n_classes):
    """With many more codes than rows of a node, ties, and missing values in one feature."""
    n = 700 if target.xp is np else 40
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.normal(size=(n, 3)), rng.integers(0, n // 2, n)])
    X[:, 2][rng.random(n) < 0.2] = np.nan
    y = X[:, 0] + X[:, 3] / n + rng.normal(size=n)
    labels = np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]))
    made = classes_target(labels, np.ones(n)) if n_classes else values_target(y, np.ones(n))
    case = problem(X, made, rng.poisson(1.0, (2, n)), dtype=np.uint32, max_bins=n)
    settings = {"criterion": GINI if n_classes else SQUARED_ERROR}
    equal_trees(same, case, target, oracle, **settings)
    equal_trees(same, case, target, oracle, **settings, min_samples_leaf=20, max_leaves=9)


@pytest.mark.parametrize("wide", [False, True], ids=["uint8", "uint32"])
@pytest.mark.parametrize("n_classes", [0, 2, 3])
@pytest.mark.parametrize("in_sample", ["once", "some twice"])
def test_parity_of_random_cuts_of_numbers(target, oracle, same, n_classes, wide, in_sample):
    """With bins of several values or of one, missing values, and rows that all count alike."""
    n = 200 if target.xp is np else 30
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 5))
    X[:, 1] = rng.integers(0, 3, n)
    X[:, 2:4][rng.random((n, 2)) < 0.1] = np.nan
    X[:, 3] = np.where(np.isnan(X[:, 3]), np.nan, 2.0)
    X[:, 4] = np.nan
    y = np.nan_to_num(X[:, 0] + X[:, 2]) + rng.normal(size=n)
    labels = np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]))
    weight = np.full(n, 3)
    made = classes_target(labels, weight) if n_classes else values_target(y, weight)
    multiplicity = np.ones((2, n), int)
    multiplicity[0, ::7] = 0
    if in_sample != "once":
        multiplicity[1, ::5] = 2
    dtype, max_bins = (np.uint32, n) if wide else (np.uint8, n // 4)
    case = problem(X, made, multiplicity, dtype=dtype, max_bins=max_bins)
    settings = {"criterion": GINI if n_classes else SQUARED_ERROR, "random_splits": 1}
    grown, _ = equal_trees(same, case, target, oracle, **settings)
    assert nodes_of(grown, 1)["missing_left"].any()
    equal_trees(same, case, target, oracle, **settings, max_features=2, shuffle=1, max_leaves=9)


@pytest.mark.parametrize("n_classes", [0, 2])
@pytest.mark.parametrize("max_features", [40, 7])
@pytest.mark.parametrize("weights", ["alike", "different"])
def test_parity_of_random_cuts_of_many_features(
    target, oracle, same, n_classes, max_features, weights
):
    """More features than a vector has, more rows than a counter of one byte, features without a
    cut, and cuts of equal score, of which the first one in the node's order counts."""
    n = 300 if target.xp is np and not target.simulated else 24
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, 40))
    X[:, 3:9] = rng.integers(0, 3, (n, 6))
    X[:, 9:12] = X[:, 8:9]
    X[:, 12] = 1.0
    X[:, 36:][rng.random((n, 4)) < 0.1] = np.nan
    y = X[:, 0] + X[:, 8] + X[:, 39] * (X[:, 39] > 0) + rng.normal(size=n)
    y = np.nan_to_num(y)
    weight = np.full(n, 3) if weights == "alike" else rng.integers(1, 4, n)
    made = classes_target((y > 0).astype(int), weight) if n_classes else values_target(y, weight)
    case = problem(X, made, np.ones((2, n), int), max_bins=100)
    settings = {
        "criterion": GINI if n_classes else SQUARED_ERROR, "random_splits": 1, "shuffle": 1,
        "max_features": max_features,
    }  # fmt: skip
    grown, _ = equal_trees(same, case, target, oracle, **settings)
    assert np.unique(nodes_of(grown, 1)["feature"]).size > 2
    equal_trees(same, case, target, oracle, **settings, min_samples_leaf=4, max_leaves=9)
    # Copies of a feature have the same ranges and other draws, and tie at small nodes.
    copies = problem(np.repeat(X[:, :1], 40, axis=1), made, np.ones((2, n), int), max_bins=100)
    equal_trees(same, copies, target, oracle, **settings)


@pytest.mark.parametrize("name", ["three features", "few features", "limits", "heavy leaves"])
def test_parity_of_random_cuts_of_few_rows(target, oracle, same, name, growth_on_cpu):
    """Trees of some rows of two classes each, at most as many as a word has bits, or one more."""
    sizes = (1, 2, 3, 9, 63, 64, 65, 200) if target.xp is np and not target.simulated else (2, 9)
    rng = np.random.default_rng(3)
    n = max(sizes)
    X = np.column_stack([rng.normal(size=(n, 3)), rng.integers(0, 3, n), np.ones(n), np.ones(n)])
    X[:, 1:4][rng.random((n, 3)) < 0.2] = np.nan
    X[:, 5][rng.random(n) < 0.5] = np.nan
    labels = (rng.random(n) < 0.4).astype(int)
    labels[:2] = 0, 1
    samples = np.zeros((len(sizes), n), int)
    for rows, size in zip(samples, sizes, strict=True):
        rows[rng.permutation(n)[:size]] = 1
    case = problem(X, classes_target(labels, np.full(n, 3)), samples, max_bins=50)
    settings = {"random_splits": 1} | {
        "three features": {"max_features": 3},
        "few features": {"max_features": 2, "shuffle": 1},
        "limits": {"min_samples_leaf": 3, "min_samples_split": 8, "max_depth": 5, "shuffle": 1},
        "heavy leaves": {"min_weight_fraction": 0.04, "min_gain": 0.002, "max_features": 3},
    }[name]
    grown, _ = equal_trees(same, case, target, oracle, **settings)
    if target.xp is np and not target.simulated:
        missing_left = grown.missing_left[grown.feature >= 0]
        assert grown.feature.size > 50
        assert 0 < missing_left.mean() < 1
    if target.implementation is Implementation.CPU:
        assert [ways(*made) for made in growth_on_cpu] == [(False, True, True)]


@pytest.fixture
def growth_on_cpu(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """The ``RowArrays`` and ``ThreadScratch`` of each growth on the CPU."""
    cpu = import_module("gpuens.kernels.cart.cpu.grow_cart")
    made, run = [], cpu.run

    def noting(worker, n_threads, table, rows, settings, work, rooms, stacks):
        made.append((rows, rooms))
        run(worker, n_threads, table, rows, settings, work, rooms, stacks)

    monkeypatch.setattr(cpu, "run", noting)
    return made


def ways(rows: Any, rooms: Any) -> tuple[bool, bool, bool]:
    """Whether growth had a copy of the codes by row, middles of bins, and subtrees on lanes."""
    return rows.by_row.size > 0, rows.middle.size > 0, bool(rooms.lanes.number[:, 0].any())


@pytest.mark.parametrize("n_features, settings, expected", [
    (4, {"max_features": 3}, (False, True, True)),
    (100, {"max_features": 10}, (False, True, True)),
    (101, {"max_features": 10}, (False, False, False)),
    (4, {}, (True, True, False)),
    (4, {"max_depth": 5}, (False, True, True)),
    (4, {"criterion": ENTROPY}, (False, False, False)),
    (4, {"max_features": 3, "max_leaves": 9}, (False, False, False)),
    (4, {"max_leaves": 9}, (True, True, False)),
    (4, {"random_splits": 0}, (False, False, False)),
    (4, {"max_features": 3, "monotone": 1}, (False, False, False)),
    (4, {"monotone": -1}, (False, False, False)),
    (4, {"weight": 2}, (False, False, False)),
    (4, {"times": 2}, (False, False, False)),
    (4, {"n_classes": 3}, (False, False, False)),
    (4, {"dtype": np.uint32}, (False, False, False)),
    (4, {"categorical": [1]}, (False, False, False)),
])  # fmt: skip
def test_which_growth_copies_codes_and_uses_lanes(growth_on_cpu, n_features, settings, expected):
    settings, n = {"random_splits": 1} | settings, 150
    rng = np.random.default_rng(4)
    X, weight = rng.integers(0, 40, (n, n_features)), np.ones(n)
    weight[0] = settings.pop("weight", 1)
    multiplicity = np.ones((1, n), int)
    multiplicity[0, 0] = settings.pop("times", 1)
    labels = rng.integers(0, settings.pop("n_classes", 2), n)
    of_table = {key: settings.pop(key) for key in ("dtype", "categorical") if key in settings}
    case = problem(X, classes_target(labels, weight), multiplicity, **of_table)
    case = case.with_monotone(settings.pop("monotone", 0), *[0] * (n_features - 1))
    case.grow(Target(Implementation.CPU, np), **settings)
    assert [ways(*made) for made in growth_on_cpu] == [expected]


def test_parity_with_255_bins_and_many_classes(target, oracle, same):
    check_parity(target, oracle, same, {"max_features": 3, "shuffle": 1}, n=700, n_classes=5)


def test_parity_where_the_room_for_nodes_grows(target, oracle, same, monkeypatch):
    if target.implementation is not Implementation.CUDA:
        pytest.skip("this implementation has room for all nodes from the beginning")
    for name, value in (("LIKELY_NODES", 0.05), ("LEAST_ROOM", 1)):
        monkeypatch.setattr(f"gpuens.kernels.cart.cuda.grow_cart.{name}", value)
    check_parity(target, oracle, same, {}, n=120, n_classes=3)


def test_parity_of_weights_whose_squares_float64_rounds(target, oracle, same):
    case = mixed_problem(**SMALL | {"n": 24 if target.simulated else 60, "n_classes": 3})
    weight = np.random.default_rng(1).integers(2**27, 2**28, case.target.weight.size)
    equal_trees(same, replace(case, target=case.target._replace(weight=weight)), target, oracle)


def equal_trees(same, case, target, oracle, **settings):
    (grown, records), (expected, _) = (case.grow(t, **settings) for t in (target, oracle))
    for actual, wanted in zip(grown, expected, strict=True):
        same(actual, wanted)
    return grown, records


@pytest.mark.parametrize("random_splits", [0, 1])
def test_infinite_and_huge_values(target, oracle, same, random_splits):
    """The mean of two values may not exist or overflow, and so may their distance."""
    large = np.finfo(np.float64).max
    column = [-np.inf, -large, -1.0, 1.0, large, np.inf, np.nan, -large, large, 5e-324]
    X = np.array([column, column[::-1]]).T
    case = problem(X, classes_target(np.array([0, 1, 0, 1, 1, 0, 1, 1, 0, 0])))
    settings = {"random_splits": random_splits}
    if target.simulated:
        settings["max_depth"] = 1
    grown, records = equal_trees(same, case, target, oracle, **settings)
    leaf = leaves_by_values(case, grown, 0, X)
    nodes = nodes_of(grown, 0)
    for row, at in enumerate(leaf):
        assert row in rows_of(records[nodes["begin"][at] : nodes["end"][at]])


def test_features_without_splits(target, oracle, same):
    """Nothing but constants and missing values: every tree is a leaf."""
    X = np.column_stack([np.full(9, 2.0), np.full(9, np.nan), np.zeros(9)])
    case = problem(X, classes_target(np.arange(9) % 3), categorical=(2,))
    grown, _ = equal_trees(same, case, target, oracle, max_features=1, shuffle=1)
    assert grown.feature.tolist() == [-1]
    assert grown.statistics.tolist() == [[3 * (2**COUNT_SHIFT + 1)] * 3]


def test_trees_of_a_batch_are_those_grown_alone(target, same):
    together = mixed_problem(60, 3, n_trees=2, features=[0, 4])
    settings = {"max_depth": 2, "max_features": 1, "shuffle": 1}
    grown, _ = together.grow(target, **settings)
    first = slice(int(together.tree_begin[0]), int(together.tree_end[0]))
    alone = replace(
        together,
        records=together.records[first],
        tree_begin=together.tree_begin[:1],
        tree_end=together.tree_end[:1],
    )
    single, _ = alone.grow(target, **settings)
    for name, nodes in nodes_of(grown, 0).items():
        same(nodes, getattr(single, name))


def test_codes_of_either_width_grow_the_same_trees(target, same):
    """Where every value has a bin."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 9, (80, 2)).astype(float)
    labels = classes_target(rng.integers(0, 2, X.shape[0]))
    narrow, wide = (
        problem(X, labels, categorical=(1,), dtype=dtype).grow(target, max_depth=2)[0]
        for dtype in (np.uint8, np.uint32)
    )
    for got, wanted in zip(wide, narrow, strict=True):
        same(got, wanted)
