"""Trees to look at and to cut: those of scikit-learn as forests of one tree, and random ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from gpuens.forest.forest import Forest
from gpuens.forest.view import TreeView


def breadth_first(tree: Any) -> np.ndarray:
    """The node numbers of a fitted ``tree_``, level by level."""
    order: list[int] = []
    level = [0]
    while level:
        order += level
        level = [
            child
            for node in level
            if tree.children_left[node] >= 0
            for child in (tree.children_left[node], tree.children_right[node])
        ]
    return np.array(order)


def to_forest(estimator: Any) -> Forest:
    tree = estimator.tree_
    order = breadth_first(tree)
    number = np.argsort(order)
    leaf = tree.children_left[order] < 0
    weighted = tree.impurity * tree.weighted_n_node_samples
    gain = weighted - weighted[tree.children_left] - weighted[tree.children_right]
    value = [tree.value[order, output, :n] for output, n in enumerate(tree.n_classes)]
    return tree_of(
        n_features=tree.n_features,
        feature=np.where(leaf, -1, tree.feature[order]),
        threshold=np.where(leaf, 0.0, tree.threshold[order]),
        missing_left=np.where(leaf, 0, tree.missing_go_to_left[order]),
        left=np.where(leaf, -1, number[tree.children_left[order]]),
        right=np.where(leaf, -1, number[tree.children_right[order]]),
        value=np.concatenate(value, axis=1),
        gain=np.where(leaf, 0.0, gain[order]),
        impurity=tree.impurity[order],
        n_samples=tree.n_node_samples[order],
        cover=tree.weighted_n_node_samples[order],
    )


def to_view(estimator: Any) -> TreeView:
    return TreeView(to_forest(estimator), 0, estimator.tree_.n_classes)


def tree_of(*, n_features: int, feature: np.ndarray, value: np.ndarray, **arrays: Any) -> Forest:
    """A forest of one tree, with what is not given left at what says least."""
    n = len(feature)
    given = {
        "threshold": np.zeros(n),
        "missing_left": np.zeros(n),
        "category_begin": np.full(n, -1),
        "gain": np.zeros(n),
        "impurity": np.zeros(n),
        "n_samples": np.ones(n),
        "cover": np.ones(n),
        "categories": np.empty(0),
        "n_categories": np.zeros(n_features),
    } | arrays
    dtypes = dict.fromkeys(("threshold", "gain", "impurity", "cover"), np.float64) | {
        "missing_left": np.uint8,
        "categories": np.uint32,
    }
    return Forest(
        n_features=n_features,
        base=np.zeros(value.shape[1]),
        offset=np.array([0, n], np.int64),
        output=np.zeros(1, np.int32),
        feature=np.asarray(feature, np.int32),
        value=np.asarray(value, np.float64),
        **{name: np.array(array, dtypes.get(name, np.int32)) for name, array in given.items()},
    )


def random_tree(rng: np.random.Generator, n_splits: int, n_categories: Any, width: int) -> Forest:
    """A tree with random splits, by categories where a feature has any."""
    left, right = np.full((2, 2 * n_splits + 1), -1)
    level, n = [0], 1
    while n < left.size:
        splits = [node for node in level if rng.random() < 0.6] or [rng.choice(level)]
        below = []
        for node in sorted(splits)[: (left.size - n) // 2]:
            left[node], right[node] = n, n + 1
            below += [n, n + 1]
            n += 2
        level = below
    n_categories = np.asarray(n_categories)
    split = left >= 0
    feature = np.where(split, rng.integers(0, n_categories.size, n), -1)
    n_words = np.where(split, (n_categories[feature] + 31) // 32, 0)
    return tree_of(
        n_features=n_categories.size,
        feature=feature,
        threshold=np.where(split & (n_words == 0), rng.normal(size=n).round(1), 0.0),
        missing_left=np.where(split, rng.integers(0, 2, n), 0),
        left=left,
        right=right,
        category_begin=np.where(n_words > 0, np.cumsum(n_words) - n_words, -1),
        value=rng.random((n, width)),
        gain=np.where(split, rng.random(n), 0.0),
        impurity=rng.integers(0, 9, n),
        n_samples=rng.integers(1, 9, n),
        cover=rng.integers(1, 9, n),
        categories=rng.integers(0, 2**32, n_words.sum()),
        n_categories=n_categories,
    )


def random_rows(rng: np.random.Generator, n: int, n_categories: Any) -> np.ndarray:
    """Rows for ``random_tree``: numbers, categories, and missing values of every kind."""
    columns = [
        rng.integers(-1, k + 1, n) if k else rng.normal(size=n) for k in np.asarray(n_categories)
    ]
    X = np.stack(columns, axis=1).astype(np.float64)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


class Tree(BaseEstimator):
    """A fitted estimator with a ``tree_``, as exporting sees it."""

    def __init__(self, view: TreeView, criterion: str = "squared_error") -> None:
        self.tree_, self.criterion = view, criterion

    def fit(self, X: Any, y: Any) -> Tree:
        raise NotImplementedError


class ClassifierTree(ClassifierMixin, Tree):
    """The same of a classifier."""

    def __init__(self, view: TreeView, classes: Any, criterion: str = "gini") -> None:
        super().__init__(view, criterion)
        self.classes_ = classes


def like(estimator: Any) -> Tree:
    """What a decision tree of this library would be, had it grown the same tree."""
    view = to_view(estimator)
    if isinstance(estimator, ClassifierMixin):
        return ClassifierTree(view, estimator.classes_, estimator.criterion)
    return Tree(view, estimator.criterion)
