"""Reference twin of ``kernels.traverse``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from array_api_compat import array_namespace, device


def traverse(trees: Any, X: Any, raw: Any) -> None:
    """Tree by tree: find the leaves, gather their values, add."""
    xp = array_namespace(X)
    for tree in range(trees.output.shape[0]):
        value = trees.value[_nodes(trees, tree)]
        output = int(trees.output[tree])
        raw[output, :] = raw[output, :] + xp.take(value, _leaves(trees, tree, X))


def leaf_indices(trees: Any, X: Any) -> Any:
    """Tree by tree."""
    xp = array_namespace(X)
    n_trees = trees.output.shape[0]
    leaves = xp.zeros((X.shape[0], n_trees), dtype=xp.int32, device=device(X))
    for tree in range(n_trees):
        leaves[:, tree] = _leaves(trees, tree, X)
    return leaves


def descend(
    table: Any, feature: Any, left: Any, right: Any, goes_left: Callable[[Any, Any], Any]
) -> Any:
    """The leaf of one tree (int32) that each row of a table reaches, level by level.

    ``goes_left(value, node)`` decides for the rows' values in the features of their nodes;
    rows that have arrived are sent to where they are.
    """
    xp = array_namespace(table)
    n_rows, n_features = table.shape
    flat = xp.reshape(table, (-1,))
    start = xp.arange(n_rows, dtype=xp.int64, device=device(table)) * n_features
    node = xp.zeros(n_rows, dtype=xp.int32, device=device(table))
    while True:
        tested = xp.take(feature, node)
        arrived = tested < 0
        if bool(xp.all(arrived)):
            return node
        value = xp.take(flat, start + xp.where(arrived, 0, tested))
        child = xp.where(goes_left(value, node), xp.take(left, node), xp.take(right, node))
        node = xp.where(arrived, node, child)


def _nodes(trees: Any, tree: int) -> slice:
    return slice(int(trees.offset[tree]), int(trees.offset[tree + 1]))


def _leaves(trees: Any, tree: int, X: Any) -> Any:
    xp = array_namespace(X)
    nodes = _nodes(trees, tree)
    threshold = trees.threshold[nodes]
    missing_left = trees.missing_left[nodes] != 0

    def goes_left(x: Any, node: Any) -> Any:
        below = xp.astype(x, xp.float64) <= xp.take(threshold, node)
        return xp.where(xp.isnan(x), xp.take(missing_left, node), below)

    return descend(X, trees.feature[nodes], trees.left[nodes], trees.right[nodes], goes_left)
