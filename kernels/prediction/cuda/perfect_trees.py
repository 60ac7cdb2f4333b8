"""Prediction with shallow trees: filled up to perfect ones, in shared memory.

A perfect tree of depth 3 has its inner nodes at 1 … 7, children of node k at 2k and 2k + 1, and
its leaves at 0 … 7. All places below an early leaf hold the leaf's value:

::

              1                     A            1: A  2: B  3: any
          2       3               /   \\          4: C  5: D  6, 7: any
        4   5   6   7            B     e
       0 1 2 3 4 5 6 7          / \\              leaves: f g h i e e e e
                               C   D

A row goes to 2k if ``x <= threshold``, which no missing value satisfies: it goes to 2k + 1. Where
missing values belong left, the node's children are exchanged and its condition is
``x > threshold``, written as ``-x <= before``, the number before ``-threshold``: the highest bit of
the word beside the threshold turns the sign of x.

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
    kernel,
    launch,
    settled,
    zeros,
)
from ..traverse import Trees
from .deep import number_before_32, number_before_64, rounded_down
from .rows import cells_of, cells_of_tile, rows_of_tile, tiles_of

u32, u64, f32, f64 = np.uint32, np.uint64, np.float32, np.float64
BLOCK = block_size(256)
MOST_DEPTH = 8
SLOTS = 512
"""Leaves of the trees that a block keeps in shared memory at a time, 8 KB with their nodes for
float32 and 12 KB for float64: two trees of depth 8, 64 of depth 3. A thread walks down two trees
at a time."""
SIGN = np.uint32(1 << 31)


class PerfectKernels(NamedTuple):
    """The kernels for one kind of tables: the one that lays out and the one that predicts."""

    fill: Any
    add: Any


class Words(NamedTuple):
    """Device functions for one type of values.

    Parameters
    ----------
    dtype : type
        Of a value's bits.
    store : device function (words, at, threshold, meta)
        Write a node.
    goes_on : device function (words, at, tile, t, step)
        Return 0 or 1, the child of the node that the row of thread t goes to.
    """

    dtype: Any
    store: Any
    goes_on: Any


@functools.cache
def words_of(wide: bool) -> Words:
    """Return nodes of float64 tables (two words) or of float32 tables (one)."""
    if wide:

        @device_function
        def store(words, at, threshold, meta):
            # Sign above the column: children are exchanged, and the condition with them.
            limit = number_before_64(-threshold) if meta >= SIGN else threshold
            words[u64(2) * at] = limit.view(u64)
            words[u64(2) * at + u64(1)] = u64(meta)

        @device_function
        def goes_on(words, at, tile, t, step):
            limit = words[u32(at + at)].view(f64)
            meta = words[u32(u32(at + at) + u32(1))]
            bits = tile[u32(u32(u32(meta) * step) + t)]
            x = u64(bits ^ ((meta & u64(SIGN)) << u64(32))).view(f64)
            return u32(0) if x <= limit else u32(1)

        return Words(u64, store, goes_on)

    @device_function
    def store(words, at, threshold, meta):
        limit = rounded_down(threshold)
        if meta >= SIGN:
            limit = number_before_32(f32(-limit))
        words[at] = (u64(meta) << u64(32)) | u64(limit.view(u32))

    @device_function
    def goes_on(words, at, tile, t, step):
        """The sign is lost in the product with a power of two."""
        word = words[at]
        limit, meta = u32(word & u64(0xFFFFFFFF)).view(f32), u32(word >> u64(32))
        bits = tile[u32(u32(meta * step) + t)]
        x = u32(bits ^ u32(meta & SIGN)).view(f32)
        return u32(0) if x <= limit else u32(1)

    return Words(u32, store, goes_on)


@functools.cache
def kernels(wide: bool, single: bool) -> PerfectKernels:
    """Return the kernels for tables of float64 or float32; ``single`` ones predict one output.

    The trees lie in pieces of SLOTS places: first the words of their nodes, then their leaves.
    """
    value_bits, store, goes_on = words_of(wide)
    n_words = SLOTS * (2 if wide else 1)
    n_piece = n_words + SLOTS
    n_cells = cells_of_tile(8 if wide else 4)

    @kernel
    def fill(offset, feature, threshold, missing_left, left, value, depth, pieces):
        """One leaf a thread, on its way from the root. The first leaf below a node writes it."""
        n = u64(u64(offset.shape[0] - 1) << u64(depth))
        at = u64(cuda.grid(1))
        while at < n:
            # Where the leaf is: its tree, and the piece and place that the tree begins at.
            tree = u64(at >> u64(depth))
            piece = u64(at // u64(SLOTS))
            words = pieces[piece * u64(n_piece) :]
            slot = u32(at - (tree << u64(depth)))
            first = u64((tree << u64(depth)) - piece * u64(SLOTS))
            node, place = u64(offset[tree]), u32(1)
            root = node
            for d in range(depth):
                # Go down to the leaf. A node is written by its leftmost leaf, whose lower bits are
                # zero.
                below = u32(u32(depth) - u32(d))
                splits = feature[node] >= 0
                turned = u32(splits and missing_left[node] != 0)
                if slot & u32((u32(1) << below) - u32(1)) == 0:
                    # Below an early leaf any condition will do: all leaves there have its value.
                    limit, meta = f64(0.0), u32(0)
                    if splits:
                        limit = threshold[node]
                        meta = u32(u32(feature[node]) | u32(turned << u32(31)))
                    store(words, u64(first + u64(place)), limit, meta)
                turn = u32((slot >> u32(below - u32(1))) & u32(1))
                place = u32(u32(place + place) + turn)
                if splits:
                    node = u64(root + u64(left[node]) + u64(turn ^ turned))
            # The value of the leaf that the walk has ended at.
            words[u64(n_words) + first + u64(slot)] = value[node, 0].view(u64)
            at = u64(at + u64(cuda.gridsize(1)))

    @device_function
    def with_leaf(own, leaf, output, tree, raw, i, total, into):
        """Return the sum of an output with a tree's leaf, and the output."""
        if not single:
            # Trees of an output follow each other, so that its sum changes place seldom.
            previous, into = into, u32(output[tree])
            if into != previous:
                raw[previous, i] = total
                total = raw[into, i]
        return raw.dtype.type(total + own[u32(u32(n_words) + leaf)].view(f64)), into

    @kernel
    def add(pieces, depth, output, n_features, values, row, column, raw):
        """One row a thread; the trees pass through shared memory, as many at a time as fit."""
        tile = cuda.shared.array(n_cells, value_bits)
        own = cuda.shared.array(n_piece, np.uint64)
        n, n_trees = u32(raw.shape[1]), u32(output.shape[0])
        t, step = u32(cuda.threadIdx.x), u32(cuda.blockDim.x)
        size = u32(u32(1) << u32(depth))
        at_once = u32(u32(SLOTS) >> u32(depth))
        begin = u32(cuda.blockIdx.x * cuda.blockDim.x)
        while begin < n:
            # The thread's row: into shared memory, feature by feature, so that neighbours use
            # different banks.
            i = u32(begin + t)
            total, into = raw.dtype.type(0.0), u32(output[u32(0)])
            if i < n:
                at, cell = t, u64(i) * u64(row)
                for _ in range(n_features):
                    tile[at] = values[cell].view(value_bits)
                    at, cell = u32(at + step), u64(cell + u64(column))
                total = raw[into, i]
            first, source = u32(0), u64(t)
            while first < n_trees:
                cuda.syncthreads()  # all threads are done with the trees before
                k = t
                while k < u32(n_piece):
                    # Threads without a row take part in the copy, and wait at the barriers as all
                    # others do.
                    own[k] = pieces[source]
                    k, source = u32(k + step), u64(source + u64(step))
                cuda.syncthreads()
                # All trees of the piece are there.
                last = min(u32(at_once), u32(n_trees - first))
                k, root = u32(0), u32(0)
                while k < last and i < n:
                    other = u32(root + size)
                    place, next_place = u32(1), u32(1)
                    for _ in range(depth):
                        # Two trees at a time: their chains of loads overlap. They are added in
                        # their order.
                        turn = goes_on(own, u32(root + place), tile, t, step)
                        next_turn = goes_on(own, u32(other + next_place), tile, t, step)
                        place = u32(u32(place + place) + turn)
                        next_place = u32(u32(next_place + next_place) + next_turn)
                    tree, leaf = u32(first + k), u32(u32(root + place) - size)
                    total, into = with_leaf(own, leaf, output, tree, raw, i, total, into)
                    if u32(k + u32(1)) < last:
                        tree, leaf = u32(tree + u32(1)), u32(u32(other + next_place) - size)
                        total, into = with_leaf(own, leaf, output, tree, raw, i, total, into)
                    k, root = u32(k + u32(2)), u32(other + size)
                first = u32(first + at_once)
            if i < n:
                raw[into, i] = total
            begin = u32(begin + cuda.gridsize(1))

    return PerfectKernels(fill, add)


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
    # Level by level: a forest has few levels, and each is one array operation.
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
    pieces = derived(trees, ("perfect", wide), lambda: settled(_fill(trees, wide, depth)))
    n_features = X.shape[1]
    block, blocks = tiles_of(X)
    launch(
        kernels(wide, raw.shape[0] == 1).add, blocks, block,
        pieces, depth, trees.output, n_features, *cells_of(X), raw,
    )  # fmt: skip


def _fill(trees: Trees, wide: bool, depth: int) -> Any:
    # Every tree is filled up to the depth of the deepest.
    n_leaves = trees.output.shape[0] << depth
    n_pieces = -(-n_leaves // SLOTS)
    pieces = zeros(n_pieces * SLOTS * (3 if wide else 2), np.uint64)
    blocks = blocks_for_rows(n_leaves, BLOCK)
    launch(
        kernels(wide, True).fill, blocks, BLOCK,
        trees.offset, trees.feature, trees.threshold, trees.missing_left, trees.left, trees.value,
        depth, pieces,
    )  # fmt: skip
    return pieces
