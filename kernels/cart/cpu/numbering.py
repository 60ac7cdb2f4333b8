"""Finished trees: the nodes in their final order, breadth first."""

from __future__ import annotations

import numpy as np

from ...runtime.compilation import kernel
from ..problem import CartTable, GrownCart
from .tables import NODES, Work


def emitted(table: CartTable, work: Work, n_trees: int) -> GrownCart:
    """The trees whose nodes stand in ``work``."""
    order = np.empty(int(work.counts[NODES]), np.int64)
    offset = np.empty(n_trees + 1, np.int64)
    _number_nodes(work.nodes, n_trees, order, offset)
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
        statistics=np.empty((n, work.statistics.shape[1]), np.int64),
        begin=np.empty(n, np.int64),
        end=np.empty(n, np.int64),
        categories=np.empty(0, np.uint32),
    )
    _emit(work.nodes, work.statistics, order, grown.offset, grown)
    by_category = np.flatnonzero((grown.feature >= 0) & (table.categorical[grown.feature] == 1))
    if not by_category.size:
        return grown
    n_words = -(-table.n_bins[grown.feature[by_category]] // 32)
    grown.category_begin[by_category] = np.cumsum(n_words) - n_words
    used = np.arange(work.bits.shape[1]) < n_words[:, None]
    return grown._replace(categories=work.bits[order[by_category]][used])


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
