"""The decisions that one block makes between the launches over rows, all of them on the device.

The control of growth (``kernels.growth.control``) is compiled for the device as it is. Work on
one tree or node is shared among the threads of the first block, and so is the plan of the next
launch: the tiles of rows that its blocks take in turn. Changes to common tables are left to the
block's first thread. Further blocks, without which Numba would warn, have nothing to do.

Every table is an argument of its own: a tuple of tables would cost Numba's launcher 16 µs a launch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime.compilation import callable_from_python
from ...runtime.cuda.blocks import inclusive_scan
from ...runtime.cuda.target import block_size, cuda, device_function, is_simulated, kernel
from .. import control as growth_control
from .. import frontier as fr
from .. import limits as growth_limits
from .partition import TILE as PARTITION_TILE
from .tables import IS_DONE, N_COUNTED, N_LOOKED, N_TILES, frontier_of, params_of

i32, i64 = np.int32, np.int64

BLOCK = block_size(512)


@device_function
def rows_of(nodes, x):
    """Return the number of rows of a node; -1 is a node without rows."""
    return nodes[x].end - nodes[x].begin if x >= 0 else i64(0)


@device_function
def write_tiles(nodes, of, n, first_tile, size, tiles, t):
    """Cut the rows of nodes into tiles of ``size`` rows.

    ``of`` are the nodes, ``first_tile`` where the tiles of each begin. A tile belongs to the
    node's entry in ``of``.
    """
    for k in range(n):
        first = first_tile[k]
        n_own = first_tile[k + 1] - first
        piece = i64(t)
        while piece < n_own:
            node = nodes[of[k]]
            tile = tiles[first + piece]
            tile.of = k
            tile.buffer = node.depth & 1
            tile.begin = node.begin + piece * size
            tile.end = min(node.begin + (piece + 1) * size, node.end)
            piece += BLOCK


@device_function
def fair_size(nodes, of, n, least, n_shares, sums, t):
    """Return the rows of a tile that give every block about as many."""
    rows = i64(0)
    for k in range(t, n, BLOCK):
        rows += rows_of(nodes, of[k])
    sums[t] = rows
    inclusive_scan(sums, t)
    total = sums[BLOCK - 1]
    cuda.syncthreads()
    return max(i64(least), total // n_shares + 1)


@device_function
def count_tiles(nodes, of, n, size, first_tile, sums, t):
    """Fill ``first_tile`` and return the number of all tiles. A thread counts for neighbouring
    nodes."""
    share = (n + BLOCK - 1) // BLOCK
    begin = min(t * share, n)
    end = min(begin + share, n)
    own = i64(0)
    for k in range(begin, end):
        own += (rows_of(nodes, of[k]) + size - 1) // size
    sums[t] = own
    inclusive_scan(sums, t)
    total = sums[t] - own
    for k in range(begin, end):
        first_tile[k] = total
        total += (rows_of(nodes, of[k]) + size - 1) // size
    total = sums[BLOCK - 1]
    if t == 0:
        first_tile[n] = total
    cuda.syncthreads()
    return total


@device_function
def plan_counts(nodes, recheck, n_pairs, n, least, n_kept, looked, limits, n_counted, t):
    """List the histograms that nodes to recheck need, and return how many there are.

    Blocks share the rows of a node of ``least`` or more rows; those of a smaller one are counted
    by the search, a block a feature. A large node has two histograms behind the ``n_kept`` that
    growth keeps: the sums, if its own are given up, and the numbers of rows. Their order does not
    matter. They stand behind the pairs in ``looked``; -1 is for sums that are kept.
    """
    if t == 0:
        n_counted[0] = 0
    cuda.syncthreads()
    for k in range(t, n, BLOCK):
        x = recheck[k]
        counted = i64(-1)
        if rows_of(nodes, x) >= least:
            first = i64(cuda.atomic.add(n_counted, 0, i32(2)))
            looked[n_pairs + first] = x if nodes[x].slot < 0 else i64(-1)
            looked[n_pairs + first + 1] = x
            counted = n_kept + first
        limits[2 * n_pairs + k].counted = counted
    cuda.syncthreads()
    return i64(n_counted[0])


@device_function
def address_tiles(nodes, of, n_pairs, n_kept, tiles, n_tiles, t):
    """Let the tiles of ``write_tiles`` belong to histograms: those of pairs to the slots of their
    nodes, the others to the histograms of ``plan_counts``."""
    cuda.syncthreads()
    for i in range(t, n_tiles, BLOCK):
        k = tiles[i].of
        other = k - n_pairs
        tiles[i].of = nodes[of[k]].slot if other < 0 else n_kept + other
        tiles[i].counts = i64(0) if other < 0 else other & i64(1)
    cuda.syncthreads()


WARP = 32


def control(function: Any) -> Any:
    """Return a function of the control as a kernel calls it."""
    return callable_from_python(function) if is_simulated() else function


start = control(growth_control.start)
simulate = control(growth_control.simulate)
open_needed = control(growth_control.open_needed)
commit = control(growth_control.commit)
release = control(growth_control.release)
take_gain = control(growth_control.take_gain)
forget_choice = control(growth_control.forget_choice)
number_nodes = control(growth_control.number_nodes)
inherit_leaf = control(growth_control.inherit_leaf)
can_split = control(growth_limits.can_split)
least_h = control(growth_limits.least_h)
l2_of = control(growth_limits.l2_of)
category_least_h = control(growth_limits.category_least_h)
category_l2 = control(growth_limits.category_l2)
category_smoothing = control(growth_limits.category_smoothing)
allow_features = control(growth_limits.allow_features)


@device_function
def tree_of_thread(t):
    """Return the first tree of a thread. Neighbouring trees, which may branch differently,
    belong to different warps."""
    return (t % WARP) * (BLOCK // WARP) + t // WARP


@device_function
def write_limits(frontier, settings, n_pairs, looked, limits, n_looked, t):
    """Fill in the limits of the splits that are looked for."""
    for k in range(t, n_looked, BLOCK):
        x = looked[k]
        limit = limits[k]
        wanted = i64(0)
        if x >= 0:
            if k >= 2 * n_pairs or can_split(frontier, settings, x):
                wanted = i64(1)
            limit.least_h = least_h(frontier, settings, x)
            limit.l2 = l2_of(frontier, settings, x)
            limit.category_least_h = category_least_h(frontier, settings, x)
            limit.category_l2 = category_l2(frontier, settings, x)
            limit.smoothing = category_smoothing(frontier, settings, x)
        limit.wanted = wanted


@kernel
def open_nodes(
    nodes, trees, expand, pairs, recheck, free_slots,
    heap, need, rules, members, left_codes, state,
    params, totals, scales, tiles, first_tile, filled, looked, limits, counts, is_first,
    least_rows, n_shares, least_counted,
):  # fmt: skip
    """Plant the roots, or turn partitioned nodes into parents; then plan the histograms of the
    new nodes and of those to recheck, and the search for their splits."""
    if cuda.blockIdx.x > 0:
        return
    t = cuda.threadIdx.x
    sums = cuda.shared.array(BLOCK, np.int64)
    counted = cuda.shared.array(1, np.int32)
    frontier = frontier_of(
        nodes, trees, expand, pairs, recheck, free_slots,
        heap, need, rules, members, left_codes, state,
    )  # fmt: skip
    settings = params_of(params)
    if is_first != 0:
        for tree in range(t, trees.shape[0], BLOCK):
            trees[tree].g = totals[2 * tree]
            trees[tree].h = totals[2 * tree + 1]
            trees[tree].scale_g = scales[2 * tree]
            trees[tree].scale_h = scales[2 * tree + 1]
    elif counts[IS_DONE] == 0:
        for k in range(t, state[fr.N_EXPAND], BLOCK):
            expand[k].n_left = filled[2 * k]
    cuda.syncthreads()
    if t == 0:
        if is_first != 0:
            counts[IS_DONE] = 0
            start(frontier, settings)
        elif counts[IS_DONE] == 0:
            commit(frontier, settings)
    cuda.syncthreads()
    n_pairs = state[fr.N_PAIRS]
    n_recheck = state[fr.N_RECHECK]
    n_kept = free_slots.shape[0]
    for p in range(t, n_pairs, BLOCK):  # first the nodes to build, for the tiles
        looked[p] = pairs[p].build
    n_counted = plan_counts(
        nodes, recheck, n_pairs, n_recheck, least_counted, n_kept, looked, limits, counted, t
    )
    n_built = n_pairs + n_counted
    size = fair_size(nodes, looked, n_built, least_rows, n_shares, sums, t)
    n_tiles = count_tiles(nodes, looked, n_built, size, first_tile, sums, t)
    if t == 0:
        counts[N_TILES] = n_tiles
        counts[N_LOOKED] = 2 * n_pairs + n_recheck
        counts[N_COUNTED] = n_counted
    write_tiles(nodes, looked, n_built, first_tile, size, tiles, t)
    address_tiles(nodes, looked, n_pairs, n_kept, tiles, n_tiles, t)
    for p in range(t, n_pairs, BLOCK):
        looked[2 * p] = pairs[p].build
        looked[2 * p + 1] = pairs[p].sibling
    for k in range(t, n_recheck, BLOCK):
        looked[2 * n_pairs + k] = recheck[k]
    cuda.syncthreads()
    write_limits(frontier, settings, n_pairs, looked, limits, 2 * n_pairs + n_recheck, t)


@kernel
def draw_allowed(
    nodes, trees, expand, pairs, recheck, free_slots,
    heap, need, rules, members, left_codes, state,
    params, looked, counts, features, hashes, allowed,
):  # fmt: skip
    """Draw the features that each node may use, a node a thread; each thread has a line of the
    scratch arrays ``features`` and ``hashes``."""
    frontier = frontier_of(
        nodes, trees, expand, pairs, recheck, free_slots,
        heap, need, rules, members, left_codes, state,
    )  # fmt: skip
    settings = params_of(params)
    thread = cuda.grid(1)
    if thread < features.shape[0]:
        k = i64(thread)
        while k < counts[N_LOOKED]:
            if looked[k] >= 0:
                draw_for_node(frontier, settings, looked[k], features, hashes, allowed, thread, k)
            k += features.shape[0]


if is_simulated():
    from ...runtime.cuda.simulator import unwrapped

    def draw_for_node(frontier, settings, x, features, hashes, allowed, thread, k):
        """On the NumPy arrays behind the simulator's."""
        lines = (unwrapped(features)[thread], unwrapped(hashes)[thread], unwrapped(allowed)[k])
        allow_features(frontier, settings, x, *lines)

