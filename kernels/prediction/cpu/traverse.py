"""Rows down the trees (contract: ``kernels.prediction.traverse``).

There are three ways to the leaves. Small trees are evaluated without walking, for a block of rows
at a time (``blocks``). Other trees are walked by many rows together (``deep``). A few rows walk
down the trees one by one, as the forest is, until there were so many of them that a layout for
``deep`` pays off: 100 rows and 20 trees of 127,000 nodes take 0.006 s by walking, 0.029 s with a
new layout (CPU time on an AMD EPYC).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime.arrays import Array, derived
from ...runtime.compilation import inlined, kernel, kernel_without_allocation
from ...runtime.cpu.team import run, threads_for
from ...runtime.dtypes import NO_SETS, Codes
from ...scalars.routing import code_goes_left, is_left_category, names_category, value_goes_left
from ..traverse import Trees
from . import blocks, deep
from .table import table_of

u64 = np.uint64

FEW_ROWS = 64
SMALL_TREE = 512
"""Nodes of a tree that stays in the cache however it is laid out."""
NODES_PER_WALK = 64
"""Nodes that can be laid out in the time that the layout saves in one walk down a tree."""


@inlined
def _leaf_of(trees, tree, values, begin):
    """Return the leaf of one row. (Unsigned indices need no test for negative ones.)"""
    by_categories = trees.categories.size > 0
    root, node = u64(trees.offset[tree]), u64(0)
    feature = trees.feature[root]
    while feature >= 0:
        at = root + node
        x = values[u64(begin) + u64(feature)]
        goes_left = value_goes_left(x, trees.threshold[at], trees.missing_left[at] != 0)
        if by_categories and trees.category_begin[at] >= 0:
            goes_left = trees.missing_left[at] != 0
            if names_category(x, trees.n_categories[feature]):
                category = np.int64(x)
                word = trees.categories[trees.category_begin[at] + (category >> 5)]
                goes_left = is_left_category(word, category)
        node = u64(trees.left[at] if goes_left else trees.right[at])
        feature = trees.feature[root + node]
    return node


@kernel_without_allocation
def _add_worker(thread, n_threads, barrier, trees, values, raw):
    trees = Trees(*trees)
    n, n_features = raw.shape[1], trees.n_categories.size
    for row in range(n * thread // n_threads, n * (thread + 1) // n_threads):
        for tree in range(trees.output.size):
            at = u64(trees.offset[tree]) + _leaf_of(trees, tree, values, row * n_features)
            for j in range(trees.value.shape[1]):
                raw[trees.output[tree] + j, row] += trees.value[at, j]


@kernel_without_allocation
def _leaf_worker(thread, n_threads, barrier, trees, values, leaves):
    trees = Trees(*trees)
    n, n_features = leaves.shape[0], trees.n_categories.size
    for row in range(n * thread // n_threads, n * (thread + 1) // n_threads):
        for tree in range(trees.output.size):
            leaves[row, tree] = _leaf_of(trees, tree, values, row * n_features)


def traverse(trees: Trees, X: Array, raw: Array) -> None:
    n_rows = X.shape[0]
    packed = blocks.pack(trees, X.dtype, raw.dtype) if n_rows > FEW_ROWS else None
    if packed is not None:
        blocks.evaluate(packed, table_of(X), raw)
    elif _pays_to_lay_out(trees, n_rows):
        no_leaves = np.empty((0, 0), np.int32)
        deep.walk(deep.nodes_of(trees, X.dtype), table_of(X), raw, no_leaves)
    else:
        _run(_add_worker, trees, X, raw)


def leaf_indices(trees: Trees, X: Array) -> Array:
    leaves = np.empty((X.shape[0], trees.output.size), np.int32)
    if _pays_to_lay_out(trees, X.shape[0]):
        deep.walk(deep.nodes_of(trees, X.dtype), table_of(X), np.empty((0, 0)), leaves)
    else:
        _run(_leaf_worker, trees, X, leaves)
    return leaves


def _run(worker: Any, trees: Trees, X: Array, results: Any) -> None:
    """Walk down the trees as they are. (Numba takes a plain tuple apart in a third of the time
    of a named one, and one type of table needs one compilation.)"""
    values = np.ascontiguousarray(X).reshape(-1)
    values.flags.writeable = False
    run(worker, threads_for(X.shape[0] * trees.output.size), tuple(trees), values, results)


def _pays_to_lay_out(trees: Trees, n_rows: int) -> bool:
    """Return whether the walks so far, including those of these rows, outweigh a new layout."""
    n_trees, n_nodes = trees.output.size, trees.feature.size
    if n_rows <= FEW_ROWS and n_nodes <= SMALL_TREE * n_trees:
        return False
    walked = derived(tuple(trees), "rows", lambda: np.zeros(1, np.int64))
    walked += n_rows
    return walked[0] * n_trees * NODES_PER_WALK >= n_nodes


@kernel
def _codes_worker(
    thread,
    n_threads,
    barrier,
    rows,
    feature,
    bin_,
    missing_left,
    left,
    right,
    left_codes,
    leaf,
):
    n = leaf.size
    for i in range(n * thread // n_threads, n * (thread + 1) // n_threads):
        if leaf[i] >= 0:
            continue
        node = 0
        while feature[node] >= 0:
            code = rows[i, feature[node]]
            goes_left = code_goes_left(code, bin_[node], missing_left[node] != 0)
            if bin_[node] < 0:
                goes_left = is_left_category(left_codes[node, code >> 5], code)
            node = left[node] if goes_left else right[node]
        leaf[i] = node


def traverse_codes(
    codes: Codes,
    feature: Array,
    bin_: Array,
    missing_left: Array,
    left: Array,
    right: Array,
    leaf: Array,
    left_codes: np.ndarray = NO_SETS,
) -> None:
    tree = (feature, bin_, missing_left, left, right, left_codes)
    run(_codes_worker, threads_for(16 * leaf.size), codes.rows, *tree, leaf)
