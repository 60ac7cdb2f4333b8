"""Prediction by deep trees: walks down packed nodes, one row a thread, so that neighbours are in
the same tree at the same time, and all trees one after the other, in their order.

A forest is laid out once: one load of 8 bytes a node (16 for float64), instead of one from each of
five arrays.

::

    63 (narrow)              32 31                        0
    +--------------------------+--------------------------+
    | child | c | m |  column  | threshold, or first word |
    +--------------------------+--------------------------+

``child`` is the left one, counted from the root (0 at a leaf); ``c`` marks a split by categories,
which has the first word of its set in the place of the threshold; ``m`` is set if missing values
go left; ``column`` is the feature plus one, 0 at a leaf. Nodes of float64 tables are two words: the
threshold, then the upper half with 64 bits.

Gain over walking the forest as it is: not measured on hardware.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from ...runtime.arrays import Array, derived
from ...runtime.cuda.target import (
    block_size,
    blocks_for_rows,
    cuda,
    device_function,
    empty,
    kernel,
    launch,
    settled,
)
from ...scalars.routing import is_left_category, names_category, value_goes_left
from ..traverse import Trees
from .rows import cells_of, cells_of_tile, rows_of_tile, tiles_of

i64, u32, u64, f32, f64 = np.int64, np.uint32, np.uint64, np.float32, np.float64
BLOCK = block_size(256)
FLAGS = 2
LARGEST = 3.4028234663852886e38
"""The largest float32."""
NARROW_BITS = 32
"""Bits of child, flags and column together in nodes of 8 bytes."""


class PackedNodes(NamedTuple):
    """``words`` (uint64) as above; ``shift`` (uint32) is the number of bits below ``child``."""

    words: Array
    shift: np.uint32


@device_function
def pack_meta(child, by_categories, missing_left, column, shift):
    """Child, flags and column in one word."""
    meta = (u64(child) << u64(shift)) | u64(column)
    meta |= u64(missing_left != 0) << (u64(shift) - u64(2))
    return meta | (u64(by_categories) << (u64(shift) - u64(1)))


@device_function
def number_before_32(limit):
    """Return the largest float32 below another one: ``x < limit`` says the same as ``x <= before``.
    Before -inf it is NaN."""
    bits = limit.view(np.int32)
    if limit > f32(0.0):
        # The bits of positive floats ascend with them, those of negative ones descend.
        bits = np.int32(bits - np.int32(1))
    elif limit < f32(0.0):
        bits = np.int32(bits + np.int32(1))
    else:
        # Below either zero: the smallest negative number.
        bits = np.int32(-2147483647)
    return bits.view(f32)


@device_function
def number_before_64(limit):
    """Return the largest float64 below another one."""
    bits = limit.view(i64)
    if limit > f64(0.0):
        bits = i64(bits - i64(1))
    elif limit < f64(0.0):
        bits = i64(bits + i64(1))
    else:
        bits = i64(-9223372036854775807)
    return bits.view(f64)


@device_function
def rounded_down(threshold):
    """Return the largest float32 not above a threshold: for x of that type ``x <= rounded`` says
    the same as ``x <= threshold``."""
    # A conversion would round these to infinity, which is another condition.
    if threshold > LARGEST:
        return f32(np.inf) if threshold == np.inf else f32(LARGEST)
    if threshold < -LARGEST:
        return f32(-np.inf)
    rounded = f32(threshold)
    return number_before_32(rounded) if f64(rounded) > threshold else rounded


@functools.cache
def packing_kernel(wide: bool) -> Any:
    """Return the kernel for nodes of float64 tables, or of float32 tables."""

    @kernel
    def pack_nodes(feature, threshold, missing_left, left, category_begin, shift, words):
        """One node a thread."""
        n = u32(feature.shape[0])
        at = u32(cuda.grid(1))
        while at < n:
            meta, low = u64(0), u64(0)
            if feature[at] >= 0:
                begin = category_begin[at]
                column = u32(feature[at] + 1)
                meta = pack_meta(u32(left[at]), begin >= 0, missing_left[at], column, shift)
                if begin >= 0:
                    low = u64(begin)
                elif wide:
                    low = threshold[at].view(u64)
                else:
                    low = u64(rounded_down(threshold[at]).view(u32))
            if wide:
                # Threshold and the rest lie side by side: one load of 16 bytes or 8 for a node.
                words[u64(2) * u64(at)] = low
                words[u64(2) * u64(at) + u64(1)] = meta
            else:
                words[at] = (meta << u64(32)) | low
            at = u32(at + cuda.gridsize(1))

    return pack_nodes


def nodes_of(trees: Trees, X: Array, n_largest: int) -> PackedNodes | None:
    """Return the layout for rows of the type of X, kept as long as the forest's arrays; None where
    a child and a column do not fit a word together.

    ``n_largest`` is the number of nodes of the largest tree.
    """
    wide = X.dtype == np.float64
    shift = int(X.shape[1]).bit_length() + FLAGS
    if not wide and shift + n_largest.bit_length() > NARROW_BITS:
        return None
    return derived(trees, ("nodes", wide, shift), lambda: settled(_pack(trees, wide, shift)))


def _pack(trees: Trees, wide: bool, shift: int) -> PackedNodes:
    n_nodes = trees.feature.shape[0]
    words = empty(n_nodes * (2 if wide else 1), np.uint64)
    blocks = blocks_for_rows(n_nodes, BLOCK)
    launch(
        packing_kernel(wide), blocks, BLOCK,
        trees.feature, trees.threshold, trees.missing_left, trees.left, trees.category_begin,
        u32(shift), words,
    )  # fmt: skip
    return PackedNodes(words, u32(shift))


class DeepKernels(NamedTuple):
    """The kernels for one kind of tables: sums of leaves of one value, of several, and leaves."""

    add_values: Any
    add_vectors: Any
    find: Any


@functools.cache
def row_reader(tiled: bool) -> Any:
    """Return the device function ``(cells, first, step)``: where a thread finds its row, whose
    value of feature f is ``cells[first + f * step]``. A tile is ``[feature][row]``: whichever
    features neighbours read, they use different banks. A thread reads only what it wrote."""
    if not tiled:

        @device_function
        def in_place(tile, values, i, row, column, n_features):
            return values, u64(i) * u64(row), u64(column)

        return in_place

    @device_function
    def in_tile(tile, values, i, row, column, n_features):
        first, step = u32(cuda.threadIdx.x), u32(cuda.blockDim.x)
        # No barrier: a thread reads back only what it has written itself.
        begin = u64(i) * u64(row)
        at = first
        for f in range(n_features):
            tile[at] = values[begin + u64(f) * u64(column)]
            at = u32(at + step)
        return tile, u64(first), u64(step)

    return in_tile


@functools.cache
def walker(wide: bool) -> Any:
    """Return the device function that walks a row down a tree; the leaf, counted from the root.

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
        # The same for all threads of the launch, so that a forest without categories pays no more
        # than a test.
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
            # The right child follows the left one.
            node = u32(u32(meta >> shift) + (u32(0) if goes_left else u32(1)))
            low, meta = load(words, u64(root) + u64(node))
            column = u32(u32(meta & u32(0xFFFFFFFF)) & mask)
        return node

    return walk


