"""Prediction with shallow trees: filled up to perfect ones, in shared memory.

A perfect tree of depth 3 has its inner nodes at 1 … 7, children of node k at 2k and 2k + 1, and
its leaves at 0 … 7. All places below an early leaf hold the leaf's value:

::

              1                     A            1: A  2: B  3: any
          2       3               /   \\          4: C  5: D  6, 7: any
        4   5   6   7            B     e
       0 1 2 3 4 5 6 7          / \\              leaves: f g h i e e e e
                               C   D

Gain over the layout of ``deep``: not measured on hardware.
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
    download,
    empty,
    kernel,
    launch,
    settled,
    zeros,
)
from ...scalars.routing import value_goes_left
from ..traverse import Trees
from .deep import rounded_down
from .rows import cells_of, cells_of_tile, rows_of_tile

u32, u64, f32, f64 = np.uint32, np.uint64, np.float32, np.float64
BLOCK = block_size(256)
MOST_DEPTH = 8
SLOTS = 512
"""Leaves of the trees that a block keeps in shared memory at a time, 8 KB with their nodes for
float32 and 12 KB for float64: two trees of depth 8, 64 of depth 3."""
MISSING_LEFT = np.uint32(1 << 31)


class Kernels(NamedTuple):
    """The kernels for one kind of tables: the one that lays out and the one that predicts."""

    fill: Any
    add: Any


@functools.cache
def kernels(wide: bool) -> Kernels:
    """The kernels for tables of float64 (nodes of 16 bytes) or float32 (8 bytes)."""
    dtype = np.float64 if wide else np.float32
    n_words = SLOTS * (2 if wide else 1)
    n_cells = cells_of_tile(8 if wide else 4)

    if wide:

        @device_function
        def store(words, at, threshold, meta):
            words[u64(2) * at] = threshold.view(u64)
            words[u64(2) * at + u64(1)] = u64(meta)

        @device_function
        def load(words, at):
            return words[u32(2) * at].view(f64), u32(words[u32(2) * at + u32(1)])

    else:

        @device_function
        def store(words, at, threshold, meta):
            words[at] = (u64(meta) << u64(32)) | u64(rounded_down(threshold).view(u32))

        @device_function
        def load(words, at):
            word = words[at]
            return u32(word & u64(0xFFFFFFFF)).view(f32), u32(word >> u64(32))

    @kernel
    def fill(offset, feature, threshold, missing_left, left, value, depth, words, leaves):
        """One leaf a thread, on its way from the root. The first leaf below a node writes it."""
        n = u64(leaves.shape[0])
        at = u64(cuda.grid(1))
        while at < n:
            tree = u64(at >> u64(depth))
            slot = u32(at - (tree << u64(depth)))
            node, place = u64(offset[tree]), u32(1)
            root = node
            for d in range(depth):
                below = u32(u32(depth) - u32(d))
                splits = feature[node] >= 0
                if slot & u32((u32(1) << below) - u32(1)) == 0:
                    limit, meta = f64(0.0), u32(0)
                    if splits:
                        limit = threshold[node]
                        meta = u32(feature[node])
                        if missing_left[node] != 0:
                            meta = u32(meta | MISSING_LEFT)
                    store(words, u64((tree << u64(depth)) + u64(place)), limit, meta)
                turn = u32((slot >> u32(below - u32(1))) & u32(1))
                place = u32(u32(place + place) + turn)
                if splits:
                    node = u64(root + u64(left[node]) + u64(turn))
            leaves[at] = value[node, 0]
            at = u64(at + u64(cuda.gridsize(1)))

    @kernel
    def add(words, leaves, depth, output, n_features, values, row, column, raw):
        """One row a thread; the trees pass through shared memory, as many at a time as fit."""
        tile = cuda.shared.array(n_cells, dtype)
        own_words = cuda.shared.array(n_words, np.uint64)
        own_leaves = cuda.shared.array(SLOTS, np.float64)
        n, n_trees = u32(raw.shape[1]), output.shape[0]
        t, step = u32(cuda.threadIdx.x), u32(cuda.blockDim.x)
        at_once = SLOTS >> depth
        begin = u32(cuda.blockIdx.x * cuda.blockDim.x)
        while begin < n:
            i = u32(begin + t)
            total, into = raw.dtype.type(0.0), u32(output[u32(0)])
            if i < n:
                at, cell = t, u64(i) * u64(row)
                for _ in range(n_features):
                    tile[at] = values[cell]
                    at, cell = u32(at + step), u64(cell + u64(column))
                total = raw[into, i]
            for first in range(0, n_trees, at_once):
                last = min(at_once, n_trees - first)
                of_first = u64(first) << u64(depth)
                n_leaves = u32(last << depth)
                each = n_words // SLOTS
                cuda.syncthreads()
                k = t
                while k < u32(n_leaves * u32(each)):
                    own_words[k] = words[of_first * u64(each) + u64(k)]
                    k = u32(k + step)
                k = t
                while k < n_leaves:
                    own_leaves[k] = leaves[of_first + u64(k)]
                    k = u32(k + step)
                cuda.syncthreads()
                if i < n:
                    for k in range(last):
                        if u32(output[u32(first + k)]) != into:
                            raw[into, i] = total
                            into = u32(output[u32(first + k)])
                            total = raw[into, i]
                        root, place = u32(u32(k) << u32(depth)), u32(1)
                        for _ in range(depth):
                            threshold, meta = load(own_words, u32(root + place))
                            x = tile[u32(u32(meta & u32(0x7FFFFFFF)) * step + t)]
                            left = value_goes_left(x, threshold, meta >= MISSING_LEFT)
                            place = u32(u32(place + place) + (u32(0) if left else u32(1)))
                        added = own_leaves[u32(root + place - (u32(1) << u32(depth)))]
                        total = raw.dtype.type(total + added)
            if i < n:
                raw[into, i] = total
            begin = u32(begin + cuda.gridsize(1))

    return Kernels(fill, add)


class Shape(NamedTuple):
    """The measures of a forest that decide about its layout.

    n_largest : int
        Nodes of the largest tree.
    depth : int
        Of the deepest tree; ``MOST_DEPTH + 1`` means anything above ``MOST_DEPTH``.
    """

    n_largest: int
    depth: int


def shape_of(trees: Trees) -> Shape:
    """Measure a forest on the host once; kept as long as its arrays."""
    return derived(trees, "shape", lambda: _measure(trees))


def _measure(trees: Trees) -> Shape:
    offset = download(trees.offset)
    n_largest = int(np.diff(offset).max())
    if n_largest >= 2 ** (MOST_DEPTH + 1):
        return Shape(n_largest, MOST_DEPTH + 1)
    feature, left = download(trees.feature), download(trees.left)
    root = node = offset[:-1]
    for depth in range(MOST_DEPTH + 1):
        splits = feature[node] >= 0
        if not splits.any():
            return Shape(n_largest, depth)
        root = np.repeat(root[splits], 2)
        child = left[node[splits]]
        node = root + np.stack([child, child + 1], axis=1).reshape(-1)
    return Shape(n_largest, MOST_DEPTH + 1)


def fits(trees: Trees, X: Array) -> bool:
    """Return whether the trees are shallow, of one value a leaf and without splits by categories,
    and the rows narrow enough for shared memory."""
    simple = trees.value.shape[1] == 1 and trees.categories.shape[0] == 0
    return simple and rows_of_tile(X) > 0 and shape_of(trees).depth <= MOST_DEPTH


def add_trees(trees: Trees, X: Array, raw: Array) -> None:
    """See ``kernels.prediction.traverse.traverse``, for trees that fit."""
    wide = bool(X.dtype == np.float64)
    depth = shape_of(trees).depth
    key = "perfect", wide
    words, leaves = derived(trees, key, lambda: settled(_fill(trees, wide, depth)))
    block = rows_of_tile(X)
    n_rows, n_features = X.shape
    args = (words, leaves, depth, trees.output, n_features, *cells_of(X), raw)
    launch(kernels(wide).add, blocks_for_rows(n_rows, block), block, *args)


def _fill(trees: Trees, wide: bool, depth: int) -> tuple[Any, Any]:
    n_leaves = trees.output.shape[0] << depth
    words = zeros(n_leaves * (2 if wide else 1), np.uint64)  # the first of a tree has no meaning
    leaves = empty(n_leaves, np.float64)
    of_nodes = trees.offset, trees.feature, trees.threshold, trees.missing_left, trees.left
    blocks = blocks_for_rows(n_leaves, BLOCK)
    launch(kernels(wide).fill, blocks, BLOCK, *of_nodes, trees.value, depth, words, leaves)
    return words, leaves
