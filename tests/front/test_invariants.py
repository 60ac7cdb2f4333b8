"""What holds for every tree, whatever the data and the settings."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor

NAN = float("nan")

VALUES = st.one_of(
    st.integers(-3, 3).map(float),
    st.floats(width=32, allow_infinity=True),
    st.just(NAN),
)
PARAMETERS = st.fixed_dictionaries(
    {
        "n_estimators": st.integers(1, 4),
        "learning_rate": st.sampled_from([0.1, 1.0]),
        "max_leaf_nodes": st.one_of(st.none(), st.integers(2, 12)),
        "max_depth": st.one_of(st.none(), st.integers(1, 4)),
        "min_samples_leaf": st.integers(1, 9),
        "l2_regularization": st.sampled_from([0.0, 1.0]),
        "max_bins": st.sampled_from([2, 3, 8, 255]),
        "subsample": st.sampled_from([1.0, 1.0, 0.6]),
        "colsample_bytree": st.sampled_from([1.0, 0.5]),
        "colsample_bynode": st.sampled_from([1.0, 0.5]),
        "random_state": st.integers(0, 2**32 - 1),
    }
)


@st.composite
def problems(draw):
    """A fitted model with its rows."""
    n, n_features = draw(st.integers(1, 70)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    pool = np.array(draw(st.lists(VALUES, min_size=1, max_size=40)))
    X = rng.choice(pool, (n, n_features))
    n_classes = draw(st.sampled_from([0, 0, 2, 4]))
    weight = rng.integers(0, 3, n) * rng.random(n) if draw(st.booleans()) else None
    assume(weight is None or weight.any())
    parameters = draw(PARAMETERS)
    if n_classes:
        y = rng.integers(0, n_classes, n)
        assume(len(np.unique(y)) > 1)
        return GradientBoostingClassifier(**parameters).fit(X, y, weight), X, weight
    y = np.nan_to_num(X[:, 0], posinf=4, neginf=-4).clip(-9, 9) + rng.normal(size=n)
    return GradientBoostingRegressor(**parameters).fit(X, y, weight), X, weight


def nodes_of(forest, t):
    """The node arrays of one tree."""
    part = forest.slice(t, t + 1)
    return part.feature, part.threshold, part.missing_left, part.left, part.right, part


def depths(left, right):
    depth = np.zeros(left.size, int)
    for node in np.flatnonzero(left >= 0):  # breadth first: parents come before children
        depth[[left[node], right[node]]] = depth[node] + 1
    return depth


@given(problems())
def test_structure(problem):
    model, X, weight = problem
    forest, rows = model.forest_, len(X) if weight is None else np.count_nonzero(weight)
    assert forest.n_trees == model.n_iter_ * model.n_trees_per_iteration_
    assert forest.output.tolist() == list(range(forest.n_outputs)) * model.n_iter_
    for t in range(forest.n_trees):
        feature, threshold, _, left, right, part = nodes_of(forest, t)
        inner = np.flatnonzero(feature >= 0)
        # Every node but the root is the child of one node, and nothing else.
        assert sorted([*left[inner], *right[inner]]) == list(range(1, feature.size))
        assert (left[feature < 0] == -1).all() and (right[feature < 0] == -1).all()
        assert (feature < X.shape[1]).all() and not np.isnan(threshold).any()
        # Rows and gains.
        assert part.n_samples[0] <= rows and (model.subsample < 1 or part.n_samples[0] == rows)
        sums = part.n_samples[left[inner]] + part.n_samples[right[inner]]
        np.testing.assert_array_equal(part.n_samples[inner], sums)
        assert inner.size == 0 or part.n_samples.min() >= model.min_samples_leaf
        assert (part.gain[inner] > 0).all() and (part.gain[feature < 0] == 0).all()
        # Limits.
        assert depths(left, right).max() <= (model.max_depth or 99)
        assert inner.size + 1 <= (model.max_leaf_nodes or 999)
        assert forest.n_leaves[t] == inner.size + 1


@given(problems())
def test_rows_of_the_training_go_where_training_sent_them(problem):
    """Bins and thresholds say the same: raw values reach the nodes whose rows were counted."""
    model, X, weight = problem
    assume(model.subsample == 1.0)
    X = X if weight is None else X[weight > 0]
    forest, leaves = model.forest_, model.apply(X)
    for t in range(forest.n_trees):
        feature, _, _, left, right, part = nodes_of(forest, t)
        count = np.bincount(leaves[:, t], minlength=feature.size)
        assert (count[feature >= 0] == 0).all()
        for node in np.flatnonzero(feature >= 0)[::-1]:
            count[node] = count[left[node]] + count[right[node]]
        np.testing.assert_array_equal(count, part.n_samples)


@given(problems())
def test_apply_follows_the_thresholds(problem):
    model, X, _ = problem
    leaves = model.apply(X)
    for t in range(model.forest_.n_trees):
        feature, threshold, missing_left, left, right, _ = nodes_of(model.forest_, t)
        for row, leaf in zip(X, leaves[:, t], strict=True):
            node = 0
            while feature[node] >= 0:
                x = row[feature[node]]
                goes_left = missing_left[node] if np.isnan(x) else x <= threshold[node]
                node = left[node] if goes_left else right[node]
            assert node == leaf


@given(problems())
def test_predictions_are_the_base_and_the_trees_added_up(problem):
    model, X, _ = problem
    forest = model.forest_
    raw = np.repeat(forest.base[:, None], len(X), axis=1)
    for column, added in zip(forest.output, forest.tree_predict(X).T, strict=True):
        raw[column] += added
    np.testing.assert_array_equal(forest.raw_predict(X), raw)


@given(problems())
def test_thresholds_lie_between_values_of_the_table(problem):
    model, X, _ = problem
    forest = model.forest_
    for node in np.flatnonzero(forest.feature >= 0):
        values = X[:, forest.feature[node]]
        values = values[~np.isnan(values)]
        threshold = forest.threshold[node]
        if threshold == np.inf and not (values == np.inf).any():
            continue  # parts the values from the missing ones
        assert (values <= threshold).any()
        assert (values > threshold).any() or np.isnan(X[:, forest.feature[node]]).any()


@given(problems())
def test_the_parent_of_two_leaves_would_have_a_value_between_theirs(problem):
    model, _, _ = problem
    assume(model.l2_regularization == 0.0)
    for t in range(model.forest_.n_trees):
        feature, _, _, left, right, part = nodes_of(model.forest_, t)
        inner = np.flatnonzero(feature >= 0)
        added = part.value[:, 0]
        a, b, value = added[left[inner]], added[right[inner]], added[inner]
        slack = 1e-6 * (abs(a) + abs(b))
        assert (np.minimum(a, b) - slack <= value).all()
        assert (value <= np.maximum(a, b) + slack).all()


def splits(part):
    """The splits of a tree: path from the root to (gain, feature, threshold)."""
    found, paths = {}, {0: ""}
    for node in np.flatnonzero(part.feature >= 0):
        paths[part.left[node]], paths[part.right[node]] = paths[node] + "l", paths[node] + "r"
        found[paths[node]] = part.gain[node], part.feature[node], part.threshold[node]
    return found


def best_first(tree, n_splits):
    """The first splits in best-first order of a larger tree."""
    chosen, heap = {}, [(-tree[""][0], "")] if "" in tree else []
    while heap and len(chosen) < n_splits:
        _, path = heapq.heappop(heap)
        chosen[path] = tree[path]
        for child in (path + "l", path + "r"):
            if child in tree:
                heapq.heappush(heap, (-tree[child][0], child))
    return chosen


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("more", [
    {}, {"colsample_bynode": 0.5}, {"subsample": 0.7}, {"min_samples_leaf": 12},
], ids=str)  # fmt: skip
def test_leaves_are_split_in_the_order_of_their_gains(seed, more):
    """A tree of L leaves is the larger tree after its L - 1 best splits."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(400, 4))
    y = np.abs(X[:, 0]) * X[:, 1] + rng.normal(size=400)
    settings = {"n_estimators": 1, "min_samples_leaf": 3, "random_state": seed, **more}

    def tree(n_leaves):
        model = GradientBoostingRegressor(max_leaf_nodes=n_leaves, **settings)
        return splits(model.fit(X, y).forest_)

    whole = tree(None)
    assert len(whole) > 20
    for n_leaves in (2, 3, 5, 8, 16, 20):
        assert tree(n_leaves) == best_first(whole, n_leaves - 1)


