"""Quantiles of targets in leaves (contract: ``kernels.leaves.quantile_of_leaves``)."""

from __future__ import annotations

from typing import Any

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
from ..quantile_of_leaves import SHARE_MASK

u32, i64 = np.uint32, np.int64
BLOCK = block_size(128)
S32 = i64(32)


@device_function
def share_up_to(entries, first, last, rank):
    """Of the entries ``first ... last - 1`` with at most some rank; these are ascending."""
    low, high = first, last
    while low < high:
        middle = (low + high) >> i64(1)
        if entries[middle] >> S32 <= rank:
            low = middle + i64(1)
        else:
            high = middle
    return entries[low - i64(1)] & SHARE_MASK if low > first else i64(0)


@kernel
def find_ranks(offset, begin, segment, entries, leaf, least, n_ranks, rank):
    """One row and quantile a thread, quantiles of a row beside each other: their threads look at
    the same leaves. Bisection over the ranks."""
    n_quantiles = least.shape[0]
    n_trees = leaf.shape[1]
    n = i64(leaf.shape[0]) * n_quantiles
    i = i64(cuda.grid(1))
    while i < n:
        row, j = u32(i // n_quantiles), u32(i % n_quantiles)
        low, high = i64(0), i64(n_ranks - 1)
        while low < high:
            middle = (low + high) >> i64(1)
            total = i64(0)
            for t in range(n_trees):
                tree = u32(t)
                node = u32(offset[tree] + leaf[row, tree])
                first = begin[tree] + segment[node, u32(0)]
                last = begin[tree] + segment[node, u32(1)]
                total += share_up_to(entries, first, last, middle)
            if total >= least[j]:
                high = middle
            else:
                low = middle + i64(1)
        rank[row, j] = low
        i += i64(cuda.gridsize(1))


def quantile_of_leaves(targets: Any, leaf: Any, least: Any) -> Any:
    shape = leaf.shape[0], least.shape[0]
    rank = empty(shape, np.int32)
    n_ranks = int(targets.entries.max() >> 32) + 1
    blocks = blocks_for_rows(shape[0] * shape[1], BLOCK)
    launch(find_ranks, blocks, BLOCK, *targets, leaf, least, n_ranks, rank)
    return rank