else:

    @device_function
    def draw_for_node(frontier, settings, x, features, hashes, allowed, thread, k):
        """Fill line ``k`` of ``allowed``."""
        allow_features(frontier, settings, x, features[thread], hashes[thread], allowed[k])


@kernel
def choose_nodes(
    nodes, trees, expand, pairs, recheck, free_slots,
    heap, need, rules, members, left_codes, state,
    params, tiles, first_tile, filled, looked, scores, counts,
):  # fmt: skip
    """Note the best splits, choose the nodes to open, and plan their partition."""
    if cuda.blockIdx.x > 0:
        return
    t = cuda.threadIdx.x
    sums = cuda.shared.array(BLOCK, np.int64)
    if counts[IS_DONE] != 0:
        return
    frontier = frontier_of(
        nodes, trees, expand, pairs, recheck, free_slots,
        heap, need, rules, members, left_codes, state,
    )  # fmt: skip
    settings = params_of(params)
    n_looked = counts[N_LOOKED]
    for k in range(t, n_looked, BLOCK):
        if looked[k] >= 0:
            take_gain(frontier, settings, looked[k], scores[k])
    cuda.syncthreads()
    for tree in range(tree_of_thread(t), trees.shape[0], BLOCK):
        simulate(frontier, settings, tree)
    cuda.syncthreads()
    if t == 0:
        for k in range(n_looked):
            if looked[k] >= 0 and not nodes[looked[k]].gain > fr.NO_GAIN:
                release(frontier, looked[k])
        state[fr.N_RECHECK] = 0
        state[fr.N_PAIRS] = 0
        counts[N_LOOKED] = 0
        open_needed(frontier, settings)
    cuda.syncthreads()
    n = state[fr.N_EXPAND]
    for k in range(t, n, BLOCK):
        looked[k] = expand[k].node
        filled[2 * k] = 0
        filled[2 * k + 1] = 0
    cuda.syncthreads()
    n_tiles = count_tiles(nodes, looked, n, i64(PARTITION_TILE), first_tile, sums, t)
    write_tiles(nodes, looked, n, first_tile, i64(PARTITION_TILE), tiles, t)
    if t == 0:
        counts[N_TILES] = n_tiles
        if n == 0:
            counts[IS_DONE] = 1


