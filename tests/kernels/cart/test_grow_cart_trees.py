"""Trees worked out by hand, scikit-learn's trees, and what holds for every tree."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from gpuens.kernels.cart.problem import (
    ABSOLUTE_ERROR,
    COUNT_SHIFT,
    ENTROPY,
    GINI,
    MISCLASSIFICATION,
    POISSON,
    SQUARED_ERROR,
    WEIGHT_MASK,
)
from gpuens.kernels.leaves.inner_nodes import bound_values
from gpuens.kernels.runtime.dispatch import Implementation
from gpuens.kernels.scalars.rng import PURPOSE_FEATURES, PURPOSE_THRESHOLD, draw, subkey
from tests.support.cart_problems import (
    UNIT,
    classes_target,
    leaves_by_values,
    mixed_problem,
    nodes_of,
    problem,
    rows_of,
    values_target,
)

NAN = np.nan
ROOT_KEY = np.uint64(13)


@pytest.fixture(params=["reference", "cpu"])
def grower(request: Any, oracle: Any) -> Any:
    """The implementations that are quick everywhere."""
    return type(oracle)(Implementation(request.param), oracle.xp)


@pytest.fixture(scope="session")
def cpu(oracle: Any) -> Any:
    return type(oracle)(Implementation.CPU, import_module("array_api_compat.numpy"))


def stump(grower, x, target, **settings):
    """The root of a tree of two leaves at most: feature, threshold, missing_left, gain."""
    X = np.array(x, float).reshape(len(x), -1)
    grown, _ = problem(X, target).grow(grower, **{"max_depth": 1, **settings})
    return tuple(array[0] for array in (grown.feature, grown.threshold, *grown[3:4], grown.gain))


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        # Squares of the classes' weights: 2² / 2 + 2² / 2 - (2² + 2²) / 4.
        ([1, 2, 3, 4], [0, 0, 1, 1], (0, 2.5, 0, 2.0)),
        ([4, 3, 2, 1], [0, 0, 1, 1], (0, 2.5, 0, 2.0)),
        # The side with more rows takes missing values where there are none.
        ([1, 2, 3, 4], [0, 0, 0, 1], (0, 3.5, 1, 3 + 1 - 10 / 4)),
        # Both cuts part one row from three: the lower one wins.
        ([1, 2, 3, 4], [1, 0, 0, 1], (0, 1.5, 0, 1 + 5 / 3 - 2)),
        # All values left, missing ones right.
        ([1, 2, NAN, NAN], [0, 0, 1, 1], (0, np.inf, 0, 2.0)),
        # Missing values belong to the lower, then to the upper side.
        ([1, NAN, 2, 3], [0, 0, 1, 1], (0, 1.5, 1, 2.0)),
        ([1, 2, 3, NAN], [0, 0, 1, 1], (0, 2.5, 0, 2.0)),
        # A gain of zero is no obstacle; a pure node is, and so is a constant feature.
        ([1, 1, 2, 2], [0, 1, 0, 1], (0, 1.5, 0, 0.0)),
        ([1, 2, 3, 4], [1, 1, 1, 1], (-1, 0.0, 0, 0.0)),
        ([3, 3, 3, 3], [0, 1, 0, 1], (-1, 0.0, 0, 0.0)),
        ([NAN, NAN, NAN], [0, 1, 0], (-1, 0.0, 0, 0.0)),
    ],
)
def test_stumps_by_hand(grower, x, y, expected):
    labels = np.array(y)
    labels_of = classes_target(np.append(labels, 1))  # two classes, also where one is missing
    labels_of = labels_of._replace(classes=labels_of.classes[:, :-1], weight=labels_of.weight[:-1])
    assert stump(grower, x, labels_of) == expected


ln = np.log


@pytest.mark.parametrize(
    ("criterion", "y", "gain"),
    [
        (GINI, [0, 0, 1, 2], 2 + (1 + 1) / 2 - (4 + 1 + 1) / 4),
        (ENTROPY, [0, 0, 1, 2], -2 * ln(2) - (2 * ln(2) - 4 * ln(4))),
        (MISCLASSIFICATION, [0, 0, 1, 2], 2 + 1 - 2),
        (SQUARED_ERROR, [0, 0, 2, 4], (36 / 2 - 36 / 4) * UNIT**2),
        (POISSON, [1, 1, 4, 4], (2 * ln(1) + 8 * ln(4) - 10 * ln(2.5)) * UNIT),
        (ABSOLUTE_ERROR, [0, 0, 2, 4], (-(0 + 2) + (0 + 0 + 2 + 4)) * UNIT),
    ],
)
def test_gains_by_hand(grower, criterion, y, gain):
    target = (classes_target if criterion <= MISCLASSIFICATION else values_target)(np.array(y))
    found = stump(grower, [1, 2, 3, 4], target, criterion=criterion)
    assert found[:3] == (0, 2.5, 0)
    assert found[3] == pytest.approx(gain, rel=1e-14)


def test_poisson_wants_positive_sums(grower):
    found = stump(grower, [1, 2, 3, 4], values_target([0, 0, 1, 4]), criterion=POISSON)
    assert found[:2] == (0, 3.5)
    nothing = stump(grower, [1, 2, 3, 4], values_target([0, 0, 0, 4]), criterion=POISSON)
    assert nothing[0] == -1


def test_medians_are_weighted_and_lower(grower):
    """Weights 1, 1, 2 | 4: errors about 1 (2 * 2 >= 4) and 9."""
    target = values_target([0, 1, 5, 9], weight=[1, 1, 2, 4])
    *_, gain = stump(grower, [1, 1, 1, 2], target, criterion=ABSOLUTE_ERROR)
    about_five = 5 + 4 + 0 + 4 * 4
    assert gain == (about_five - (1 + 0 + 2 * 4)) * UNIT


def test_weights_multiply_and_rows_count_once(grower):
    labels = classes_target(np.array([0, 1, 1]), weight=np.array([5, 7, 11]))
    case = problem([[1.0], [2.0], [NAN]], labels, multiplicity=np.array([[3, 2, 1], [0, 1, 31]]))
    grown, records = case.grow(grower)
    rows, weight = grown.statistics >> COUNT_SHIFT, grown.statistics & WEIGHT_MASK
    assert grown.offset.tolist() == [0, 3, 4]
    assert rows.tolist() == [[1, 2], [1, 0], [0, 2], [0, 2]]
    assert weight.tolist() == [[15, 25], [15, 0], [0, 25], [0, 7 + 31 * 11]]
    assert rows_of(records).tolist() == [0, 1, 2, 1, 2]
    assert (grown.begin.tolist(), grown.end.tolist()) == ([0, 0, 1, 3], [3, 1, 3, 5])


def test_categories_are_ordered_by_their_share_of_the_second_class(grower):
    """Shares 1, 0, none, 1/2 (twice), 0: {1, 5} and {0, 3}, and category 2 where more rows go."""
    x = [0, 0, 1, 3, 3, 5, 1]
    y = np.array([1, 1, 0, 0, 1, 0, 0])
    case = problem(np.array([x]).T, classes_target(y), categorical=(0,))
    grown, _ = case.grow(grower, max_depth=1)
    assert grown.category_begin.tolist() == [0, -1, -1]
    assert grown.threshold.tolist() == [0, 0, 0]
    assert grown.categories.tolist() == [0b100010]
    assert grown.missing_left[0] == 0
    larger_left, _ = case.grow(grower, max_depth=1, min_samples_leaf=2, min_weight_fraction=0.0)
    assert larger_left.categories.tolist() == [0b100010]
    more_left = classes_target(np.array([0, 1, 0, 0, 0, 0, 0]))
    x = np.array([[0, 3, 1, 5, 5, 1, 1]]).T
    grown, _ = problem(x, more_left, categorical=(0,)).grow(grower, max_depth=1)
    assert grown.categories.tolist() == [0b110111]
    assert grown.missing_left[0] == 1


def test_best_first_opens_the_largest_gain_and_then_the_older_node(grower):
    """Gains: 8 at the root's left child, 2 and 2 further down."""
    y = np.array([0, 0, 4, 4, 20, 20, 22, 22]) + 0.0
    case = problem(np.arange(8.0)[:, None], values_target(y))
    grown, _ = case.grow(grower, criterion=SQUARED_ERROR, max_leaves=3)
    assert grown.threshold.tolist() == [3.5, 1.5, 0, 0, 0]
    assert grown.left.tolist() == [1, 3, -1, -1, -1]
    tied = values_target(np.array([0, 0, 4, 4, 20, 20, 24, 24]) + 0.0)
    case = problem(np.arange(8.0)[:, None], tied)
    grown, _ = case.grow(grower, criterion=SQUARED_ERROR, max_leaves=3)
    assert grown.threshold.tolist() == [3.5, 1.5, 0, 0, 0]


