"""The choice of the nodes that a round opens, by one block, and the plan of their partition.

It follows the search for splits, whose results it writes into the table of nodes first (``best``).
Arguments are those of ``control``.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...runtime.cuda.loops import rolled
from ...runtime.cuda.narrow import narrow
from ...runtime.cuda.target import cuda, device_function, kernel
from .. import frontier as fr
from .best import give_back, take_best
from .block import BLOCK, GROUPS, width_for
from .order import (
    COUNTED,
    FREE,
    N_TALLY,
    OPENED,
    REST,
    TAKEN,
    open_all,
    open_in_order,
    update_order,
)
from .partition import TILE as PARTITION_TILE
from .plan import count_tiles, rows_of, write_tiles
from .tables import (
    N_CLEARED,
    N_CLEARED_COUNTS,
    N_LOOKED,
    N_REST,
    N_TILES,
    SIDE,
    frontier_of,
    params_of,
    tables_of,
)

i32, i64 = np.int32, np.int64


@device_function
def order_trees(frontier, x, sums, t):
    """Let the nodes that were looked at into the orders of their trees, which change sides."""
    order = x.heap if x.counts[SIDE] == 0 else x.need
    target = x.need if x.counts[SIDE] == 0 else x.heap
    n_trees = i64(x.trees.shape[0])
    # As many threads a tree as there are for all of them, at least one.
    power = width_for(n_trees, GROUPS)
    width = i64(1) << power
    for first in rolled(range(0, n_trees, BLOCK >> power)):
        tree, lane = first + (t >> power), t & (width - 1)
        update_order(frontier, x, order, target, tree, lane, width, sums, t)
    cuda.syncthreads()  # the orders are merged, and all have read SIDE
    if t == 0:
        x.counts[SIDE] = 1 - x.counts[SIDE]
    cuda.syncthreads()  # for those who read it next


@device_function
def fill_expand(x, params, in_order, tally, sums, t):
    """Choose the nodes to open as far as there are slots, and return how many there would be."""
    if not in_order:
        return open_all(x, tally, sums, t) >> i64(32)
    order = x.heap if x.counts[SIDE] == 0 else x.need
    n_trees = i64(x.trees.shape[0])
    power = width_for(n_trees, GROUPS)
    width = i64(1) << power
    total = i64(0)
    for first in rolled(range(0, n_trees, BLOCK >> power)):
        tree, lane = first + (t >> power), t & (width - 1)
        total = open_in_order(x, params, order, tree, lane, power, total, tally, sums, t)
    return total >> i64(32)


@device_function
def choose(x, params, in_order, tally, sums, t):
    """Choose the nodes to open. If there are no slots for a single one all histograms are given
    up; the children of those nodes will both be built from their rows."""
    for _ in rolled(range(2)):
        if t == 0:
            tally[OPENED] = tally[TAKEN] = tally[REST] = tally[COUNTED] = 0
        cuda.syncthreads()  # counting may begin
        total = fill_expand(x, params, in_order, tally, sums, t)
        cuda.syncthreads()  # the tally is complete
        n = i64(tally[OPENED])
        if t == 0 and n < total:
            tally[REST] += 1
        if n > 0 or total == 0:
            break
        cuda.syncthreads()  # all have read it
        for node in rolled(range(t, x.state[fr.N_NODES], BLOCK)):
            give_back(x, node, tally)
        cuda.syncthreads()  # all slots are free


@device_function
def plan_partition(x, params, tally, sums, least, t):
    """Plan the partition of the nodes to open, and the clearing of the histograms after it."""
    n, free = i64(tally[OPENED]), i64(tally[FREE])
    for k in rolled(range(t, n, BLOCK)):
        node = x.expand[k].node
        x.looked[k] = node
        x.filled[2 * k] = 0
        x.filled[2 * k + 1] = 0
        least_rows = params_of(params, x.nodes[node].tree).min_samples_leaf
        if least_rows > 1 and rows_of(x.nodes, node) >= least:
            cuda.atomic.add(tally, COUNTED, i32(2))
    # The next round takes these slots from the top of the stack: it clears them meanwhile.
    for k in rolled(range(t, tally[TAKEN], BLOCK)):
        x.cleared[k] = x.free_slots[free - 1 - k]
    cuda.syncthreads()  # ``looked`` is complete
    n_tiles = count_tiles(x.nodes, x.looked, n, i64(PARTITION_TILE), x.first_tile, sums, t)
    write_tiles(x.nodes, x.looked, n, x.first_tile, n_tiles, i64(PARTITION_TILE), x.tiles, t)
    if t == 0:
        x.state[fr.N_FREE_SLOTS] = free
        x.state[fr.N_EXPAND] = n
        x.state[fr.N_RECHECK] = x.state[fr.N_PAIRS] = 0
        x.counts[N_TILES] = n_tiles
        x.counts[N_LOOKED] = 0
        x.counts[N_CLEARED] = tally[TAKEN]
        x.counts[N_CLEARED_COUNTS] = tally[COUNTED]
        x.counts[N_REST] = tally[REST]


@functools.cache
def choosing_kernel(in_order: bool) -> Any:
    """Return the kernel for growth with a limit of leaves, which keeps an order, or without one.
    What one block runs once waits for its code: neither has that of the other."""

    @kernel
    def choose_nodes(
        nodes, trees, expand, pairs, recheck, free_slots,
        heap, need, rules, members, left_codes, state,
        params, tiles, first_tile, filled, looked, limits, gaps, place, cleared, plans, counts,
        score, number, left_sums, left_sets, n_features, least_counted,
    ):  # fmt: skip
        """Note the best splits, choose the nodes to open, and plan their partition."""
        if cuda.blockIdx.x > 0:
            return
        t = i64(cuda.threadIdx.x)
        sums = narrow(cuda.shared.array(BLOCK, np.int64))
        scores = narrow(cuda.shared.array(BLOCK, np.float64))
        features = narrow(cuda.shared.array(BLOCK, np.int32))
        tally = cuda.shared.array(N_TALLY, np.int32)
        x = tables_of(
            nodes, trees, expand, pairs, recheck, free_slots,
            heap, need, rules, members, left_codes, state,
            params, tiles, first_tile, filled, looked, limits, gaps, place, cleared, plans, counts,
        )  # fmt: skip
        frontier = frontier_of(
            nodes, trees, expand, pairs, recheck, free_slots,
            heap, need, rules, members, left_codes, state,
        )  # fmt: skip
        # Slots come back from several threads: their number is an entry of shared memory.
        if t == 0:
            tally[FREE] = i32(x.state[fr.N_FREE_SLOTS])
        found = narrow(score), narrow(number), narrow(left_sums), left_sets
        n_looked = x.counts[N_LOOKED]
        # The splits of the nodes that were looked at, the order with these, and what comes next.
        take_best(frontier, params, x, n_looked, n_features, found, scores, features, tally, t)
        if in_order:
            order_trees(frontier, x, sums, t)
        choose(x, params, in_order, tally, sums, t)
        plan_partition(x, params, tally, sums, least_counted, t)

    return choose_nodes
