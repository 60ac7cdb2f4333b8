"""Walks down packed trees (see ``predict_nodes``): one row a thread, so that neighbours are in the
same tree at the same time, and all trees one after the other, in their order."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from ...runtime.cuda.target import (
    block_size,
    blocks_for_rows,
    cuda,
    device_function,
    empty,
    kernel,
    launch,
)
from ...scalars.routing import is_left_category, names_category, value_goes_left
from .nodes import Nodes
from .rows import cells_of, cells_of_tile, rows_of_tile

u32, u64, f32, f64 = np.uint32, np.uint64, np.float32, np.float64
BLOCK = block_size(256)
"""Threads of a block that reads its rows where they are."""


class Kernels(NamedTuple):
    """The kernels for one kind of tables: sums of leaves of one value, of several, and leaves."""

    add_values: Any
    add_vectors: Any
    find: Any


@functools.cache
def row_reader(tiled: bool) -> Any:
    """The device function ``(cells, first, step)``: where a thread finds its row, whose value of
    feature f is ``cells[first + f * step]``. A tile is ``[feature][row]``: whichever features
    neighbours ask for, they use different banks. A thread reads nothing but what it wrote."""
    if not tiled:

        @device_function
        def in_place(tile, values, i, row, column, n_features):
            return values, u64(i) * u64(row), u64(column)

        return in_place

    @device_function
    def in_tile(tile, values, i, row, column, n_features):
        first, step = u32(cuda.threadIdx.x), u32(cuda.blockDim.x)
        begin = u64(i) * u64(row)
        at = first
        for f in range(n_features):
            tile[at] = values[begin + u64(f) * u64(column)]
            at = u32(at + step)
        return tile, u64(first), u64(step)

    return in_tile


@functools.cache
def walker(wide: bool) -> Any:
    """The device function that walks a row down a tree; the leaf, counted from the root.

    ``wide`` nodes have float64 thresholds.
    """
    if wide:

        @device_function
        def load(words, at):
            """Threshold, or first word of a set, and the rest of a node."""
            return words[u64(2) * at], words[u64(2) * at + u64(1)]

        @device_function
        def threshold_of(low):
            return low.view(f64)

    else:

        @device_function
        def load(words, at):
            word = words[at]
            return u32(word & u64(0xFFFFFFFF)), u32(word >> u64(32))

        @device_function
        def threshold_of(low):
            return low.view(f32)

    @device_function
    def walk(words, shift, categories, n_categories, root, cells, first, step):
        by_categories = categories.shape[0] > 0
        mask = u32((u32(1) << u32(shift - u32(2))) - u32(1))
        node = u32(0)
        low, meta = load(words, u64(root))
        column = u32(u32(meta & u32(0xFFFFFFFF)) & mask)
        while column != 0:
            tested = u32(column - u32(1))
            x = cells[first + u64(tested) * step]
            missing_left = (meta >> u32(shift - u32(2))) & u32(1) != 0
            goes_left = value_goes_left(x, threshold_of(low), missing_left)
            if by_categories and (meta >> u32(shift - u32(1))) & u32(1) != 0:
                goes_left = missing_left
                if names_category(f64(x), n_categories[tested]):
                    category = u32(x)
                    word = categories[u64(low) + u64(category >> u32(5))]
                    goes_left = is_left_category(word, category)
            node = u32(u32(meta >> shift) + (u32(0) if goes_left else u32(1)))
            low, meta = load(words, u64(root) + u64(node))
            column = u32(u32(meta & u32(0xFFFFFFFF)) & mask)
        return node

    return walk


@functools.cache
def kernels(wide: bool, tiled: bool) -> Kernels:
    """The kernels for tables of float64 or float32, with their rows in shared memory or not."""
    dtype = np.float64 if wide else np.float32
    n_cells = cells_of_tile(8 if wide else 4) if tiled else 1
    find_row, walk = row_reader(tiled), walker(wide)

    @kernel
    def add_values(
        words, shift, categories, n_categories, offset, value, output, values, row, column, raw
    ):
        """The sum of the current output stays in a register."""
        tile = cuda.shared.array(n_cells, dtype)
        n, n_trees = u32(raw.shape[1]), output.shape[0]
        i = u32(cuda.grid(1))
        while i < n:
            cells, first, step = find_row(tile, values, i, row, column, n_categories.shape[0])
            into = u32(output[u32(0)])
            total = raw[into, i]
            for t in range(n_trees):
                if u32(output[u32(t)]) != into:
                    raw[into, i] = total
                    into = u32(output[u32(t)])
                    total = raw[into, i]
                root = u64(offset[u32(t)])
                leaf = walk(words, shift, categories, n_categories, root, cells, first, step)
                total += value[root + u64(leaf), u32(0)]
            raw[into, i] = total
            i = u32(i + cuda.gridsize(1))

    @kernel
    def add_vectors(
        words, shift, categories, n_categories, offset, value, output, values, row, column, raw
    ):
        """A thread's sums stay in its caches, neighbours' beside each other."""
        tile = cuda.shared.array(n_cells, dtype)
        n, n_trees, width = u32(raw.shape[1]), output.shape[0], value.shape[1]
        i = u32(cuda.grid(1))
        while i < n:
            cells, first, step = find_row(tile, values, i, row, column, n_categories.shape[0])
            for t in range(n_trees):
                root = u64(offset[u32(t)])
                leaf = walk(words, shift, categories, n_categories, root, cells, first, step)
                into = u32(output[u32(t)])
                for j in range(width):
                    raw[u32(into + u32(j)), i] += value[root + u64(leaf), u32(j)]
            i = u32(i + cuda.gridsize(1))

    @kernel
    def find(words, shift, categories, n_categories, offset, values, row, column, leaves):
        tile = cuda.shared.array(n_cells, dtype)
        n, n_trees = u32(leaves.shape[0]), leaves.shape[1]
        i = u32(cuda.grid(1))
        while i < n:
            cells, first, step = find_row(tile, values, i, row, column, n_categories.shape[0])
            for t in range(n_trees):
                root = u64(offset[u32(t)])
                leaf = walk(words, shift, categories, n_categories, root, cells, first, step)
                leaves[i, u32(t)] = leaf
            i = u32(i + cuda.gridsize(1))

    return Kernels(add_values, add_vectors, find)


def add_trees(trees: Any, nodes: Nodes, X: Any, raw: Any) -> None:
    """See ``kernels.prediction.traverse.traverse``."""
    block = rows_of_tile(X)
    of_kind = kernels(X.dtype == np.float64, block > 0)
    add = of_kind.add_values if trees.value.shape[1] == 1 else of_kind.add_vectors
    args = (*_structure(trees, nodes), trees.value, trees.output, *cells_of(X), raw)
    launch(add, blocks_for_rows(X.shape[0], block or BLOCK), block or BLOCK, *args)


def find_leaves(trees: Any, nodes: Nodes, X: Any) -> Any:
    """See ``kernels.prediction.traverse.leaf_indices``."""
    block = rows_of_tile(X)
    find = kernels(X.dtype == np.float64, block > 0).find
    leaves = empty((X.shape[0], trees.output.shape[0]), np.int32)
    args = (*_structure(trees, nodes), *cells_of(X), leaves)
    launch(find, blocks_for_rows(X.shape[0], block or BLOCK), block or BLOCK, *args)
    return leaves


def _structure(trees: Any, nodes: Nodes) -> tuple[Any, ...]:
    return (*nodes, trees.categories, trees.n_categories, trees.offset)