if is_simulated():

    def number_tree(frontier, tree):
        """Number the leaves of a tree; its part of the heap, which is empty now, lists nodes."""
        number_nodes(frontier, tree, frontier.heap, frontier.trees[tree]["first"])

else:

    @device_function
    def number_tree(frontier, tree):
        """Number the leaves of a tree; its part of the heap, which is empty now, lists nodes."""
        number_nodes(frontier, tree, frontier.heap, frontier.trees[tree].first)


@kernel
def number_leaves(
    nodes, trees, expand, pairs, recheck, free_slots,
    heap, need, rules, members, left_codes, state,
    params, tiles, first_tile, counts, least_rows, n_shares,
):  # fmt: skip
    """Number the leaves of the trees when growth is done, and plan the tiles of the rows in
    closed nodes. ``recheck``, which is empty by then, lists these nodes."""
    if cuda.blockIdx.x > 0:
        return
    t = cuda.threadIdx.x
    sums = cuda.shared.array(BLOCK, np.int64)
    n_closed = cuda.shared.array(1, np.int32)
    if counts[IS_DONE] == 0:
        if t == 0:
            counts[N_TILES] = 0
        return
    if t == 0:
        n_closed[0] = 0
    frontier = frontier_of(
        nodes, trees, expand, pairs, recheck, free_slots,
        heap, need, rules, members, left_codes, state,
    )  # fmt: skip
    settings = params_of(params)
    for x in range(t, state[fr.N_NODES], BLOCK):
        forget_choice(frontier, settings, x)
    cuda.syncthreads()
    for tree in range(tree_of_thread(t), trees.shape[0], BLOCK):
        simulate(frontier, settings, tree)
        number_tree(frontier, tree)
    cuda.syncthreads()
    for x in range(t, state[fr.N_NODES], BLOCK):
        inherit_leaf(frontier, x)
        if nodes[x].child < 0:
            recheck[cuda.atomic.add(n_closed, 0, np.int32(1))] = x
    cuda.syncthreads()
    n = i64(n_closed[0])
    size = fair_size(nodes, recheck, n, least_rows, n_shares, sums, t)
    n_tiles = count_tiles(nodes, recheck, n, size, first_tile, sums, t)
    write_tiles(nodes, recheck, n, first_tile, size, tiles, t)
    if t == 0:
        counts[N_TILES] = n_tiles
