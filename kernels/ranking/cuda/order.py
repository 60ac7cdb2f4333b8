"""The order of documents (contract: ``kernels.ranking.order``)."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.target import block_size, blocks_for_rows, cuda, empty, kernel, launch
from ..queries import Queries

u32, i32 = np.uint32, np.int32
BLOCK = block_size(256)


@kernel
def rank_rows(score, begin, of_row, order):
    """One row a thread: its rank is the number of rows of its query that come before it.

    The threads of a warp mostly belong to one query and read the same scores, and the rows of a
    long query are shared by many blocks.
    """
    n = u32(score.shape[0])
    i = u32(cuda.grid(1))
    while i < n:
        query = u32(of_row[i])
        first = u32(begin[query])
        end = u32(begin[u32(query + u32(1))])
        own = score[i]
        rank = u32(0)
        # Rows before it count if they are equal, rows behind it only if they are better: the
        # earlier row wins ties.
        j = first
        while j < i:
            if score[j] >= own:
                rank = u32(rank + u32(1))
            j = u32(j + u32(1))
        j = u32(i + u32(1))
        while j < end:
            if score[j] > own:
                rank = u32(rank + u32(1))
            j = u32(j + u32(1))
        order[u32(first + rank)] = i32(i)
        i = u32(i + cuda.gridsize(1))


def order_queries(score: Array, queries: Queries) -> Array:
    order = empty(score.shape[0], np.int32)
    launch(
        rank_rows, blocks_for_rows(score.shape[0], BLOCK), BLOCK,
        score, queries.begin, queries.of_row, order,
    )  # fmt: skip
    return order