def test_constant_features_do_not_end_the_search(grower):
    X = np.column_stack([np.ones(4), np.full(4, NAN), [2, 2, 1, 1], [1, 2, 1, 2]])
    case = problem(X, classes_target(np.array([0, 0, 1, 1])))
    assert case.grow(grower, max_features=1)[0].feature[0] == 2
    stream = subkey(ROOT_KEY, PURPOSE_FEATURES, np.uint64(0))
    order = [0, 1, 2, 3]
    for j in range(4):
        k = j + (int(draw(stream, np.uint64(j))) * (4 - j) >> 32)
        order[j], order[k] = order[k], order[j]
    first = next(f for f in order if f >= 2)
    assert case.grow(grower, max_features=1, shuffle=1)[0].feature[0] == first


def test_random_cuts_by_hand(grower):
    x = np.array([0.0, 1.0, 4.0, 10.0, 11.0, 20.0])
    case = problem(x[:, None], classes_target(np.array([0, 1, 0, 1, 0, 1])))
    grown, _ = case.grow(grower, max_depth=1, random_splits=1)
    stream = subkey(ROOT_KEY, PURPOSE_THRESHOLD, np.uint64(0))
    cut = (int(draw(stream, np.uint64(0))) + 0.5) / 2**32 * 20.0
    assert grown.threshold[0] == pytest.approx(cut, rel=1e-15)
    assert grown.end[1] == np.sum(x <= cut)


