"""The plan of a launch over rows, made by a block: the tiles that its blocks take in turn, and the
limits of the splits that are looked for."""

from __future__ import annotations

import numpy as np

from ...runtime.cuda.loops import rolled
from ...runtime.cuda.target import cuda, device_function
from ...scalars.primitives import mul
from .. import limits as growth_limits
from .block import BLOCK, before, control, share_of
from .tables import params_of

i32, i64, u32, f64 = np.int32, np.int64, np.uint32, np.float64

can_split = control(growth_limits.can_split)
least_h = control(growth_limits.least_h)
l2_of = control(growth_limits.l2_of)
category_l2 = control(growth_limits.category_l2)
row_h = control(growth_limits.row_h)
scale_h = control(growth_limits.scale_h)


@device_function
def rows_of(nodes, x):
    """Return the number of rows of a node; -1 is a node without rows."""
    return nodes[x].end - nodes[x].begin if x >= 0 else i64(0)


@device_function
def write_tiles(nodes, of, n, first_tile, n_tiles, size, tiles, t):
    """Cut the rows of nodes into tiles of ``size`` rows.

    ``of`` are the nodes, ``first_tile`` where the tiles of each begin. A tile belongs to the
    node's entry in ``of``. A thread writes neighbouring tiles, whose first node it finds by
    bisection.
    """
    begin, end = share_of(n_tiles, t)
    # The node of the first tile of this thread; the others follow from node to node.
    low, high = i64(0), i64(n - 1)
    while low < high:
        middle = (low + high + 1) >> 1
        if first_tile[middle] <= begin:
            low = middle
        else:
            high = middle - 1
    for i in rolled(range(begin, end)):
        while first_tile[low + 1] <= i:
            low += 1
        node = nodes[of[low]]
        at = node.begin + (i - first_tile[low]) * size
        tile = tiles[i]
        tile.of = low
        # The records of a level are in the same buffer.
        tile.buffer = node.depth & 1
        tile.begin = at
        tile.end = min(at + size, node.end)


@device_function
def fair_size(nodes, of, n, least, share, sums, t):
    """Return the rows of a tile that give every block about as many: its ``share`` of them all, a
    float64. An integer quotient would be a routine of its own."""
    rows = i64(0)
    for k in rolled(range(t, n, BLOCK)):
        rows += rows_of(nodes, of[k])
    _, total = before(sums, rows, t)
    return max(i64(least), i64(mul(f64(total), share)) + 1)


@device_function
def n_tiles_of(rows, size):
    """Return how many tiles a node has. Its rows are numbered with 32 bits; a quotient of 64 would
    be a routine of its own, and one by what may be 0 a branch."""
    return i64(u32(rows - 1) // max(u32(size), u32(1))) + 1 if rows > 0 else i64(0)


@device_function
def count_tiles(nodes, of, n, size, first_tile, sums, t):
    """Fill ``first_tile`` and return the number of all tiles. A thread counts for neighbouring
    nodes: first ``first_tile`` has the numbers of their tiles."""
    begin, end = share_of(n, t)
    own = i64(0)
    for k in rolled(range(begin, end)):
        first_tile[k] = n_tiles_of(rows_of(nodes, of[k]), size)
        own += first_tile[k]
    first, total = before(sums, own, t)
    for k in rolled(range(begin, end)):
        n_own = first_tile[k]
        first_tile[k] = first
        first += n_own
    if t == 0:
        first_tile[n] = total
    cuda.syncthreads()  # threads bisect among all of them
    return total


@device_function
def plan_counts(nodes, recheck, n_pairs, n, least, n_kept, looked, limits, n_counted, t):
    """List the histograms that nodes to recheck need, and return how many there are.

    Blocks share the rows of a node of ``least`` or more rows; those of a smaller one are counted
    by the search, a block a feature. A large node gets two histograms behind the ``n_kept`` that
    growth keeps (see ``control.clear``): its sums and its numbers of rows. Two entries behind the
    pairs in ``looked`` name the node for them; the first is -1 where growth has kept its sums. The
    order of the nodes does not matter.
    """
    if t == 0:
        n_counted[0] = 0
    cuda.syncthreads()  # counting may begin
    for k in rolled(range(t, n, BLOCK)):
        x = recheck[k]
        counted = i64(-1)
        if rows_of(nodes, x) >= least:
            first = i64(cuda.atomic.add(n_counted, 0, i32(2)))
            looked[n_pairs + first] = x if nodes[x].slot < 0 else i64(-1)
            looked[n_pairs + first + 1] = x
            counted = n_kept + first
        limits[2 * n_pairs + k].counted = counted
    cuda.syncthreads()  # the list is complete
    return i64(n_counted[0])


@device_function
def address_tiles(nodes, of, n_pairs, n_kept, tiles, n_tiles, t):
    """Let the tiles of ``write_tiles`` belong to histograms: those of pairs to the slots of their
    nodes, the others to the histograms of ``plan_counts``."""
    cuda.syncthreads()  # other threads have written the tiles
    for i in rolled(range(t, n_tiles, BLOCK)):
        k = tiles[i].of
        other = k - n_pairs
        tiles[i].of = nodes[of[k]].slot if other < 0 else n_kept + other
        tiles[i].counts = i64(0) if other < 0 else other & i64(1)
    cuda.syncthreads()  # all have read ``of``, which changes next


@device_function
def write_limits(frontier, nodes, params, n_pairs, looked, limits, n_looked, t):
    """Fill in the limits of the splits that are looked for."""
    for k in rolled(range(t, n_looked, BLOCK)):
        x = looked[k]
        limit = limits[k]
        wanted = i64(0)
        if x >= 0:
            own = params_of(params, nodes[x].tree)
            # One node of a pair may be too small for a split: the other one needs its histogram.
            if k >= 2 * n_pairs or can_split(frontier, own, x):
                wanted = i64(1)
            limit.least_h = least_h(frontier, own, x)
            limit.l2 = l2_of(frontier, own, x)
            limit.category_l2 = category_l2(frontier, own, x)
            limit.least_rows = own.min_samples_leaf
            limit.row_h = row_h(frontier, x)
            limit.scale_h = scale_h(frontier, x)
        limit.wanted = wanted
