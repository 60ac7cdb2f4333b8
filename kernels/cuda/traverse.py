"""Prediction on raw values (contract: ``kernels.traverse``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..scalars.routing import value_goes_left
from .target import block_size, blocks_for_rows, cuda, device_function, empty, kernel, launch

u32, f64 = np.uint32, np.float64
BLOCK = block_size(256)


@device_function
def leaf_of(feature, threshold, missing_left, left, right, root, X, i):
    """The node of all trees that row i reaches from a root."""
    node = root
    while feature[node] >= 0:
        x = f64(X[i, u32(feature[node])])
        if value_goes_left(x, threshold[node], missing_left[node]):
            node = u32(root + u32(left[node]))
        else:
            node = u32(root + u32(right[node]))
    return node


@kernel
def add_trees(offset, feature, threshold, missing_left, left, right, value, output, X, raw):
    """One row a thread, all trees; the sum of the current output stays in a register."""
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
            root = u32(offset[u32(t)])
            total += value[leaf_of(feature, threshold, missing_left, left, right, root, X, i)]
        raw[into, i] = total
        i = u32(i + cuda.gridsize(1))


def traverse(trees: Any, X: Any, raw: Any) -> None:
    if trees.output.shape[0]:
        launch(add_trees, blocks_for_rows(X.shape[0], BLOCK), BLOCK, *trees, X, raw)


@kernel
def find_leaves(offset, feature, threshold, missing_left, left, right, X, leaves):
    """One row a thread, all trees: neighbours walk down the same tree."""
    n = u32(leaves.shape[0])
    n_trees = leaves.shape[1]
    i = u32(cuda.grid(1))
    while i < n:
        for t in range(n_trees):
            root = u32(offset[u32(t)])
            node = leaf_of(feature, threshold, missing_left, left, right, root, X, i)
            leaves[i, u32(t)] = u32(node - root)
        i = u32(i + cuda.gridsize(1))


def leaf_indices(trees: Any, X: Any) -> Any:
    leaves = empty((X.shape[0], trees.output.shape[0]), np.int32)
    args = (*trees[:6], X, leaves)
    launch(find_leaves, blocks_for_rows(X.shape[0], BLOCK), BLOCK, *args)
    return leaves