def test_random_categories_by_hand(grower):
    x = np.arange(40.0)
    case = problem(x[:, None], classes_target(np.arange(40) % 2), categorical=(0,))
    grown, _ = case.grow(grower, max_depth=1, random_splits=1)
    stream = subkey(ROOT_KEY, PURPOSE_THRESHOLD, np.uint64(0))
    left = [int(draw(stream, np.uint64(c + 1))) & 1 for c in range(40)]
    words = [sum(bit << k for k, bit in enumerate(left[w : w + 32])) for w in (0, 32)]
    assert grown.categories.tolist() == words


def check_same_tree(grown, tree):
    """Node by node from the roots, in either numbering."""
    pairs = [(0, 0)]
    n_packed = tree.n_classes[0] if tree.n_classes[0] > 1 else 1
    for ours, theirs in pairs:
        packed = grown.statistics[ours, :n_packed].sum()
        assert packed >> COUNT_SHIFT == tree.n_node_samples[theirs]
        assert packed & WEIGHT_MASK == tree.weighted_n_node_samples[theirs]
        if tree.children_left[theirs] < 0:
            assert grown.feature[ours] == -1
            continue
        assert grown.feature[ours] == tree.feature[theirs]
        assert grown.threshold[ours] == tree.threshold[theirs]
        assert grown.missing_left[ours] == tree.missing_go_to_left[theirs]
        pairs.append((grown.left[ours], tree.children_left[theirs]))
        pairs.append((grown.right[ours], tree.children_right[theirs]))
    assert len(pairs) == grown.feature.size == tree.node_count


