"""Pruned trees: those of scikit-learn, and those of the definitions written out."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_linnerud
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from gpuens.forest.forest import NODE_ARRAYS, Forest
from gpuens.forest.pruning import (
    cost_complexity_path,
    cut,
    held_out_loss,
    prune_by_complexity,
    reduced_error_prune,
)
from gpuens.forest.structure import impurity_decrease, parents
from gpuens.forest.view import TreeView
from tests.support.sklearn_trees import random_rows, random_tree, to_forest, tree_of

SEEDS = st.integers(0, 2**32)
CATEGORIES = [0, 40, 3, 0, 64]


def several_targets(data):
    X, y = data
    return X, np.stack([y, np.arange(len(y)) % 4], axis=1)


def with_gaps(data):
    X, y = data
    return np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X), y


PROBLEMS = {
    "iris": (DecisionTreeClassifier(random_state=0), load_iris(return_X_y=True)),
    "missing": (
        DecisionTreeClassifier(criterion="entropy", random_state=0),
        with_gaps(load_breast_cancer(return_X_y=True)),
    ),
    "several classifications": (
        DecisionTreeClassifier(random_state=0),
        several_targets(load_iris(return_X_y=True)),
    ),
    "squared error": (DecisionTreeRegressor(random_state=0), load_diabetes(return_X_y=True)),
    "absolute error": (
        DecisionTreeRegressor(criterion="absolute_error", random_state=0, max_depth=8),
        load_diabetes(return_X_y=True),
    ),
    "several regressions": (DecisionTreeRegressor(random_state=0), load_linnerud(return_X_y=True)),
}


@pytest.fixture(params=PROBLEMS)
def problem(request):
    estimator, (X, y) = PROBLEMS[request.param]
    weight = np.random.default_rng(5).uniform(0.5, 2.0, len(y))
    return estimator.set_params(ccp_alpha=0.0).fit(X, y, weight), X, y, weight


def last_of_ties(alphas, scale):
    """Entries after which alpha rises: branches with equal alphas may be cut in any order."""
    return np.append(np.diff(alphas) > 1e-10 * scale, True)


def test_path(problem):
    estimator, X, y, weight = problem
    mine = cost_complexity_path(to_forest(estimator))
    theirs = estimator.cost_complexity_pruning_path(X, y, weight)
    scale = theirs.impurities[-1]
    assert mine.ccp_alphas[0] == 0.0
    assert (np.diff(mine.ccp_alphas) >= 0).all()
    np.testing.assert_allclose(mine.ccp_alphas, theirs.ccp_alphas, atol=1e-10 * scale)
    ends = last_of_ties(theirs.ccp_alphas, scale)
    np.testing.assert_allclose(
        mine.impurities[ends], theirs.impurities[ends], rtol=1e-10, atol=1e-10 * scale
    )


def test_pruned_trees(problem):
    """At every tenth price between two entries of the path, scikit-learn's own tree."""
    estimator, X, y, weight = problem
    forest = to_forest(estimator)
    alphas = np.unique(cost_complexity_path(forest).ccp_alphas)
    alphas = alphas[last_of_ties(alphas, alphas[-1])]
    between = (alphas[1:] + alphas[:-1]) / 2
    for alpha in [*between[:: max(1, between.size // 10)], alphas[-1] * 1.01]:
        expected = to_forest(estimator.set_params(ccp_alpha=alpha).fit(X, y, weight))
        pruned = prune_by_complexity(forest, alpha)
        for name in NODE_ARRAYS:
            np.testing.assert_array_equal(getattr(pruned, name), getattr(expected, name), name)


def test_path_and_pruning_agree(problem):
    """The price of an entry cuts what the entry says, to the last bit."""
    forest = to_forest(problem[0])
    path = cost_complexity_path(forest)
    for alpha in np.unique(path.ccp_alphas[path.ccp_alphas > 0])[::7]:
        pruned = prune_by_complexity(forest, alpha)
        leaves = pruned.feature < 0
        impurity = (pruned.impurity * pruned.cover)[leaves].sum() / pruned.cover[0]
        entry = np.searchsorted(path.ccp_alphas, alpha, side="right") - 1
        assert impurity == pytest.approx(path.impurities[entry], rel=1e-9)
    assert prune_by_complexity(forest, path.ccp_alphas[-1]).feature.tolist() == [-1]


def test_path_of_a_leaf():
    leaf = tree_of(n_features=1, feature=[-1], left=[-1], right=[-1], value=np.ones((1, 1)),
                   impurity=[3.0], cover=[2.0])  # fmt: skip
    path = cost_complexity_path(leaf)
    assert (path.ccp_alphas.tolist(), path.impurities.tolist()) == ([0.0], [3.0])
    assert prune_by_complexity(leaf, 1.0).feature.tolist() == [-1]


def test_price_of_zero_cuts_nothing():
    forest = random_tree(np.random.default_rng(0), 9, CATEGORIES, 1)
    assert prune_by_complexity(forest, 0.0) is forest


def cheapest(forest, alpha):
    """Which nodes are splits in the smallest tree of the least cost, in exact arithmetic."""
    cover = [Fraction(c) for c in forest.cover]
    as_leaf = [Fraction(i) * c / cover[0] for i, c in zip(forest.impurity, cover, strict=True)]
    alpha, splits = Fraction(alpha), set()

    def cost(node):
        leaf = as_leaf[node] + alpha
        if forest.feature[node] < 0:
            return leaf
        branch = cost(forest.left[node]) + cost(forest.right[node])
        if branch < leaf:
            splits.add(node)
        return min(branch, leaf)

    cost(0)
    return below_root(forest, splits)


def below_root(forest, splits):
    """Those splits that a row can reach if all other nodes are leaves."""
    reached, todo = [], [0]
    while todo:
        node = todo.pop()
        if node in splits:
            reached.append(node)
            todo += [forest.left[node], forest.right[node]]
    return sorted(reached)


def fewest_mistakes(forest, loss):
    """The splits that reduced-error pruning keeps, by recursion."""
    splits = set()

    def least(node):
        if forest.feature[node] < 0:
            return loss[node]
        branch = least(forest.left[node]) + least(forest.right[node])
        if branch < loss[node]:
            splits.add(node)
            return branch
        return loss[node]

    least(0)
    return below_root(forest, splits)


def tagged(forest):
    """Nodes that can be told apart wherever they end up."""
    return Forest(**{**forest.__getstate__(), "gain": np.arange(1.0, forest.feature.size + 1)})


def kept_splits(pruned):
    return sorted((pruned.gain[pruned.feature >= 0] - 1).astype(int).tolist())


@given(SEEDS, st.integers(0, 25), st.floats(0.001, 3.0))
def test_least_cost(seed, n_splits, alpha):
    forest = tagged(random_tree(np.random.default_rng(seed), n_splits, CATEGORIES, 1))
    assert kept_splits(prune_by_complexity(forest, alpha)) == cheapest(forest, alpha)


@given(SEEDS, st.integers(0, 25))
def test_reduced_error(seed, n_splits):
    rng = np.random.default_rng(seed)
    forest = tagged(random_tree(rng, n_splits, CATEGORIES, 1))
    loss = rng.integers(0, 12, forest.feature.size).astype(float)
    pruned = reduced_error_prune(forest, loss)
    assert kept_splits(pruned) == fewest_mistakes(forest, loss)


def test_reduced_error_knows_rounding():
    """0.1 + 0.2 is not 0.3, but the leaf loses no more than its branch."""
    forest = random_tree(np.random.default_rng(0), 1, [0], 1)
    assert 0.1 + 0.2 > 0.3
    for loss in ([0.3, 0.1, 0.2], [0.1 + 0.2, 0.0, 0.3]):
        assert reduced_error_prune(forest, np.array(loss)).feature.size == 1
    assert reduced_error_prune(forest, np.array([0.301, 0.1, 0.2])).feature.size == 3


@given(SEEDS, st.integers(0, 25))
def test_cut_trees_keep_what_remains(seed, n_splits):
    """Rows end in the lowest node that remains of their way, and nothing else changes."""
    rng = np.random.default_rng(seed)
    forest = tagged(random_tree(rng, n_splits, CATEGORIES, 3))
    is_cut = rng.random(forest.feature.size) < 0.2
    before = forest.fingerprint()
    pruned = cut(forest, is_cut)
    assert forest.fingerprint() == before
    keep = below_root(forest, set(np.flatnonzero((forest.feature >= 0) & ~is_cut)))
    parent = parents(forest)
    kept = np.flatnonzero(np.isin(parent, [*keep, -1]))
    for name in ("value", "impurity", "n_samples", "cover"):
        np.testing.assert_array_equal(getattr(pruned, name), getattr(forest, name)[kept])
    for name in NODE_ARRAYS:
        assert getattr(pruned, name).dtype == getattr(forest, name).dtype
    splits = np.isin(kept, keep)
    for name in ("feature", "threshold", "missing_left", "gain"):
        expected = np.where(splits, getattr(forest, name)[kept], -1 if name == "feature" else 0)
        np.testing.assert_array_equal(getattr(pruned, name), expected)
    number = np.append(np.searchsorted(kept, np.arange(forest.feature.size)), -1)
    for name in ("left", "right"):
        old = np.where(splits, getattr(forest, name)[kept], -1)
        np.testing.assert_array_equal(getattr(pruned, name), number[old])
    X = random_rows(rng, 30, CATEGORIES)
    node = forest.apply(X)[:, 0]
    while not np.isin(node, kept).all():
        node = np.where(np.isin(node, kept), node, parent[node])
    np.testing.assert_array_equal(kept[pruned.apply(X)[:, 0]], node)
    mine, old = TreeView(pruned, 0, [3]), TreeView(forest, 0, [3])
    for place in np.flatnonzero(mine.splits_by_categories):
        assert mine.categories_left(place).tolist() == old.categories_left(kept[place]).tolist()
    words = (np.array(CATEGORIES)[pruned.feature[mine.splits_by_categories]] + 31) // 32
    assert pruned.categories.size == words.sum()


LOSS_OF_ROW = {
    "squared_error": lambda y, v: (y - v) ** 2,
    "absolute_error": lambda y, v: abs(y - v),
    "poisson": lambda y, v: 2 * ((y * np.log(y / v) if y else 0.0) - y + v),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", LOSS_OF_ROW)
def test_held_out_loss(loss, weighted):
    rng = np.random.default_rng(7)
    forest = random_tree(rng, 12, CATEGORIES, 2)
    X, Y = random_rows(rng, 50, CATEGORIES), rng.integers(0, 3, (50, 2)).astype(float)
    weight = rng.random(50) if weighted else None
    path = TreeView(forest, 0, [2]).decision_path(X).toarray()
    expected = [
        sum(
            (1 if weight is None else weight[row]) * LOSS_OF_ROW[loss](Y[row, o], node_value[o])
            for row in np.flatnonzero(path[:, node])
            for o in range(2)
        )
        for node, node_value in enumerate(forest.value)
    ]
    np.testing.assert_allclose(held_out_loss(forest, X, Y, weight, loss=loss), expected)


def test_held_out_misclassification():
    rng = np.random.default_rng(8)
    forest = random_tree(rng, 12, CATEGORIES, 5)
    X = random_rows(rng, 50, CATEGORIES)
    Y = np.stack([rng.integers(0, 3, 50), rng.integers(0, 2, 50)], axis=1)
    weight = rng.integers(0, 4, 50)
    path = TreeView(forest, 0, [3, 2]).decision_path(X).toarray()
    first, second = forest.value[:, :3].argmax(axis=1), forest.value[:, 3:].argmax(axis=1)
    wrong = (Y[:, [0]] != first).astype(int) + (Y[:, [1]] != second)
    loss = held_out_loss(forest, X, Y, weight, loss="misclassification", n_classes=[3, 2])
    np.testing.assert_array_equal(loss, (path * wrong * weight[:, None]).sum(axis=0))


def test_pruning_with_held_out_rows():
    """The tree that remains makes fewer mistakes on those rows, with fewer leaves."""
    X, y = load_breast_cancer(return_X_y=True)
    forest = to_forest(DecisionTreeClassifier(random_state=0).fit(X[::2], y[::2]))
    X, y = X[1::2].astype(np.float32), y[1::2]
    loss = held_out_loss(forest, X, y, loss="misclassification", n_classes=[2])
    pruned = reduced_error_prune(forest, loss)
    assert pruned.n_leaves[0] < forest.n_leaves[0]
    mistakes = [
        int((TreeView(tree, 0, [2]).predict(X).argmax(axis=1) != y).sum())
        for tree in (forest, pruned)
    ]
    assert mistakes[1] < mistakes[0] == loss[forest.feature < 0].sum()
    again = held_out_loss(pruned, X, y, loss="misclassification", n_classes=[2])
    assert mistakes[1] == again[pruned.feature < 0].sum()
    assert reduced_error_prune(pruned, again).fingerprint() == pruned.fingerprint()


def test_trees_without_impurity():
    """Boosting's trees: no path, but they can be cut and pruned by held-out rows."""
    forest = random_tree(np.random.default_rng(0), 9, CATEGORIES, 1)
    forest = Forest(**{**forest.__getstate__(), "impurity": np.empty(0)})
    with pytest.raises(ValueError, match="needs the nodes' impurities"):
        cost_complexity_path(forest)
    with pytest.raises(ValueError, match="needs the nodes' impurities"):
        prune_by_complexity(forest, 0.1)
    pruned = reduced_error_prune(forest, np.zeros(forest.feature.size))
    assert pruned.feature.tolist() == [-1] and pruned.impurity.size == 0
    np.testing.assert_array_equal(impurity_decrease(forest), forest.gain)


def test_bad_arguments():
    tree = random_tree(np.random.default_rng(0), 4, [0], 1)
    two = Forest.concatenate([tree, tree])
    for refused in (
        lambda: cost_complexity_path(two),
        lambda: prune_by_complexity(two, 1.0),
        lambda: reduced_error_prune(two, np.zeros(18)),
        lambda: cut(two, np.zeros(18, bool)),
        lambda: held_out_loss(two, np.zeros((1, 1)), np.zeros(1), loss="squared_error"),
    ):
        with pytest.raises(ValueError, match="forest must have one tree, got 2"):
            refused()
    for alpha in (-0.1, float("nan")):
        with pytest.raises(ValueError, match="ccp_alpha must be a number >= 0"):
            prune_by_complexity(tree, alpha)
    with pytest.raises(ValueError, match=r"loss_as_leaf must have the shape \(9,\)"):
        reduced_error_prune(tree, np.zeros(5))
    with pytest.raises(ValueError, match="loss must be one of misclassification, squared"):
        held_out_loss(tree, np.zeros((1, 1)), np.zeros(1), loss="hinge")
    with pytest.raises(ValueError, match="y must have 1 columns, got 2"):
        held_out_loss(tree, np.zeros((1, 1)), np.zeros((1, 2)), loss="squared_error")
