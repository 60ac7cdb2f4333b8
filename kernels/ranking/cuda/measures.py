"""Measures of a ranking (contract: ``kernels.ranking.measures``)."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.target import block_size, blocks_for_rows, cuda, empty, kernel, launch
from ...scalars.primitives import mul
from ..queries import Queries

i64 = np.int64
BLOCK = block_size(64)


@kernel
def add_gains(gain, order, begin, discount, depth, out):
    """One query a thread."""
    q = i64(cuda.grid(1))
    while q < out.shape[0]:
        first = i64(begin[q])
        n = min(i64(depth), i64(begin[q + 1]) - first)
        total = 0.0
        for rank in range(n):
            total += mul(gain[order[first + rank]], discount[rank])
        out[q] = total
        q += i64(cuda.gridsize(1))


def discounted_gains(
    gain: Array, order: Array, queries: Queries, discount: Array, depth: int
) -> Array:
    out = empty(queries.begin.shape[0] - 1, np.float64)
    launch(
        add_gains, blocks_for_rows(out.shape[0], BLOCK), BLOCK,
        gain, order, queries.begin, discount, i64(depth), out,
    )  # fmt: skip
    return out


@kernel
def add_precisions(relevance, order, begin, depth, out):
    """One query a thread."""
    q = i64(cuda.grid(1))
    while q < out.shape[0]:
        first = i64(begin[q])
        total = 0.0
        hits = i64(0)
        n_relevant = i64(0)
        for rank in range(i64(begin[q + 1]) - first):
            if relevance[order[first + rank]] > 0.0:
                n_relevant += 1
                if rank < depth:
                    hits += 1
                    total += float(hits) / float(rank + 1)
        most = min(n_relevant, i64(depth))
        out[q] = total / float(most) if most > 0 else 1.0
        q += i64(cuda.gridsize(1))


def average_precisions(relevance: Array, order: Array, queries: Queries, depth: int) -> Array:
    out = empty(queries.begin.shape[0] - 1, np.float64)
    launch(
        add_precisions, blocks_for_rows(out.shape[0], BLOCK), BLOCK,
        relevance, order, queries.begin, i64(depth), out,
    )  # fmt: skip
    return out