@functools.cache
def kernels(wide: bool, tiled: bool) -> DeepKernels:
    """Return the kernels for tables of float64 or float32, with their rows in shared memory or
    not."""
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
            # A row's sums belong to one thread, which adds the trees in their order: the same bits
            # as everywhere.
            total = raw[into, i]
            for t in range(n_trees):
                if u32(output[u32(t)]) != into:
                    raw[into, i] = total
                    into = u32(output[u32(t)])
                    total = raw[into, i]
                root = u64(offset[u32(t)])
                leaf = walk(words, shift, categories, n_categories, root, cells, first, step)
                total = raw.dtype.type(total + value[root + u64(leaf), u32(0)])
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

    return DeepKernels(add_values, add_vectors, find)


def add_trees(trees: Trees, nodes: PackedNodes, X: Array, raw: Array) -> None:
    """See ``kernels.prediction.traverse.traverse``."""
    of_kind = kernels(X.dtype == np.float64, rows_of_tile(X) > 0)
    add = of_kind.add_values if trees.value.shape[1] == 1 else of_kind.add_vectors
    block, blocks = tiles_of(X)
    launch(
        add, blocks, block, *_structure(trees, nodes), trees.value, trees.output, *cells_of(X), raw
    )


def find_leaves(trees: Trees, nodes: PackedNodes, X: Array) -> Array:
    """See ``kernels.prediction.traverse.leaf_indices``."""
    find = kernels(X.dtype == np.float64, rows_of_tile(X) > 0).find
    leaves = empty((X.shape[0], trees.output.shape[0]), np.int32)
    block, blocks = tiles_of(X)
    launch(find, blocks, block, *_structure(trees, nodes), *cells_of(X), leaves)
    return leaves


def _structure(trees: Trees, nodes: PackedNodes) -> tuple[Any, ...]:
    return (*nodes, trees.categories, trees.n_categories, trees.offset)
