"""The nodes of growing trees, and the frozen arrays that they become."""

from __future__ import annotations

import numpy as np

from ..runtime.compilation import kernel
from .problem import CartParams, CartTable, GrownCart

_I, _F = np.int64, np.float64
NODE = np.dtype(
    [
        ("tree", _I),
        ("depth", _I),
        ("begin", _I),  # its records are begin … end - 1
        ("end", _I),
        ("key", np.uint64),
        ("low", _F),  # bounds of its value
        ("high", _F),
        ("feature", _I),  # its best split; -1: none
        ("last_left", _I),
        ("threshold", _F),
        ("missing_left", _I),  # -1: no values are missing here
        ("value_left", _F),
        ("value_right", _F),
        ("gain", _F),
        ("child", _I),  # the left one, the right one follows; -1: a leaf
    ],
    align=True,  # else compiled code reads fields byte by byte
)


def finished(
    table: CartTable, nodes: np.ndarray, statistics: np.ndarray, bits: np.ndarray, n_trees: int
) -> GrownCart:
    """Return the trees whose roots are the first nodes.

    Parameters
    ----------
    table : CartTable
    nodes : NODE, shape (n,)
        There may be some that belong to no tree.
    statistics : int64, shape (n or more, n_statistics)
    bits : uint32, shape (n or more, words), or (0, 0)
        Categories that go left.
    n_trees : int
    """
    order = np.empty(nodes.size, np.int64)
    offset = np.empty(n_trees + 1, np.int64)
    _number_nodes(nodes, n_trees, order, offset)
    n = int(offset[-1])
    grown = GrownCart(
        offset=offset,
        feature=np.empty(n, np.int32),
        threshold=np.empty(n, np.float64),
        missing_left=np.empty(n, np.uint8),
        left=np.empty(n, np.int32),
        right=np.empty(n, np.int32),
        category_begin=np.full(n, -1, np.int32),
        gain=np.empty(n, np.float64),
        statistics=np.empty((n, statistics.shape[1]), np.int64),
        begin=np.empty(n, np.int64),
        end=np.empty(n, np.int64),
        categories=np.empty(0, np.uint32),
    )
    _emit(nodes, statistics, order, grown.offset, grown)
    by_category = np.flatnonzero((grown.feature >= 0) & (table.categorical[grown.feature] == 1))
    if not by_category.size:
        return grown
    n_words = -(-table.n_bins[grown.feature[by_category]] // 32)
    grown.category_begin[by_category] = np.cumsum(n_words) - n_words
    used = np.arange(bits.shape[1]) < n_words[:, None]
    return grown._replace(categories=bits[order[by_category]][used])


@kernel
def _number_nodes(nodes, n_trees, order, offset):
    """Put the nodes of every tree into ``order`` breadth first."""
    total = 0
    for tree in range(n_trees):
        offset[tree] = total
        order[total] = tree
        head = total
        total += 1
        while head < total:
            child = nodes[order[head]].child
            if child >= 0:
                order[total] = child
                order[total + 1] = child + 1
                total += 2
            head += 1
    offset[n_trees] = total


@kernel
def _emit(nodes, statistics, order, offset, grown):
    """Write the nodes in their final order."""
    for tree in range(offset.size - 1):
        child = 1
        for i in range(offset[tree], offset[tree + 1]):
            node = nodes[order[i]]
            is_split = node.child >= 0
            grown.feature[i] = node.feature if is_split else -1
            grown.threshold[i] = node.threshold if is_split else 0.0
            grown.missing_left[i] = node.missing_left if is_split else 0
            grown.left[i] = child if is_split else -1
            grown.right[i] = child + 1 if is_split else -1
            grown.gain[i] = node.gain if is_split else 0.0
            grown.begin[i] = node.begin
            grown.end[i] = node.end
            for s in range(statistics.shape[1]):
                grown.statistics[i, s] = statistics[order[i], s]
            if is_split:
                child += 2


def most_nodes(sizes: np.ndarray, params: CartParams) -> int:
    """Return the most nodes that trees on samples of these sizes can have."""
    leaves = np.maximum(1, sizes // params.min_samples_leaf)
    leaves = np.minimum(leaves, params.max_leaves)
    if params.max_depth < 31:
        leaves = np.minimum(leaves, 2**params.max_depth)
    return int((2 * leaves - 1).sum())
