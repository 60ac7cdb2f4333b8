"""Relations of the nodes of a forest: children, levels, paths, and the gains of splits.

Nodes are entries of the node arrays, counted through all trees of the forest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from ..devices.placement import CPU, Device, to_numpy
from ..kernels.cart.problem import GrownCart
from .forest import Forest


def children(forest: Forest | GrownCart, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the left and right children of inner nodes."""
    root = forest.offset[np.searchsorted(forest.offset, nodes, side="right") - 1]
    return root + forest.left[nodes], root + forest.right[nodes]


def parents(forest: Forest) -> np.ndarray:
    """Return the parent of every node, -1 for roots (int64)."""
    parent = np.full(forest.feature.size, -1)
    inner = np.flatnonzero(forest.feature >= 0)
    for child in children(forest, inner):
        parent[child] = inner
    return parent


def levels(forest: Forest | GrownCart) -> Iterator[np.ndarray]:
    """Iterate over the nodes of all trees, depth by depth, roots first."""
    nodes = forest.offset[:-1]
    while nodes.size:
        yield nodes
        nodes = np.concatenate(children(forest, nodes[forest.feature[nodes] >= 0]))


def node_depths(forest: Forest) -> np.ndarray:
    """Return the number of splits above every node (int64)."""
    depth = np.zeros(forest.feature.size, np.int64)
    for level, nodes in enumerate(levels(forest)):
        depth[nodes] = level
    return depth


def impurity_decrease(forest: Forest) -> np.ndarray:
    """Return how far each split lowers the weighted impurity, 0 at leaves; in forests without
    impurities, the gain."""
    if forest.impurity.size == 0:
        return forest.gain
    weighted = forest.cover * forest.impurity
    decrease = np.zeros_like(weighted)
    inner = np.flatnonzero(forest.feature >= 0)
    left, right = children(forest, inner)
    decrease[inner] = weighted[inner] - weighted[left] - weighted[right]
    return decrease


KINDS = ("gain", "cover", "frequency")


def feature_sums(forest: Forest, kind: str = "gain") -> np.ndarray:
    """Sum a property of the splits over all trees, by the feature that they use.

    Parameters
    ----------
    kind : {"gain", "cover", "frequency"}, default="gain"
        The decrease of the impurity or of the loss, the weight of the training rows, or 1.

    Returns
    -------
    float64, shape (n_features,)
    """
    inner = np.flatnonzero(forest.feature >= 0)
    if kind == "gain":
        value = impurity_decrease(forest)[inner]
    else:
        value = forest.cover[inner] if kind == "cover" else np.ones(inner.size)
    return forest.by_feature(np.bincount(forest.feature[inner], value, forest.n_columns))


def tree_importances(forest: Forest, normalize: bool = True) -> np.ndarray:
    """Return the importance of every feature in every tree: the impurity decreases of its splits.

    Parameters
    ----------
    normalize : bool, default=True
        Whether those of a tree sum up to 1 (if it lowers the impurity at all); otherwise they
        are decreases for each unit of weight.

    Returns
    -------
    float64, shape (n_trees, n_features)

    References
    ----------
    Breiman, Friedman, Olshen and Stone, "Classification and Regression Trees", 1984, 5.3.4, but
    of the splits themselves, not of their surrogates.
    """
    shape = forest.n_trees, forest.n_columns
    inner = np.flatnonzero(forest.feature >= 0)
    tree = np.searchsorted(forest.offset, inner, side="right") - 1
    cell = tree * forest.n_columns + forest.feature[inner]
    sums = np.bincount(cell, impurity_decrease(forest)[inner], shape[0] * shape[1])
    sums = forest.by_feature(sums.reshape(shape))
    divisor = forest.cover[forest.offset[:-1]][:, None]
    if normalize:
        divisor = sums.sum(axis=1, keepdims=True)
    return np.divide(sums, divisor, out=np.zeros(sums.shape), where=divisor > 0)


def mean_importances(forest: Forest) -> np.ndarray:
    """Return the mean importance of every feature over the trees that split, with a sum of 1.

    Returns
    -------
    float64, shape (n_features,)
        Zeros where no tree lowers the impurity.
    """
    importances = tree_importances(forest)
    importances = importances[importances.sum(axis=1) > 0]
    if not len(importances):
        return np.zeros(forest.n_features)
    mean = importances.mean(axis=0)
    return mean / mean.sum()


def decision_path(forest: Forest, X: Any, device: Device = CPU) -> tuple[csr_matrix, np.ndarray]:
    """Return the nodes that rows pass in every tree.

    Parameters
    ----------
    X : float32 or float64, shape (n_rows, n_features)
        On ``device``; NaN is missing.

    Returns
    -------
    indicator : CSR matrix of zeros and ones, shape (n_rows, n_nodes)
        Always in host memory.
    n_nodes_ptr : int64, shape (n_trees + 1,)
        Tree t has columns ``n_nodes_ptr[t]:n_nodes_ptr[t + 1]``.
    """
    leaf = to_numpy(forest.apply(X, device))
    node = (leaf + forest.offset[:-1]).ravel()
    parent = parents(forest)
    end = np.cumsum(node_depths(forest)[node] + 1)
    indices = np.empty(end[-1] if end.size else 0, np.int64)
    # Paths are followed upwards, all rows and trees at once, and a path fills its entries from the
    # last one. With end = [3, 5]: leaves go to entries 2 and 4, their parents to 1 and 3, the root
    # above the former to 0.
    entry = end - 1
    while node.size:
        indices[entry] = node
        node = parent[node]
        below = node >= 0
        node, entry = node[below], entry[below] - 1
    starts = np.concatenate([[0], end[forest.n_trees - 1 :: forest.n_trees]])
    ones = np.ones(indices.size, np.int64)
    indicator = csr_matrix((ones, indices, starts), shape=(leaf.shape[0], forest.feature.size))
    return indicator, np.array(forest.offset)