LIMITS = [
    ({"max_depth": 5, "min_samples_split": 40}, {"max_depth": 5, "min_samples_split": 40}),
    ({"max_leaves": 12}, {"max_leaf_nodes": 12}),
    ({"min_samples_leaf": 20}, {"min_samples_leaf": 20}),
    ({"min_weight_fraction": 0.05}, {"min_weight_fraction_leaf": 0.05}),
]


SHARE_MISSING = {GINI: 0.15, ENTROPY: 0.0, SQUARED_ERROR: 0.15, POISSON: 0.15, ABSOLUTE_ERROR: 0.0}
"""scikit-learn's absolute error takes no missing values."""


@pytest.mark.parametrize(("ours", "theirs"), LIMITS, ids=[str(theirs) for _, theirs in LIMITS])
@pytest.mark.parametrize(("criterion", "missing"), SHARE_MISSING.items())
def test_scikit_learns_trees(grower, criterion, ours, theirs, missing):
    """Real values and weights, so that no gains tie."""
    rng = np.random.default_rng(criterion)
    X = rng.normal(size=(400, 4)).astype(np.float32)
    y = np.abs(X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(0, 0.3, 400)) + 0.1
    y = np.rint(y * UNIT) / UNIT
    weight = rng.integers(1, 4, 400)
    X[rng.random(X.shape) < missing] = NAN
    if criterion in (GINI, ENTROPY):
        labels = np.digitize(y, [0.6, 1.3])
        model = DecisionTreeClassifier(criterion=["gini", "entropy"][criterion], **theirs)
        target = classes_target(labels, weight)
        model.fit(X, labels, sample_weight=weight)
    else:
        names = {SQUARED_ERROR: "squared_error", POISSON: "poisson"}
        name = names.get(criterion, "absolute_error")
        model = DecisionTreeRegressor(criterion=name, **theirs)
        target = values_target(y, weight)
        model.fit(X, y, sample_weight=weight)
    case = problem(X, target, dtype=np.uint32, max_bins=400)
    grown, _ = case.grow(grower, criterion=criterion, **ours)
    assert grown.feature.size > 9
    check_same_tree(grown, model.tree_)


CHOICES = {
    "criterion": st.sampled_from(range(6)),
    "max_depth": st.sampled_from([2, 5, 100]),
    "max_leaves": st.sampled_from([1, 2, 6, 2**31 - 1]),
    "min_samples_split": st.sampled_from([2, 9]),
    "min_samples_leaf": st.sampled_from([1, 1, 4]),
    "min_weight_fraction": st.sampled_from([0.0, 0.0, 0.1, 0.3]),
    "max_features": st.integers(1, 7),
    "shuffle": st.integers(0, 1),
    "random_splits": st.integers(0, 1),
}


@given(
    choices=st.fixed_dictionaries(CHOICES),
    n=st.integers(3, 60),
    n_outputs=st.integers(1, 2),
    wide=st.booleans(),
    monotone=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=80)
def test_random_trees(oracle, cpu, same, choices, n, n_outputs, wide, monotone, seed):
    """Both implementations agree, and the trees keep what they promise."""
    n_classes = 2 + seed % 2 if choices["criterion"] <= MISCLASSIFICATION else 0
    n_categories = 300 if wide else 40
    n_trees = 1 + seed % 3
    case = mixed_problem(
        n, n_classes, n_outputs, n_trees, wide, seed=seed, n_categories=n_categories
    )
    if monotone and n_outputs == 1 and n_classes != 3:
        case = case.with_monotone(1, 0, -1, 0, 0, 0, 0)
    grown, records = case.grow(cpu, **choices)
    expected, expected_records = case.grow(oracle, **choices)
    for actual, wanted in zip((*grown, records), (*expected, expected_records), strict=True):
        same(actual, wanted)
    for tree in range(case.tree_begin.size):
        check_tree(case, grown, records, tree, choices)


