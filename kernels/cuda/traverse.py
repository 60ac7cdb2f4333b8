"""Prediction on raw values (contract: ``kernels.traverse``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..scalars.routing import is_left_category, names_category, value_goes_left
from .target import block_size, blocks_for_rows, cuda, device_function, empty, kernel, launch

u32, f64 = np.uint32, np.float64
BLOCK = block_size(256)


@device_function
def category_goes_left(x, begin, categories, n_categories, missing_left):
    """The way of a value at a split by categories."""
    if names_category(x, n_categories):
        category = u32(x)
        return is_left_category(categories[u32(u32(begin) + (category >> u32(5)))], category)
    return missing_left != 0


@device_function
def leaf_of(
    feature, threshold, missing_left, left, category_begin, categories, n_categories, root, X, i
):
    """The node of all trees that row i reaches from a root. A forest without categories reads
    no ``category_begin``: every thread of the grid takes the same side of that branch."""
    by_categories = categories.shape[0] > 0
    node = root
    while feature[node] >= 0:
        tested = u32(feature[node])
        x = f64(X[i, tested])
        if by_categories and category_begin[node] >= 0:
            begin, n = category_begin[node], n_categories[tested]
            goes_left = category_goes_left(x, begin, categories, n, missing_left[node])
        else:
            goes_left = value_goes_left(x, threshold[node], missing_left[node] != 0)
        node = u32(root + u32(left[node]) + (u32(0) if goes_left else u32(1)))
    return node


@kernel
def add_trees(
    offset, feature, threshold, missing_left, left, category_begin, categories, n_categories,
    value, output, X, raw,
):  # fmt: skip
    """Leaves of one value. One row a thread, all trees; the sum of the current output stays in a
    register."""
    n = u32(X.shape[0])
    n_trees = output.shape[0]
    i = u32(cuda.grid(1))
    while i < n:
        into = u32(output[u32(0)])
        total = raw[into, i]
        for t in range(n_trees):
            if u32(output[u32(t)]) != into:
                raw[into, i] = total
                into = u32(output[u32(t)])
                total = raw[into, i]
            leaf = leaf_of(
                feature, threshold, missing_left, left, category_begin, categories,
                n_categories, u32(offset[u32(t)]), X, i,
            )  # fmt: skip
            total += value[leaf, u32(0)]
        raw[into, i] = total
        i = u32(i + cuda.gridsize(1))


@kernel
def add_vectors(
    offset, feature, threshold, missing_left, left, category_begin, categories, n_categories,
    value, output, X, raw,
):  # fmt: skip
    """Leaves of several values. One row a thread, all trees; a thread's sums stay in its
    caches, neighbours' beside each other."""
    n = u32(X.shape[0])
    n_trees = output.shape[0]
    width = u32(value.shape[1])
    i = u32(cuda.grid(1))
    while i < n:
        for t in range(n_trees):
            leaf = leaf_of(
                feature, threshold, missing_left, left, category_begin, categories,
                n_categories, u32(offset[u32(t)]), X, i,
            )  # fmt: skip
            into = u32(output[u32(t)])
            for j in range(width):
                raw[u32(into + u32(j)), i] += value[leaf, u32(j)]
        i = u32(i + cuda.gridsize(1))


def traverse(trees: Any, X: Any, raw: Any) -> None:
    if trees.output.shape[0]:
        add = add_trees if trees.value.shape[1] == 1 else add_vectors
        args = (*_structure(trees), trees.value, trees.output, X, raw)
        launch(add, blocks_for_rows(X.shape[0], BLOCK), BLOCK, *args)


@kernel
def find_leaves(
    offset, feature, threshold, missing_left, left, category_begin, categories, n_categories,
    X, leaves,
):  # fmt: skip
    """One row a thread, all trees: neighbours walk down the same tree."""
    n = u32(leaves.shape[0])
    n_trees = leaves.shape[1]
    i = u32(cuda.grid(1))
    while i < n:
        for t in range(n_trees):
            root = u32(offset[u32(t)])
            node = leaf_of(
                feature, threshold, missing_left, left, category_begin, categories,
                n_categories, root, X, i,
            )  # fmt: skip
            leaves[i, u32(t)] = u32(node - root)
        i = u32(i + cuda.gridsize(1))


def leaf_indices(trees: Any, X: Any) -> Any:
    leaves = empty((X.shape[0], trees.output.shape[0]), np.int32)
    args = (*_structure(trees), X, leaves)
    launch(find_leaves, blocks_for_rows(X.shape[0], BLOCK), BLOCK, *args)
    return leaves


def _structure(trees: Any) -> tuple[Any, ...]:
    """What says where rows go; ``right`` is ``left + 1``."""
    return (
        trees.offset,
        trees.feature,
        trees.threshold,
        trees.missing_left,
        trees.left,
        trees.category_begin,
        trees.categories,
        trees.n_categories,
    )
