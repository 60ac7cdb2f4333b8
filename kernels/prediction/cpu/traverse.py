"""Rows down the trees (contract: ``kernels.prediction.traverse``).

There are three ways to the leaves. Small trees are evaluated without walking, for a block of rows
at a time (``blocks``). Other trees are walked by many rows together in a layout of their own
(``deep``). Until there were so many rows that a layout pays, and for a few rows at a time, rows
walk down the trees as these are. Their steps wait for memory; pairs of a row and a tree that take
each step together wait for it at the same time.

Nanoseconds of a walk, where one row comes at a time and where 1000 do (float32, CPU time on an AMD
EPYC):

                                     row by row    pairs together      ``deep``
    100 trees of 17,000 nodes         3251    -       505    144      2320     75
    50 trees of 200,000 nodes         4565    -       628    311      3285    145
    100 trees of 61 nodes               84    -        66     24       160     11
"""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array, derived
from ...runtime.compilation import inlined, kernel, kernel_without_allocation
from ...runtime.cpu.table import table_of
from ...runtime.cpu.team import CACHE_LINE, prefetch, run, threads_for
from ...runtime.dtypes import NO_SETS, Codes
from ...runtime.each import each
from ...scalars.routing import code_goes_left, is_left_category, names_category
from ..traverse import Trees
from . import blocks, deep
from .deep import GROUP, STEPS

u64 = np.uint64

FEW_ROWS = 12
"""Rows that a layout does not help, measured with new rows each call: 16 of them take 1.34 of the
time without the layout that their forest has."""
WALK_BY_LAYOUT, WALK_BY_BLOCKS, KEY = 25, 22, 2
"""Nanoseconds of a walk that a layout saves, and of a value that it turns into a key."""
LARGE_FOREST = 2**19
"""Nodes of a forest whose arrays leave the caches."""
WALK_FROM_MEMORY = 120
"""Nanoseconds of a walk that the layout of a large forest saves, for ``LAYOUT_OF_A_NODE``."""
LAYOUT_OF_A_NODE, BLOCKS_OF_A_NODE, BLOCKS_OF_A_COLUMN = 6, 100, 15_000
"""Nanoseconds to lay out a forest."""


@inlined
def _step(trees, root, at, values, own):
    """Return the child that a row goes to, or the leaf where it is; nodes are counted through all
    trees."""
    feature = trees.feature[at]
    # At a leaf any feature is read, and the result not used: cheaper than a branch.
    x = values[own + u64(max(feature, 0))]
    goes_left = x <= trees.threshold[at]
    # ``value_goes_left``, but only rows with missing values wait for this line of memory.
    if x != x:
        goes_left = trees.missing_left[at] != 0
    if trees.categories.size > 0 and trees.category_begin[at] >= 0:
        goes_left = trees.missing_left[at] != 0
        if names_category(x, trees.n_categories[feature]):
            category = np.int64(x)
            word = trees.categories[trees.category_begin[at] + (category >> 5)]
            goes_left = is_left_category(word, category)
    child = root + u64(trees.left[at]) + u64(not goes_left)
    return child if feature >= 0 else at


@inlined
def _walk_group(trees, values, n, walkers, leaf):
    """Bring n pairs of a row and a tree to the leaves that the rows reach."""
    at, root, own, pair = walkers
    while n > 0:
        for _ in range(STEPS):
            for k in range(n):
                reached = _step(trees, root[k], at[k], values, own[k])
                at[k] = reached
                # The other pairs hide the way from memory.
                prefetch(trees.feature, reached)
                prefetch(trees.threshold, reached)
                prefetch(trees.left, reached)
        n_left = 0
        for k in range(n):
            reached, who = at[k], pair[k]
            # Those at a leaf are overwritten by the next ones, without a branch.
            at[n_left], root[n_left], own[n_left], pair[n_left] = reached, root[k], own[k], who
            leaf[who] = reached
            n_left += trees.feature[reached] >= 0
        n = n_left


@inlined
def _note(trees, tree, row, at, raw, leaves):
    """Note the leaf that a row has reached, or add its values."""
    if leaves.size > 0:
        leaves[row, tree] = at - u64(trees.offset[tree])
        return
    for j in range(trees.value.shape[1]):
        raw[trees.output[tree] + j, row] += trees.value[at, j]