def check_tree(case, grown, records, tree, choices):
    nodes = nodes_of(grown, tree)
    inner, leaves = np.flatnonzero(nodes["left"] >= 0), np.flatnonzero(nodes["left"] < 0)
    left = nodes["left"][inner]
    begin, end, statistics = nodes["begin"], nodes["end"], nodes["statistics"]
    # Children share out their parent's rows and statistics.
    np.testing.assert_array_equal(statistics[inner], statistics[left] + statistics[left + 1])
    np.testing.assert_array_equal(begin[inner], begin[left])
    np.testing.assert_array_equal(end[left], begin[left + 1])
    np.testing.assert_array_equal(end[left + 1], end[inner])
    np.testing.assert_array_equal(left, 1 + 2 * np.arange(inner.size))  # breadth first
    np.testing.assert_array_equal(nodes["right"][inner], left + 1)
    # Every record is in one leaf, the one that its values lead to, in the order of the rows.
    segment = slice(case.tree_begin[tree], case.tree_end[tree])
    rows = rows_of(records)
    np.testing.assert_array_equal(np.sort(records[segment]), np.sort(case.records[segment]))
    reached = leaves_by_values(case, grown, tree, case.X[rows[segment]])
    assert np.sum(end[leaves] - begin[leaves]) == reached.size
    for leaf in leaves:
        own = slice(begin[leaf], end[leaf])
        assert np.all(np.diff(rows[own]) > 0)
        assert np.all(reached[own.start - segment.start : own.stop - segment.start] == leaf)
    # Limits.
    n_packed = case.target.output_begin[1] if case.target.classes.size else 1
    packed = statistics[:, :n_packed].sum(axis=1)
    weight = packed & WEIGHT_MASK
    np.testing.assert_array_equal(packed >> COUNT_SHIFT, end - begin)
    assert leaves.size <= choices["max_leaves"]
    assert np.all(end[inner] - begin[inner] >= choices["min_samples_split"])
    if inner.size:
        assert np.min(end - begin) >= choices["min_samples_leaf"]
        assert weight.min() >= choices["min_weight_fraction"] * weight[0]
    unused = nodes["feature"] < 0
    assert not nodes["gain"][unused].any() and not nodes["threshold"][unused].any()


@given(
    criterion=st.sampled_from(range(6)),
    direction=st.sampled_from([-1, 1]),
    random_splits=st.integers(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_predictions_are_monotone(cpu, criterion, direction, random_splits, seed):
    """Along the feature with the constraint, whatever the others are."""
    n_classes = 2 if criterion <= MISCLASSIFICATION else 0
    case = mixed_problem(60, n_classes, n_trees=1, seed=seed)
    case = case.with_monotone(direction, 0, 0, 0, 0, 0, 0)
    grown, records = case.grow(cpu, criterion=criterion, random_splits=random_splits)
    value = leaf_values(case, grown, records, criterion).astype(np.float64)
    bound_values(grown.feature, grown.left, grown.right, case.table.monotone, value)
    grid = np.sort(case.X[~np.isnan(case.X[:, 0]), 0])
    for row in case.X[:8]:
        along = np.tile(row, (grid.size, 1))
        along[:, 0] = grid
        predictions = value[leaves_by_values(case, grown, 0, along)]
        assert np.all(direction * np.diff(predictions) >= 0)


def leaf_values(case, grown, records, criterion):
    """What the constraints compare, of the nodes of a single tree."""
    first, second = grown.statistics.T[:2]
    if case.target.classes.size:
        return (second & WEIGHT_MASK) / ((first + second) & WEIGHT_MASK)
    if criterion != ABSOLUTE_ERROR:
        return second / (first & WEIGHT_MASK)
    medians = []
    for begin, end in zip(grown.begin, grown.end, strict=True):
        own = rows_of(records[begin:end])
        own = own[np.argsort(case.target.values[0, own])]
        times = np.array([int(r >> np.uint64(32)) for r in records[begin:end]])
        times = dict(zip(rows_of(records[begin:end]), times, strict=True))
        weight = np.cumsum([case.target.weight[i] * times[i] for i in own])
        medians.append(case.target.values[0, own[np.argmax(2 * weight >= weight[-1])]])
    return np.array(medians)
