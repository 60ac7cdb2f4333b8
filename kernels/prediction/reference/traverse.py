"""Reference twin of ``kernels.prediction.traverse``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from ...growth.reference.partition import members_of
from ...runtime.arrays import Array
from ...runtime.dtypes import MISSING, N_SLOTS, NO_SETS, Codes
from ...runtime.reference.arrays import beside
from ...scalars.primitives import vectorise
from ...scalars.routing import is_left_category, names_category
from ..traverse import Trees

_names_category = vectorise(names_category)
_is_left_category = vectorise(is_left_category)


def traverse(trees: Trees, X: Array, raw: Array) -> None:
    """Tree by tree: find the leaves, gather their values, add."""
    xp = array_namespace(X)
    width = trees.value.shape[1]
    for tree in range(trees.output.shape[0]):
        value = trees.value[_nodes(trees, tree), :]
        columns = slice(int(trees.output[tree]), int(trees.output[tree]) + width)
        added = xp.take(value, _leaves(trees, tree, X), axis=0)
        raw[columns, :] = xp.astype(raw[columns, :] + added.T, raw.dtype)


def leaf_indices(trees: Trees, X: Array) -> Array:
    """Tree by tree."""
    xp = array_namespace(X)
    n_trees = trees.output.shape[0]
    leaves = xp.zeros((X.shape[0], n_trees), dtype=xp.int32, device=device(X))
    for tree in range(n_trees):
        leaves[:, tree] = _leaves(trees, tree, X)
    return leaves


def descend(
    table: Array, feature: Array, left: Array, right: Array, goes_left: Callable[[Any, Any], Any]
) -> Array:
    """Return the leaf of one tree (int32) that each row of a table reaches, level by level.

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


def _nodes(trees: Trees, tree: int) -> slice:
    return slice(int(trees.offset[tree]), int(trees.offset[tree + 1]))


def _leaves(trees: Trees, tree: int, X: Array) -> Array:
    xp = array_namespace(X)
    nodes = _nodes(trees, tree)
    feature, threshold = trees.feature[nodes], trees.threshold[nodes]
    missing_left = trees.missing_left[nodes] != 0
    category_begin = trees.category_begin[nodes]
    by_categories = bool(xp.any(category_begin >= 0))

    def goes_left(x: Array, node: Array) -> Array:
        below = xp.astype(x, xp.float64) <= xp.take(threshold, node)
        below = xp.where(xp.isnan(x), xp.take(missing_left, node), below)
        if not by_categories:
            return below
        begin = xp.take(category_begin, node)
        n_categories = xp.take(trees.n_categories, xp.where(begin >= 0, xp.take(feature, node), 0))
        known = _names_category(xp.astype(x, xp.float64), xp.astype(n_categories, xp.float64))
        category = xp.astype(xp.where(known & (begin >= 0), x, 0), xp.int64)
        words = xp.take(trees.categories, xp.where(begin >= 0, begin, 0) + category // 32)
        in_set = _is_left_category(xp.astype(words, xp.int64), category)
        in_set = xp.where(known, in_set, xp.take(missing_left, node))
        return xp.where(begin >= 0, in_set, below)

    return descend(X, feature, trees.left[nodes], trees.right[nodes], goes_left)


def traverse_codes(
    codes: Codes,
    offset: np.ndarray,
    feature: Array,
    bin_: Array,
    missing_left: Array,
    left: Array,
    right: Array,
    leaf: Array,
    left_codes: np.ndarray = NO_SETS,
) -> None:
    """One tree after another. Every row takes part; the entries that were set are kept at the
    end."""
    for t in range(leaf.shape[0]):
        own = slice(int(offset[t]), int(offset[t + 1]))
        _walk_codes(
            codes, feature[own], bin_[own], missing_left[own], left[own], right[own], leaf[t, ...],
            left_codes[own],
        )  # fmt: skip


def _walk_codes(
    codes: Codes,
    feature: Array,
    bin_: Array,
    missing_left: Array,
    left: Array,
    right: Array,
    leaf: Array,
    left_codes: np.ndarray,
) -> None:
    xp = array_namespace(leaf)
    sets = np.zeros((len(bin_), N_SLOTS), np.int32)
    for node, words in enumerate(left_codes):
        sets[node] = members_of(words)
    in_left = xp.reshape(beside(sets, leaf), (-1,))
    feature, bin_, left, right = (beside(a, leaf) for a in (feature, bin_, left, right))
    missing_goes_left = beside(missing_left, leaf) != 0

    def goes_left(code: Array, node: Array) -> Any:
        below = xp.astype(code, xp.int32) <= xp.take(bin_, node)
        by_bin = xp.where(code == MISSING, xp.take(missing_goes_left, node), below)
        at = xp.astype(node, xp.int64) * N_SLOTS + xp.astype(code, xp.int64)
        return xp.where(xp.take(bin_, node) < 0, xp.take(in_left, at) != 0, by_bin)

    reached = descend(codes.columns.T, feature, left, right, goes_left)
    leaf[...] = xp.where(leaf < 0, reached, leaf)
