"""The frozen arrays that the nodes of grown trees become: a tree a thread of the host."""

from __future__ import annotations

import numpy as np

from ...runtime.compilation import inlined, kernel
from ...runtime.cpu.team import prefetch, run, threads_for
from ..problem import CartTable, GrownCart

u64 = np.uint64

NODES_AHEAD = 16
"""Nodes between the one that is read and the one that is loaded in advance."""


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
    roots = nodes[:n_trees]
    # A tree on n records has at most 2 n - 1 nodes. Each has room for two more: the children of the
    # last leaf are written, and never read.
    room = np.minimum(nodes.size, np.maximum(1, 2 * (roots["end"] - roots["begin"]) - 1))
    first = np.concatenate([[0], np.cumsum(room + 2)])
    order, size = np.empty(first[-1], np.int64), np.empty(n_trees, np.int64)
    n_threads = min(n_trees, threads_for(nodes.size))
    run(_number_nodes, n_threads, nodes, first, order, size)
    offset = np.concatenate([[0], np.cumsum(size)])
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
    places = np.empty(n if bits.size else 0, np.int64)
    run(_emit, n_threads, nodes, statistics, first, order, grown, places)
    if not bits.size:
        return grown
    by_category = np.flatnonzero((grown.feature >= 0) & (table.categorical[grown.feature] == 1))
    if not by_category.size:
        return grown
    # Sets are packed one behind the other, each as long as the categories of its feature need.
    n_words = -(-table.n_bins[grown.feature[by_category]] // 32)
    grown.category_begin[by_category] = np.cumsum(n_words) - n_words
    used = np.arange(bits.shape[1]) < n_words[:, None]
    return grown._replace(categories=bits[places[by_category]][used])


@inlined
def _ask_for(nodes, place):
    """Load a node in advance: they lie in memory as they grew, not as they are numbered."""
    prefetch(nodes, u64(place))
    # Its end; nodes are longer than a cache line.
    prefetch(nodes, u64(place + 1))


@kernel
def _number_nodes(thread, n_threads, barrier, nodes, first, order, size):
    """Put the nodes of every tree into its part of ``order`` breadth first, and count them.

    The children of a leaf are written, too, and overwritten by the next ones: a branch would be
    guessed wrongly at every other node, and wait for the node to come from memory.
    """
    for tree in range(thread, size.size, n_threads):
        order[first[tree]] = tree
        head, end = first[tree], first[tree] + 1
        while head < end:
            _ask_for(nodes, order[min(head + NODES_AHEAD, end - 1)])
            child = nodes[order[head]].child
            order[end] = child
            order[end + 1] = child + 1
            end += 2 if child >= 0 else 0
            head += 1
        size[tree] = end - first[tree]


@kernel
def _emit(thread, n_threads, barrier, nodes, statistics, first, order, grown, places):
    """Write the nodes in their final order, and where they come from if there is room for that."""
    for tree in range(thread, first.size - 1, n_threads):
        # Breadth first, children follow in the order of their parents: a running count numbers
        # them.
        child = 1
        last = first[tree] + grown.offset[tree + 1] - grown.offset[tree] - 1
        for i in range(grown.offset[tree], grown.offset[tree + 1]):
            at = first[tree] + i - grown.offset[tree]
            place = order[at]
            soon = order[min(at + NODES_AHEAD, last)]
            _ask_for(nodes, soon)
            prefetch(statistics, u64(soon * statistics.shape[1]))
            if places.size:
                places[i] = place
            node = nodes[place]
            feature, threshold, missing_left = node.feature, node.threshold, node.missing_left
            gain, is_split = node.gain, node.child >= 0  # read without branches
            grown.feature[i] = feature if is_split else -1
            grown.threshold[i] = threshold if is_split else 0.0
            grown.missing_left[i] = missing_left if is_split else 0
            grown.left[i] = child if is_split else -1
            grown.right[i] = child + 1 if is_split else -1
            grown.gain[i] = gain if is_split else 0.0
            grown.begin[i] = node.begin
            grown.end[i] = node.end
            for s in range(statistics.shape[1]):
                grown.statistics[i, s] = statistics[place, s]
            child += 2 if is_split else 0
