"""Quantiles of targets in leaves (contract: ``kernels.leaves.quantile_of_leaves``).

Bisection over the ranks, row by row. A step that looks for entries of a rank in every tree's leaf
narrows the stretch of entries where later steps have to look, too; a tree whose stretch is empty
leaves the search, and its share counts from then on:

    ranks      [1 4 6] [5] [0 2 9]      up to 4: 2/3 + 0 + 2/3 of a tree, too little
               [6]     [5] [9]          up to 7: 1 + 1 + 2/3, enough
               [6]     [5] []           up to 6: 1 + 1 + 2/3, ...
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime.compilation import inner, kernel
from ...runtime.cpu.team import CACHE_LINE, atomic_add, get_threads, run
from ..quantile_of_leaves import SHARE_MASK

i64 = np.int64
S32 = i64(32)
BLOCK = 64
"""Rows that a thread takes at once."""
FEWEST_LOOKS = 2000
"""Looks at a leaf below which another thread costs more than it saves."""


@inner
def _find_leaves(targets, leaf, row, whole):
    """Where the entries of a row's leaves begin and end; their lowest and highest rank."""
    low, high = i64(2**31), i64(0)
    for t in range(leaf.shape[1]):
        node = targets.offset[t] + leaf[row, t]
        first = targets.begin[t] + targets.segment[node, 0]
        last = targets.begin[t] + targets.segment[node, 1]
        whole[0, t] = first
        whole[1, t] = last
        low = min(low, targets.entries[first] >> S32)
        high = max(high, targets.entries[last - 1] >> S32)
    return low, high


@inner
def _first_beyond(entries, low, high, rank):
    """The first of the entries ``low ... high - 1`` with a higher rank; high if there is none."""
    while low < high:
        middle = (low + high) >> 1
        if entries[middle] >> S32 <= rank:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def _search(entries, whole, searched, low, high, least):
    """The least rank with enough shares; ``searched`` (tree, begin, end, place) is room."""
    n = whole.shape[1]
    for t in range(n):
        searched[0, t], searched[1, t], searched[2, t] = t, whole[0, t], whole[1, t]
    settled = i64(0)
    while low < high:
        middle = (low + high) >> 1
        total = settled
        for k in range(n):
            place = _first_beyond(entries, searched[1, k], searched[2, k], middle)
            searched[3, k] = place
            if place > whole[0, searched[0, k]]:
                total += entries[place - 1] & SHARE_MASK
        enough = total >= least
        if enough:
            high = middle
        else:
            low = middle + 1
        n, settled = _narrow(entries, whole, searched, n, enough, settled)
    return low


@inner
def _narrow(entries, whole, searched, n, enough, settled):
    """Keep the trees in which there is something left to search; their number, and the shares
    of the others."""
    kept = 0
    for k in range(n):
        tree, place = searched[0, k], searched[3, k]
        begin = searched[1, k] if enough else place
        end = place if enough else searched[2, k]
        if begin < end:
            searched[0, kept], searched[1, kept], searched[2, kept] = tree, begin, end
            kept += 1
        elif begin > whole[0, tree]:
            settled += entries[begin - 1] & SHARE_MASK
    return kept, settled


@kernel
def _worker(thread, n_threads, barrier, targets, leaf, least, rank, queue):
    n_rows, n_trees = leaf.shape
    whole, searched = np.empty((2, n_trees), np.int64), np.empty((4, n_trees), np.int64)
    while True:
        begin = atomic_add(queue, 0, BLOCK)
        if begin >= n_rows:
            break
        for row in range(begin, min(begin + BLOCK, n_rows)):
            low, high = _find_leaves(targets, leaf, row, whole)
            for j in range(least.size):
                rank[row, j] = _search(targets.entries, whole, searched, low, high, least[j])


def quantile_of_leaves(targets: Any, leaf: Any, least: Any) -> Any:
    rank = np.empty((leaf.shape[0], least.size), np.int32)
    n_threads = max(1, min(get_threads(), leaf.size * least.size // FEWEST_LOOKS))
    run(_worker, n_threads, targets, leaf, least, rank, np.zeros(CACHE_LINE, np.int64))
    return rank
