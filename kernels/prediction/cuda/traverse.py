"""Rows down the trees (contract: ``kernels.prediction.traverse``).

There are three ways to the leaves. A few rows walk down the trees as these are, a block a row: one
launch, and nothing is laid out. More rows get a layout that is made once for a forest: perfect
trees in shared memory where they are shallow (``perfect``), nodes of one load where they are deep
(``deep``). Whichever it is, a row's sums are one thread's, in the order of the trees.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...growth.cuda.streamed import chunks_of
from ...growth.streamed_codes import StreamedCodes
from ...runtime.arrays import Array
from ...runtime.cuda.target import (
    block_size,
    blocks_for,
    blocks_for_rows,
    cuda,
    device_function,
    empty,
    kernel,
    launch,
    multiprocessors,
    upload,
)
from ...runtime.dtypes import NO_SETS, Codes
from ...scalars.routing import code_goes_left, is_left_category, names_category, value_goes_left
from ...statistics.cuda.quantise import FIRST_ROW, N_ROWS, one_model
from ..traverse import Trees
from . import deep, perfect_trees
from .rows import cells_of

i64, u32, u64, f64 = np.int64, np.uint32, np.uint64, np.float64
BLOCK, FEW_BLOCK = block_size(256), block_size(128)


@device_function
def category_goes_left(x, begin, categories, n_categories, missing_left):
    """Return whether a value goes left at a split by categories."""
    if names_category(x, n_categories):
        category = u32(x)
        return is_left_category(categories[u32(u32(begin) + (category >> u32(5)))], category)
    return missing_left != 0


@device_function
def leaf_of(
    feature, threshold, missing_left, left, category_begin, categories, n_categories, root,
    values, begin, column,
):  # fmt: skip
    """Return the node, counted over all trees, that a row reaches from a root; its value of feature
    f is ``values[begin + f * column]``. A forest without categories reads no ``category_begin``:
    every thread of the grid takes the same side of that branch."""
    by_categories = categories.shape[0] > 0
    node = root
    while feature[node] >= 0:
        tested = u32(feature[node])
        x = f64(values[begin + u64(tested) * u64(column)])
        if by_categories and category_begin[node] >= 0:
            first, n = category_begin[node], n_categories[tested]
            goes_left = category_goes_left(x, first, categories, n, missing_left[node])
        else:
            goes_left = value_goes_left(x, threshold[node], missing_left[node] != 0)
        node = u32(root + u32(left[node]) + (u32(0) if goes_left else u32(1)))
    return node


@kernel
def add_trees_of_rows(
    offset, feature, threshold, missing_left, left, category_begin, categories, n_categories,
    value, output, values, row, column, raw,
):  # fmt: skip
    """The leaves of as many trees as the block has threads are found side by side; then each
    output is one thread's, which adds their values in the order of the trees."""
    leaf = cuda.shared.array(FEW_BLOCK, np.uint32)
    into = cuda.shared.array(FEW_BLOCK, np.int32)
    found = cuda.shared.array(FEW_BLOCK, np.float64)
    n, n_outputs, n_trees = raw.shape[1], raw.shape[0], output.shape[0]
    width = value.shape[1]
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x
    while i < n:
        for first in range(0, n_trees, FEW_BLOCK):
            tree = first + t
            cuda.syncthreads()  # the leaves found before have been added up
            if tree < n_trees:
                # Find: a tree a thread.
                node = leaf_of(
                    feature, threshold, missing_left, left, category_begin, categories,
                    n_categories, u32(offset[tree]), values, u64(i) * u64(row), column,
                )  # fmt: skip
                leaf[t] = node
                into[t] = output[tree]
                if width == 1:
                    found[t] = value[node, 0]
            cuda.syncthreads()
            # Add: behind the barrier all leaves are there. An output a thread, in the order of the
            # trees.
            last = min(n_trees - first, FEW_BLOCK)
            for k in range(t, n_outputs, FEW_BLOCK):
                total = raw[k, i]
                for s in range(last):
                    j = k - into[s]
                    if 0 <= j < width:
                        added = found[s] if width == 1 else value[leaf[s], j]
                        total = raw.dtype.type(total + added)
                raw[k, i] = total
        i += cuda.gridDim.x


def add_to_few(trees: Trees, X: Array, raw: Array) -> None:
    """See ``kernels.prediction.traverse.traverse``."""
    launch(
        add_trees_of_rows, blocks_for(X.shape[0]), FEW_BLOCK,
        *_structure_of(trees), trees.value, trees.output, *cells_of(X), raw,
    )  # fmt: skip


