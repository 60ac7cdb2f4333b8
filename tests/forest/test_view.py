"""Trees under scikit-learn's names: the same arrays, paths and importances as its own."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_linnerud
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeRegressor

from gpuens import GradientBoostingClassifier
from gpuens.forest.forest import Forest
from gpuens.forest.structure import decision_path, levels, node_depths, parents, tree_importances
from gpuens.forest.view import TreeView
from tests.support.sklearn_trees import breadth_first, random_rows, random_tree, to_forest, to_view


def with_gaps(X):
    return np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)


def fit(name):
    """A fitted tree of scikit-learn, and rows."""
    iris, diabetes = load_iris(return_X_y=True), load_diabetes(return_X_y=True)
    if name == "several classifications":
        X, y = iris
        Y = np.stack([y, y == 1, np.arange(len(y)) % 5], axis=1)
        return DecisionTreeClassifier(max_depth=7, random_state=0).fit(X, Y), X
    if name == "weights":
        X, y = iris
        weight = np.random.default_rng(1).exponential(size=len(y))
        return DecisionTreeClassifier(random_state=0).fit(X, y, weight), X
    if name == "missing":
        X = with_gaps(iris[0])
        return DecisionTreeClassifier(random_state=0).fit(X, iris[1]), X
    estimator, (X, y) = {
        "iris": (DecisionTreeClassifier(random_state=0), iris),
        "two classes": (
            DecisionTreeClassifier(criterion="entropy", random_state=0),
            load_breast_cancer(return_X_y=True),
        ),
        "regression": (DecisionTreeRegressor(random_state=0), diabetes),
        "random cuts": (ExtraTreeRegressor(min_samples_leaf=9, random_state=0), diabetes),
        "several regressions": (
            DecisionTreeRegressor(random_state=0),
            load_linnerud(return_X_y=True),
        ),
        "one leaf": (DecisionTreeRegressor(max_leaf_nodes=None, max_depth=1), (iris[0], [2] * 150)),
    }[name]
    return estimator.fit(X, y), X


@pytest.fixture(
    params=[
        "iris", "two classes", "regression", "random cuts", "several classifications",
        "several regressions", "weights", "missing", "one leaf",
    ]
)  # fmt: skip
def problem(request):
    """A tree of scikit-learn, the view of ours, their numberings, and rows."""
    estimator, X = fit(request.param)
    return estimator.tree_, to_view(estimator), breadth_first(estimator.tree_), X


def test_attributes(problem):
    theirs, view, order, _ = problem
    for name in ("node_count", "n_leaves", "max_depth", "n_features", "n_outputs", "max_n_classes"):
        assert getattr(view, name) == getattr(theirs, name), name
    for name in (
        "feature", "threshold", "value", "impurity", "n_node_samples", "weighted_n_node_samples",
    ):  # fmt: skip
        mine, expected = getattr(view, name), getattr(theirs, name)[order]
        np.testing.assert_array_equal(mine, expected, name)
        assert mine.dtype == expected.dtype, name
    np.testing.assert_array_equal(view.n_classes, theirs.n_classes)
    number = np.append(np.argsort(order), -1)
    np.testing.assert_array_equal(view.children_left, number[theirs.children_left[order]])
    np.testing.assert_array_equal(view.children_right, number[theirs.children_right[order]])
    splits = view.feature >= 0
    missing = theirs.missing_go_to_left[order]
    np.testing.assert_array_equal(view.missing_go_to_left[splits], missing[splits])
    assert not view.splits_by_categories.any()


def test_arrays_are_read_only(problem):
    view = problem[1]
    for name in dir(view):
        array = getattr(view, name)
        if isinstance(array, np.ndarray) and name != "n_classes":
            assert not array.flags.writeable, name


def test_rows_go_the_same_way(problem):
    theirs, view, order, X = problem
    rows = X.astype(np.float32)
    np.testing.assert_array_equal(order[view.apply(rows)], theirs.apply(rows))
    np.testing.assert_array_equal(view.predict(rows), theirs.predict(rows))
    path = view.decision_path(rows)
    expected = theirs.decision_path(rows)
    assert (path != expected[:, order]).nnz == 0
    assert path.dtype == expected.dtype and path.has_sorted_indices
    assert view.decision_path(rows[:0]).shape == (0, view.node_count)


def test_depths_and_importances(problem):
    theirs, view, order, _ = problem
    np.testing.assert_array_equal(view.compute_node_depths(), theirs.compute_node_depths()[order])
    for normalize in (True, False):
        np.testing.assert_allclose(
            view.compute_feature_importances(normalize),
            theirs.compute_feature_importances(normalize),
            rtol=1e-9, atol=1e-12,
        )  # fmt: skip


def test_importances_from_gains():
    estimator, _ = fit("regression")
    forest = to_forest(estimator)
    without = Forest(**{**forest.__getstate__(), "impurity": np.empty(0)})
    np.testing.assert_allclose(
        TreeView(without, 0, [1]).compute_feature_importances(), estimator.feature_importances_
    )


def test_view_survives_pickling():
    view = to_view(fit("several classifications")[0])
    assert view.value.shape == (view.node_count, 3, 5)
    again = pickle.loads(pickle.dumps(view))
    for name in ("feature", "threshold", "value", "n_classes", "impurity"):
        np.testing.assert_array_equal(getattr(again, name), getattr(view, name))


def test_view_reads_lists_and_integers():
    view = to_view(fit("iris")[0])
    assert view.apply([[5, 3, 1, 0]]).tolist() == view.apply(np.array([[5.0, 3, 1, 0]])).tolist()


@pytest.mark.parametrize("X", [np.zeros(4), np.zeros((2, 3)), 5.0])
def test_shape_of_rows_is_checked(X):
    with pytest.raises(ValueError, match=r"X must have the shape \(n_rows, 4\)"):
        to_view(fit("iris")[0]).predict(X)


def test_arguments_are_checked():
    forest = to_forest(fit("iris")[0])
    with pytest.raises(IndexError, match=r"tree must be in 0 \.\.\. 0, got 1"):
        TreeView(forest, 1, [3])
    with pytest.raises(ValueError, match="n_classes must sum up to 3"):
        TreeView(forest, 0, [2])


def test_whole_forest():
    X, y = load_iris(return_X_y=True)
    theirs = RandomForestClassifier(7, random_state=0).fit(X, y)
    forest = Forest.concatenate([to_forest(tree) for tree in theirs.estimators_])
    indicator, begin = decision_path(forest, X.astype(np.float32))
    expected, expected_begin = theirs.decision_path(X)
    np.testing.assert_array_equal(begin, expected_begin)
    order = np.concatenate(
        [b + breadth_first(e.tree_) for b, e in zip(begin, theirs.estimators_, strict=False)]
    )
    assert (indicator != expected[:, order]).nnz == 0
    importances = tree_importances(forest)
    np.testing.assert_allclose(importances.mean(axis=0), theirs.feature_importances_)
    for t in range(forest.n_trees):
        view = TreeView(forest, t, [3])
        np.testing.assert_allclose(view.compute_feature_importances(), importances[t])


def test_trees_of_boosting():
    X, y = load_iris(return_X_y=True)
    model = GradientBoostingClassifier(n_estimators=2, min_samples_leaf=5).fit(X, y)
    view = TreeView(model.forest_, 4, [1])
    np.testing.assert_array_equal(view.apply(X), model.apply(X)[:, 4])
    np.testing.assert_array_equal(view.predict(X)[:, 0], model.forest_.tree_predict(X)[:, 4])
    assert view.compute_feature_importances().sum() == pytest.approx(1)
    with pytest.raises(AttributeError, match="no impurity"):
        _ = view.impurity


def test_categories():
    forest = random_tree(np.random.default_rng(3), 20, [70, 0, 32], 1)
    view = TreeView(forest, 0, [1])
    by_categories = np.flatnonzero(view.splits_by_categories)
    assert {0, 2} == set(view.feature[by_categories])
    for node in by_categories:
        word = forest.category_begin[node]
        bits = [(int(forest.categories[word + c // 32]) >> c % 32) & 1 for c in range(70)]
        n = forest.n_categories[view.feature[node]]
        assert view.categories_left(node).tolist() == np.flatnonzero(bits[:n]).tolist()
        assert np.isnan(view.threshold[node])
    node = np.flatnonzero(~view.splits_by_categories)[0]
    with pytest.raises(ValueError, match="must be a split by categories"):
        view.categories_left(node)


@given(st.integers(0, 2**32), st.integers(0, 30))
def test_paths_of_random_trees(seed, n_splits):
    """Every path goes from the root to the leaf, by the rule of each split."""
    rng = np.random.default_rng(seed)
    n_categories = [0, 40, 3]
    forest = random_tree(rng, n_splits, n_categories, 2)
    view = TreeView(forest, 0, [2])
    X = random_rows(rng, 20, n_categories)
    paths = view.decision_path(X)
    for row, leaf in enumerate(view.apply(X)):
        path = paths[row].indices
        assert path[0] == 0 and path[-1] == leaf and view.children_left[leaf] == -1
        for node, child in zip(path, path[1:], strict=False):
            x = X[row, view.feature[node]]
            if view.splits_by_categories[node]:
                known = x in range(n_categories[view.feature[node]])
                left = x in view.categories_left(node) if known else view.missing_go_to_left[node]
            else:
                left = view.missing_go_to_left[node] if np.isnan(x) else x <= view.threshold[node]
            assert child == (view.children_left if left else view.children_right)[node]


@given(st.integers(0, 2**32), st.lists(st.integers(0, 12), min_size=1, max_size=4))
def test_walks_through_forests(seed, sizes):
    rng = np.random.default_rng(seed)
    forest = Forest.concatenate([random_tree(rng, n, [0, 5], 1) for n in sizes])
    parent, depth = parents(forest), node_depths(forest)
    roots = forest.offset[:-1]
    np.testing.assert_array_equal(np.flatnonzero(parent < 0), roots)
    below = np.flatnonzero(parent >= 0)
    np.testing.assert_array_equal(depth[below], depth[parent[below]] + 1)
    np.testing.assert_array_equal(depth[roots], 0)
    assert sorted(np.concatenate(list(levels(forest)))) == list(range(forest.feature.size))
    tree = np.searchsorted(forest.offset, parent[below], side="right") - 1
    child = below - forest.offset[tree]
    is_left = forest.left[parent[below]] == child
    assert (is_left | (forest.right[parent[below]] == child)).all()
