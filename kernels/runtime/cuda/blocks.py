"""Work of blocks: sums and maxima that the threads of one find together in shared memory, and
tiles, the pieces of segments by which blocks share the rows of large and small nodes evenly."""

from __future__ import annotations

from typing import Any

import numpy as np

from .loops import unknown
from .target import cuda, device_function, records_in, upload

u32 = np.uint32

NOWHERE = np.int32(2**31 - 1)
"""Number of a candidate that does not exist: it loses every tie."""


@device_function
def inclusive_scan(values, t):
    """Replace ``values[t]`` by ``values[0] + … + values[t]`` (Hillis and Steele 1986).

    ``values`` has one integer a thread. Every thread of the block must call this; it may read
    any entry afterwards.

        a     b     c     d
        a     ab    bc    cd        step 1
        a     ab    abc   abcd      step 2
    """
    own, step = u32(t), unknown(u32(1))  # of 32 bits, and never negative: less code
    cuda.syncthreads()  # the values are there
    while step < values.shape[0]:
        mine = values[own]
        if own >= step:
            mine += values[u32(own - step)]
        cuda.syncthreads()  # all have read
        values[own] = mine
        cuda.syncthreads()  # and written
        step = u32(step * u32(2))


@device_function
def share_of_block(n):
    """Return the part of n things that is the block's: the first one, and the one behind it."""
    share = (n + cuda.gridDim.x - 1) // cuda.gridDim.x
    first = min(cuda.blockIdx.x * share, n)
    return first, min(first + share, n)


@device_function
def best_to_front(scores, numbers, t):
    """Bring the highest score and its number to entry 0; the lower number wins ties.

    Both arrays have one entry a thread, a power of two of them. Every thread of the block
    must call this; it may read entry 0 afterwards.
    """
    half = unknown(scores.shape[0] // 2)
    cuda.syncthreads()  # scores and numbers of all threads are there
    while half > 0:
        if t < half:
            other = scores[t + half]
            # The lower number wins ties, whatever thread it came from: results do not depend on the
            # grid.
            ties = other == scores[t] and numbers[t + half] < numbers[t]
            if other > scores[t] or ties:
                scores[t] = other
                numbers[t] = numbers[t + half]
        cuda.syncthreads()  # the upper half has been read, and the lower one written
        half //= 2


@device_function
def arrives_last(counter, at, is_last, t):
    """Return whether this block is the last one of the launch to call this.

    What the blocks have added to arrays by atomic operations before is then complete for the
    atomic operations of the last one. Every thread must call this.

    Parameters
    ----------
    counter : array
        Its entry ``at`` is zero when the launch begins.
    is_last : int32, shape (1,), shared
    """
    cuda.syncthreads()  # all threads of the block have added what they have
    if t == 0:
        # A block that sees the count also sees those additions.
        cuda.threadfence()
        is_last[0] = np.int32(cuda.atomic.add(counter, at, 1) == cuda.gridDim.x - 1)
        cuda.threadfence()
    cuda.syncthreads()
    # Behind the barrier all threads know the answer of the first one.
    return is_last[0] != 0


TILE = np.dtype(
    [
        ("of", np.int64),
        ("buffer", np.int64),
        ("begin", np.int64),
        ("end", np.int64),
        ("counts", np.int64),
    ],
    align=True,
)
"""Rows ``begin … end - 1`` of a buffer of records, 0 or 1; ``of`` is the number of the
node, or other segment, that they belong to. Where ``counts`` is 1, a histogram counts the rows
instead of adding up their statistics."""


def cut(begin: np.ndarray, end: np.ndarray, rows: int) -> np.ndarray:
    """Cut segments of the first buffer into tiles of at most ``rows`` rows; empty segments have
    none.

    Parameters
    ----------
    begin, end : int64, shape (n_nodes,), NumPy
    rows : int

    Returns
    -------
    TILE, shape (n_tiles,), NumPy
    """
    pieces = -(-(end - begin) // rows)
    node = np.repeat(np.arange(begin.size), pieces)
    piece = np.arange(node.size) - (np.cumsum(pieces) - pieces)[node]
    tiles = np.zeros(node.size, TILE)
    tiles["of"] = node
    tiles["begin"] = begin[node] + piece * rows
    tiles["end"] = np.minimum(tiles["begin"] + rows, end[node])
    return tiles


def upload_tiles(tiles: np.ndarray, *arrays: np.ndarray) -> tuple[Any, ...]:
    """Return copies of tiles and of small arrays on the device, made by one transfer."""
    memory, *copies = upload(tiles.view(np.uint8), *arrays)
    return records_in(memory, 0, TILE, tiles.size), *copies