@pytest.mark.parametrize("l2", [0.0, 5.0])
def test_leaf_values_are_newton_steps(l2):
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(500, 3)), rng.random(500)
    y = X[:, 0] ** 2 + rng.normal(size=500)
    settings = {"n_estimators": 1, "learning_rate": 0.3, "l2_regularization": l2}
    model = GradientBoostingRegressor(**settings).fit(X, y, weight)
    classifier = GradientBoostingClassifier(**settings).fit(X, y > 1, weight)
    p = np.average(y > 1, weights=weight)
    for fitted, g, h in (
        (model, np.average(y, weights=weight) - y, np.ones(500)),
        (classifier, p - (y > 1), np.full(500, p * (1 - p))),
    ):
        leaf = fitted.apply(X)[:, 0]
        for node in np.unique(leaf):
            rows = leaf == node
            total_g, total_h = (weight * g)[rows].sum(), (weight * h)[rows].sum()
            expected = -0.3 * total_g / (total_h + l2)
            assert fitted.forest_.value[node, 0] == pytest.approx(expected, rel=1e-4)


def test_gains_are_what_the_splits_improve():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = X[:, 0] ** 2 + rng.normal(size=500)
    model = GradientBoostingRegressor(n_estimators=1, learning_rate=1.0, l2_regularization=0.0)
    forest = model.fit(X, y).forest_
    before, after = np.square(y - y.mean()).sum(), np.square(y - model.predict(X)).sum()
    assert forest.gain.sum() == pytest.approx(before - after, rel=1e-3)
