"""One tree of a forest under the names that scikit-learn gives to a tree's arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from ..devices.placement import to_numpy
from ..kernels.scalars.lazy_jit import lazy_property
from .forest import Forest
from .plain import require_plain_trees
from .structure import decision_path, node_depths, tree_importances

TREE_UNDEFINED = -2
"""scikit-learn's value for the feature and the threshold of a leaf."""


class TreeView:
    """A tree, read-only, with the attributes of scikit-learn's ``tree_``.

    Nodes are numbered breadth first: the root is 0, the levels follow each other, and the right
    child comes directly after the left one.

    Parameters
    ----------
    forest : Forest
    tree : int
        Which tree of the forest.
    n_classes : sequence of int, one for each output
        Number of classes; 1 for each output of a regression.

    Attributes
    ----------
    node_count, n_leaves, max_depth, n_features, n_outputs, max_n_classes : int
        ``max_depth`` is the number of splits on the longest path from the root.
    n_classes : int64, shape (n_outputs,)
    children_left, children_right : int64, shape (node_count,)
        -1 at a leaf.
    feature : int64, shape (node_count,)
        -2 at a leaf.
    threshold : float64, shape (node_count,)
        ``x <= threshold`` goes left. -2 at a leaf, NaN at a split by categories, +inf where all
        values go left and missing ones right.
    missing_go_to_left : uint8, shape (node_count,)
    splits_by_categories : bool, shape (node_count,)
        Where ``categories_left`` decides what goes left, not the threshold.
    value : float64, shape (node_count, n_outputs, max_n_classes)
        The shares of the classes, 0 beyond an output's classes; or what a regression predicts.
    impurity : float64, shape (node_count,)
        AttributeError where the ensemble has none (boosting).
    gain : float64, shape (node_count,)
        Weighted decrease of the impurity by the split; 0 at a leaf.
    n_node_samples : int64, shape (node_count,)
        Training rows, each counted once.
    weighted_n_node_samples : float64, shape (node_count,)
    """

    def __init__(self, forest: Forest, tree: int, n_classes: Sequence[int]) -> None:
        require_plain_trees(forest, "TreeView", "")
        if not 0 <= tree < forest.n_trees:
            raise IndexError(f"tree must be in 0 ... {forest.n_trees - 1}, got {tree}.")
        self._forest = forest.slice(tree, tree + 1)
        self._n_classes = tuple(int(n) for n in n_classes)
        if sum(self._n_classes) != forest.value.shape[1]:
            raise ValueError(
                f"n_classes must sum up to {forest.value.shape[1]}, the columns of the forest's "
                f"values, got {list(self._n_classes)}."
            )

    def __getstate__(self) -> tuple[Forest, tuple[int, ...]]:
        return self._forest, self._n_classes

    def __setstate__(self, state: tuple[Forest, tuple[int, ...]]) -> None:
        self._forest, self._n_classes = state

    @property
    def node_count(self) -> int:
        return self._forest.feature.size

    @property
    def capacity(self) -> int:
        """Equal to ``node_count``: a finished tree has no room to grow."""
        return self.node_count

    @property
    def n_leaves(self) -> int:
        return int((self._forest.feature < 0).sum())

    @property
    def max_depth(self) -> int:
        return int(node_depths(self._forest).max())

    @property
    def n_features(self) -> int:
        return self._forest.n_features

    @property
    def n_outputs(self) -> int:
        return len(self._n_classes)

    @property
    def n_classes(self) -> np.ndarray:
        return np.array(self._n_classes, np.int64)

    @property
    def max_n_classes(self) -> int:
        return max(self._n_classes)

    @lazy_property
    def children_left(self) -> np.ndarray:
        return _frozen(self._forest.left.astype(np.int64))

    @lazy_property
    def children_right(self) -> np.ndarray:
        return _frozen(self._forest.right.astype(np.int64))

    @lazy_property
    def feature(self) -> np.ndarray:
        feature = self._forest.feature.astype(np.int64)
        return _frozen(np.where(feature < 0, TREE_UNDEFINED, feature))

    @lazy_property
    def threshold(self) -> np.ndarray:
        forest = self._forest
        threshold = np.where(forest.category_begin >= 0, np.nan, forest.threshold)
        return _frozen(np.where(forest.feature < 0, float(TREE_UNDEFINED), threshold))

    @property
    def missing_go_to_left(self) -> np.ndarray:
        return self._forest.missing_left

    @lazy_property
    def splits_by_categories(self) -> np.ndarray:
        return _frozen(self._forest.category_begin >= 0)

    @lazy_property
    def value(self) -> np.ndarray:
        value = np.zeros((self.node_count, self.n_outputs, self.max_n_classes))
        begin = 0
        for output, n in enumerate(self._n_classes):
            value[:, output, :n] = self._forest.value[:, begin : begin + n]
            begin += n
        return _frozen(value)

    @property
    def impurity(self) -> np.ndarray:
        if self._forest.impurity.size == 0:
            raise AttributeError("The trees of this ensemble have no impurity, only gain.")
        return self._forest.impurity

    @property
    def gain(self) -> np.ndarray:
        return self._forest.gain

    @lazy_property
    def n_node_samples(self) -> np.ndarray:
        return _frozen(self._forest.n_samples.astype(np.int64))

    @property
    def weighted_n_node_samples(self) -> np.ndarray:
        return self._forest.cover

    def categories_left(self, node: int) -> np.ndarray:
        """Return the categories that a split sends left, int64, ascending.

        Raises
        ------
        ValueError
            The node is not a split by categories.
        """
        forest = self._forest
        begin = int(forest.category_begin[node])
        if begin < 0:
            raise ValueError(
                f"node must be a split by categories (see splits_by_categories), got {node}."
            )
        n = int(forest.n_categories[forest.feature[node]])
        words = forest.categories[begin : begin + (n + 31) // 32].astype("<u4")
        return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")[:n])

    def predict(self, X: Any) -> np.ndarray:
        """Return the values of the leaves that rows end in.

        Parameters
        ----------
        X : array, shape (n_rows, n_features)
            Numbers; NaN is missing.

        Returns
        -------
        float64, shape (n_rows, max_n_classes), or (n_rows, n_outputs, max_n_classes) with
        several outputs
        """
        value = self.value[self.apply(X)]
        return value[:, 0] if self.n_outputs == 1 else value

    def apply(self, X: Any) -> np.ndarray:
        """Return the leaf that each row ends in, int64 of shape (n_rows,)."""
        return self._forest.apply(self._table(X))[:, 0].astype(np.int64)

    def decision_path(self, X: Any) -> csr_matrix:
        """Return the nodes that each row passes: zeros and ones, shape (n_rows, node_count)."""
        return decision_path(self._forest, self._table(X))[0]

    def compute_node_depths(self) -> np.ndarray:
        """Return the number of nodes from the root to each node, 1 for the root itself (int64)."""
        return node_depths(self._forest) + 1

    def compute_feature_importances(self, normalize: bool = True) -> np.ndarray:
        """Return the importances of the features (see ``tree_importances``), float64."""
        return tree_importances(self._forest, normalize)[0]

    def _table(self, X: Any) -> np.ndarray:
        table = to_numpy(X)
        if table.ndim != 2 or table.shape[1] != self.n_features:
            raise ValueError(
                f"X must have the shape (n_rows, {self.n_features}), got {table.shape}. "
                "One row is X.reshape(1, -1)."
            )
        return table if table.dtype in (np.float32, np.float64) else table.astype(np.float64)


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