@kernel
def find_leaves_of_rows(
    offset, feature, threshold, missing_left, left, category_begin, categories, n_categories,
    values, row, column, leaves,
):  # fmt: skip
    """One row and tree a thread, the trees of a row beside each other as in ``leaves``."""
    n_trees = u64(leaves.shape[1])
    n = u64(leaves.shape[0]) * n_trees
    at = u64(cuda.grid(1))
    while at < n:
        i = u64(at // n_trees)
        t = u64(at - i * n_trees)
        root = u32(offset[t])
        node = leaf_of(
            feature, threshold, missing_left, left, category_begin, categories, n_categories, root,
            values, i * u64(row), column,
        )  # fmt: skip
        leaves[i, t] = u32(node - root)
        at = u64(at + u64(cuda.gridsize(1)))


def find_of_few(trees: Trees, X: Array) -> Array:
    """See ``kernels.prediction.traverse.leaf_indices``."""
    leaves = empty((X.shape[0], trees.output.shape[0]), np.int32)
    launch(
        find_leaves_of_rows, blocks_for_rows(leaves.size, FEW_BLOCK), FEW_BLOCK,
        *_structure_of(trees), *cells_of(X), leaves,
    )  # fmt: skip
    return leaves


def _structure_of(trees: Trees) -> tuple[Any, ...]:
    """Return the arrays that decide where rows go; ``right`` is ``left + 1``."""
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


FEW_ROWS = 64
"""Rows for each multiprocessor: up to here a row a thread would leave most of them idle
(estimated, not measured on hardware)."""


def traverse(trees: Trees, X: Array, raw: Array) -> None:
    if trees.output.shape[0] == 0 or X.shape[0] == 0:
        return
    if _are_few(X):
        add_to_few(trees, X, raw)
    elif perfect_trees.fits(trees, X):
        perfect_trees.add_trees(trees, X, raw)
    elif (nodes := _nodes(trees, X)) is not None:
        deep.add_trees(trees, nodes, X, raw)
    else:
        add_to_few(trees, X, raw)


def leaf_indices(trees: Trees, X: Array) -> Array:
    if trees.output.shape[0] == 0 or _are_few(X) or (nodes := _nodes(trees, X)) is None:
        return find_of_few(trees, X)
    return deep.find_leaves(trees, nodes, X)


def _are_few(X: Array) -> bool:
    return bool(X.shape[0] <= FEW_ROWS * multiprocessors())


def _nodes(trees: Trees, X: Array) -> deep.PackedNodes | None:
    return deep.nodes_of(trees, X, perfect_trees.shape_of(trees).n_largest)


@kernel
def walk_codes(
    rows, offset, feature, bin_, missing_left, left, right, left_codes, own_trees, leaf
):  # fmt: skip
    """One row a thread; ``blockIdx.y`` is the tree. It reads the row-major codes: a row's codes
    share few sectors, while the columns that neighbouring threads need soon differ. ``own_trees``
    are the trees of several models, see ``quantise_models``."""
    tree = i64(cuda.blockIdx.y)
    root = u32(offset[tree])
    n_nodes = u32(offset[tree + 1] - offset[tree])
    own_leaf = leaf[tree]
    n = u32(own_leaf.shape[0])
    first_row = u32(0)
    if own_trees.shape[0] > 0:
        n = u32(own_trees[tree, N_ROWS])
        first_row = u32(own_trees[tree, FIRST_ROW])
    i = u32(cuda.grid(1))
    while i < n:
        # Rows of the tree's sample got their leaf while it grew; the others have a mark that is,
        # unsigned, above all nodes.
        if u32(own_leaf[i]) >= n_nodes:
            node = root
            while feature[node] >= 0:
                code = rows[u32(first_row + i), u32(feature[node])]
                if bin_[node] >= 0:
                    goes_left = code_goes_left(code, bin_[node], missing_left[node] != 0)
                else:
                    goes_left = is_left_category(left_codes[node, u32(code >> 5)], code)
                if goes_left:
                    node = u32(root + u32(left[node]))
                else:
                    node = u32(root + u32(right[node]))
            own_leaf[i] = u32(node - root)
        i = u32(i + cuda.gridsize(1))


def traverse_codes(
    codes: Codes | StreamedCodes,
    offset: np.ndarray,
    feature: Array,
    bin_: Array,
    missing_left: Array,
    left: Array,
    right: Array,
    leaf: Array,
    left_codes: np.ndarray = NO_SETS,
    own_trees: Array | None = None,
) -> None:
    trees = upload(offset, feature, bin_, missing_left, left, right, left_codes)
    if isinstance(codes, StreamedCodes):
        chunks = chunks_of(codes)
        for k, rows in chunks.walk(codes.rows, codes.will_need):
            first = k * chunks.size
            # A tree at a time: the leaves of a chunk's rows are a line each.
            for t in range(leaf.shape[0]):
                own = trees[0][t : t + 2], *trees[1:]
                launch_walk(rows, own, leaf[t : t + 1, first : first + rows.shape[0]])
    else:
        launch_walk(codes.rows, trees, leaf, own_trees)


def launch_walk(
    rows: Array, trees: tuple[Array, ...], leaf: Array, own_trees: Array | None = None
) -> None:
    """Launch the kernel for rows of codes and trees on the device, the first array of which are
    their offsets."""
    blocks = blocks_for_rows(leaf.shape[1], BLOCK), leaf.shape[0]
    own = one_model() if own_trees is None else own_trees
    launch(walk_codes, blocks, BLOCK, rows, *trees, own, leaf)