@kernel_without_allocation
def _walk_worker(thread, n_threads, barrier, trees, values, walkers, raw, leaves):
    trees = Trees(*trees)
    n, n_features = max(raw.shape[1], leaves.shape[0]), u64(trees.n_categories.size)
    first, last = n * thread // n_threads, n * (thread + 1) // n_threads
    at, root, own, pair, leaf = walkers[thread]
    # Many rows go down the same tree, which stays in the cache meanwhile; few rows go down many
    # trees. Each row comes to the trees in their order, which is that of its sum.
    n_pairs = (last - first) * trees.output.size
    tree, row = 0, first
    for begin in range(0, n_pairs, GROUP):
        m = min(GROUP, n_pairs - begin)
        first_tree, first_row = tree, row
        for i in range(m):
            root[i] = at[i] = trees.offset[tree]
            own[i], pair[i] = u64(row) * n_features, i
            tree, row = (tree, row + 1) if row + 1 < last else (tree + 1, first)
        _walk_group(trees, values, m, (at, root, own, pair), leaf)
        tree, row = first_tree, first_row
        for i in range(m):
            _note(trees, tree, row, leaf[i], raw, leaves)
            tree, row = (tree, row + 1) if row + 1 < last else (tree + 1, first)


def traverse(trees: Trees, X: Array, raw: Array) -> None:
    no_leaves = np.empty((0, 0), np.int32)
    rows = _rows_so_far(trees, X.shape[0])
    if rows * _saved_by_blocks(trees) >= _cost_of_blocks(trees):
        packed = blocks.pack(trees, X.dtype, raw.dtype)
        if packed is not None:
            blocks.evaluate(packed, table_of(X), raw)
            return
    if rows * _saved_by_layout(trees) >= LAYOUT_OF_A_NODE * trees.feature.size:
        deep.walk(deep.nodes_of(trees, X.dtype), table_of(X), raw, no_leaves)
    else:
        _walk(trees, X, raw, no_leaves)


def leaf_indices(trees: Trees, X: Array) -> Array:
    leaves = np.empty((X.shape[0], trees.output.size), np.int32)
    no_sums = np.empty((0, 0))
    rows = _rows_so_far(trees, X.shape[0])
    if rows * _saved_by_layout(trees) >= LAYOUT_OF_A_NODE * trees.feature.size:
        deep.walk(deep.nodes_of(trees, X.dtype), table_of(X), no_sums, leaves)
    else:
        _walk(trees, X, no_sums, leaves)
    return leaves


def _rows_so_far(trees: Trees, n_rows: int) -> int:
    """Return how many rows have come to a forest, with these; 0 for rows that no layout helps."""
    if n_rows <= FEW_ROWS:
        return 0
    rows = derived(tuple(trees), "rows", lambda: np.zeros(1, np.int64))
    rows += n_rows
    return int(rows[0])


def _columns(trees: Trees) -> int:
    """Return how many columns the splits look at, at most."""
    return min(trees.n_categories.size, trees.feature.size // 2)


def _saved_by_layout(trees: Trees) -> int:
    """Return the nanoseconds that ``deep`` saves a row."""
    walk = WALK_FROM_MEMORY if trees.feature.size > LARGE_FOREST else WALK_BY_LAYOUT
    return walk * trees.output.size - KEY * _columns(trees)


def _saved_by_blocks(trees: Trees) -> int:
    return WALK_BY_BLOCKS * trees.output.size - KEY * _columns(trees)


def _cost_of_blocks(trees: Trees) -> int:
    """Return the nanoseconds that the layout for blocks takes."""
    return BLOCKS_OF_A_COLUMN * _columns(trees) + BLOCKS_OF_A_NODE * trees.feature.size


def _walk(trees: Trees, X: Array, raw: Array, leaves: Array) -> None:
    """Walk down the trees as they are. (Numba takes a plain tuple apart in a third of the time
    of a named one, and one type of table needs one compilation.)"""
    values = np.ascontiguousarray(X).reshape(-1)
    values.flags.writeable = False
    threads = threads_for(X.shape[0] * trees.output.size)
    walkers = np.empty((threads, 5, GROUP + CACHE_LINE), u64)  # no line for two threads
    run(_walk_worker, threads, tuple(trees), values, walkers, raw, leaves)


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
        # The rows of the tree's sample got their leaf while it grew.
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
    offset: np.ndarray,
    feature: Array,
    bin_: Array,
    missing_left: Array,
    left: Array,
    right: Array,
    leaf: Array,
    left_codes: np.ndarray = NO_SETS,
) -> None:
    def walk(tree: int) -> None:
        own, nodes = leaf[tree], slice(offset[tree], offset[tree + 1])
        run(
            _codes_worker, threads_for(16 * own.size),
            codes.rows, feature[nodes], bin_[nodes], missing_left[nodes], left[nodes], right[nodes],
            left_codes[nodes], own,
        )  # fmt: skip

    each(walk, range(len(leaf)), leaf[0])
