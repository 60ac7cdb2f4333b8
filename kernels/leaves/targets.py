"""The targets of the training rows in the leaves of a tree (see ``quantiles.LeafTargets``)."""

from __future__ import annotations

import numpy as np

from ..runtime.compilation import inner, kernel
from .quantiles import SHARE_BITS

WHOLE = 2.0**SHARE_BITS


@inner
def find_rows(left, n_samples, records, weight, segment, leaf_of, copies, total):
    """Find from the root down where the rows of each node are, ``segment``, and of each row its
    leaf and its weight, which is added to that of the leaf."""
    segment[0, 0], segment[0, 1] = 0, n_samples[0]
    for node in range(left.size):
        first, last = segment[node, 0], segment[node, 1]
        child = left[node]
        if child >= 0:
            middle = first + n_samples[child]
            segment[child, 0], segment[child, 1] = first, middle
            segment[child + 1, 0], segment[child + 1, 1] = middle, last
            continue
        for i in range(first, last):
            row = records[i] & np.uint64(0xFFFFFFFF)
            leaf_of[row] = node
            copies[row] = weight[row] * float(records[i] >> np.uint64(32))
            total[node] += copies[row]


@kernel
def fill_targets(left, n_samples, records, order, rank, weight, segment, entries):
    """Fill in the segments of a tree's nodes and their entries without sorting: rows come in the
    order of their targets, and each is appended to the list of its leaf."""
    n_nodes = left.size
    leaf_of = np.full(rank.size, -1, np.int32)
    copies = np.zeros(rank.size, np.float64)
    total = np.zeros(n_nodes)
    find_rows(left, n_samples, records, weight, segment, leaf_of, copies, total)
    so_far = np.zeros(n_nodes)
    place = segment[:, 0].copy()
    for i in range(order.size):
        row = order[i]
        node = leaf_of[row]
        if node < 0:
            continue
        so_far[node] += copies[row]
        share = np.int64(np.ceil(so_far[node] * WHOLE / total[node]))
        entries[place[node]] = np.int64(rank[row]) << np.int64(32) | share
        place[node] += 1
