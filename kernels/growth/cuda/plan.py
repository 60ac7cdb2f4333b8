"""The plan of a launch over rows: the tiles that its blocks take in turn.

The device functions are for one block, all of whose threads call them: neighbouring nodes or tiles
belong to one thread.
"""

from __future__ import annotations

import numpy as np

from ...runtime.cuda.target import block_size, cuda, device_function

i64 = np.int64

BLOCK = block_size(512)


@device_function
def write_tiles(nodes, of, n, by_slot, first_tile, size, tiles, t):
    """Cut the rows of nodes into tiles of ``size`` rows.

    ``of`` are the nodes, ``first_tile`` where the tiles of each begin. A tile belongs to the
    slot of its node or to the node's entry in ``of``.
    """
    for k in range(n):
        node = nodes[of[k]]
        first = first_tile[k]
        n_own = first_tile[k + 1] - first
        piece = i64(t)
        while piece < n_own:
            tile = tiles[first + piece]
            tile.of = node.slot if by_slot else k
            tile.buffer = node.depth & 1
            tile.begin = node.begin + piece * size
            tile.end = min(node.begin + (piece + 1) * size, node.end)
            piece += BLOCK


@device_function
def running_sums(sums, t):
    """Replace the entries of a shared array, one a thread, by the sums up to them."""
    cuda.syncthreads()
    step = 1
    while step < BLOCK:
        before = i64(0)
        if t >= step:
            before = sums[t - step]
        cuda.syncthreads()
        sums[t] += before
        cuda.syncthreads()
        step *= 2


@device_function
def fair_size(nodes, of, n, least, n_shares, sums, t):
    """Rows of a tile if every block is to have about as many."""
    rows = i64(0)
    for k in range(t, n, BLOCK):
        rows += nodes[of[k]].end - nodes[of[k]].begin
    sums[t] = rows
    running_sums(sums, t)
    total = sums[BLOCK - 1]
    cuda.syncthreads()
    return max(i64(least), total // n_shares + 1)


@device_function
def count_tiles(nodes, of, n, size, first_tile, sums, t):
    """Fill ``first_tile``; the number of all tiles. A thread counts for neighbouring nodes."""
    share = (n + BLOCK - 1) // BLOCK
    begin = min(t * share, n)
    end = min(begin + share, n)
    own = i64(0)
    for k in range(begin, end):
        own += (nodes[of[k]].end - nodes[of[k]].begin + size - 1) // size
    sums[t] = own
    running_sums(sums, t)
    total = sums[t] - own
    for k in range(begin, end):
        first_tile[k] = total
        total += (nodes[of[k]].end - nodes[of[k]].begin + size - 1) // size
    total = sums[BLOCK - 1]
    if t == 0:
        first_tile[n] = total
    cuda.syncthreads()
    return total
