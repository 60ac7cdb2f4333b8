"""What one block decides between the launches over rows, all of it on the device.

``kernels.frontier``, the control of growth, is compiled for the device as it is; its only thread
is the first one of the first block. The others of this block help to write the plan of the next
launch: the tiles of rows that its blocks take in turn. Further blocks, without which Numba would
warn, have nothing to do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import frontier as fr
from ..compilation import callable_from_python
from ..dtypes import NUMERIC
from .growth_tables import IS_DONE, N_LOOKED, N_TILES, frontier_of, params_of
from .partition import TILE as PARTITION_TILE
from .target import block_size, cuda, device_function, is_simulated, kernel

i64, u64 = np.int64, np.uint64

BLOCK = block_size(128)
ROWS_BLOCK = block_size(256)


def control(function: Any) -> Any:
    """A function of ``frontier`` as a kernel calls it."""
    return callable_from_python(function) if is_simulated() else function


start = control(fr.start)
choose = control(fr.choose)
commit = control(fr.commit)
settle = control(fr.settle)
finish = control(fr.finish)
can_split = control(fr.can_split)
least_h = control(fr.least_h)
l2_of = control(fr.l2_of)
category_least_h = control(fr.category_least_h)
category_l2 = control(fr.category_l2)
category_smoothing = control(fr.category_smoothing)
allow_features = control(fr.allow_features)


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
def count_tiles(nodes, of, n, size, first_tile):
    """Fill ``first_tile``; the number of all tiles."""
    total = i64(0)
    for k in range(n):
        node = nodes[of[k]]
        first_tile[k] = total
        total += (node.end - node.begin + size - 1) // size
    first_tile[n] = total
    return total


@device_function
def fair_size(nodes, of, n, least, n_shares):
    """Rows of a tile if every block is to have about as many."""
    rows = i64(0)
    for k in range(n):
        rows += nodes[of[k]].end - nodes[of[k]].begin
    return max(i64(least), rows // n_shares + 1)


@kernel
def open_nodes(
    nodes,
    trees,
    expand,
    pairs,
    recheck,
    free_slots,
    heap,
    need,
    rules,
    members,
    left_codes,
    state,
    params,
    sums,
    scales,
    tiles,
    first_tile,
    filled,
    looked,
    limits,
    counts,
    is_first,
    least_rows,
    n_shares,
):
    """Plant the roots, or turn partitioned nodes into parents; then plan the histograms of the
    new nodes and the search for their splits."""
    if cuda.blockIdx.x > 0:
        return
    t = cuda.threadIdx.x
    size = cuda.shared.array(1, np.int64)
    frontier = frontier_of(
        nodes, trees, expand, pairs, recheck, free_slots, heap, need, rules, members, left_codes,
        state,
    )  # fmt: skip
    settings = params_of(params)
    if t == 0:
        if is_first != 0:
            for tree in range(trees.shape[0]):
                trees[tree].g = sums[2 * tree]
                trees[tree].h = sums[2 * tree + 1]
                trees[tree].scale_g = scales[2 * tree]
                trees[tree].scale_h = scales[2 * tree + 1]
            counts[IS_DONE] = 0
            start(frontier, settings)
        elif counts[IS_DONE] == 0:
            for k in range(state[fr.N_EXPAND]):
                expand[k].n_left = filled[2 * k]
            commit(frontier, settings)
        n_pairs = state[fr.N_PAIRS]
        for p in range(n_pairs):  # first the nodes to build, for the tiles
            looked[p] = pairs[p].build
        size[0] = fair_size(nodes, looked, n_pairs, least_rows, n_shares)
        counts[N_TILES] = count_tiles(nodes, looked, n_pairs, size[0], first_tile)
        counts[N_LOOKED] = 2 * n_pairs + state[fr.N_RECHECK]
    cuda.syncthreads()
    n_pairs = state[fr.N_PAIRS]
    write_tiles(nodes, looked, n_pairs, True, first_tile, size[0], tiles, t)
    cuda.syncthreads()
    for p in range(t, n_pairs, BLOCK):
        looked[2 * p] = pairs[p].build
        looked[2 * p + 1] = pairs[p].sibling
    for k in range(t, state[fr.N_RECHECK], BLOCK):
        looked[2 * n_pairs + k] = recheck[k]
    cuda.syncthreads()
    for k in range(t, counts[N_LOOKED], BLOCK):
        x = looked[k]
        limit = limits[k]
        limit.wanted = 0
        if x >= 0:
            if k >= 2 * n_pairs or can_split(frontier, settings, x):
                limit.wanted = 1
            limit.least_h = least_h(frontier, settings, x)
            limit.l2 = l2_of(frontier, settings, x)
            limit.category_least_h = category_least_h(frontier, settings, x)
            limit.category_l2 = category_l2(frontier, settings, x)
            limit.smoothing = category_smoothing(frontier, settings, x)


@kernel
def draw_allowed(
    nodes,
    trees,
    expand,
    pairs,
    recheck,
    free_slots,
    heap,
    need,
    rules,
    members,
    left_codes,
    state,
    params,
    looked,
    counts,
    features,
    hashes,
    allowed,
):
    """The features that each node may use, a node a thread; a line of the scratch arrays
    ``features`` and ``hashes`` is a thread's own."""
    frontier = frontier_of(
        nodes, trees, expand, pairs, recheck, free_slots, heap, need, rules, members, left_codes,
        state,
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
    from .simulator import unwrapped

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
    nodes,
    trees,
    expand,
    pairs,
    recheck,
    free_slots,
    heap,
    need,
    rules,
    members,
    left_codes,
    state,
    params,
    tiles,
    first_tile,
    filled,
    looked,
    scores,
    counts,
):
    """Take note of the best splits, choose the nodes to open, and plan their partition."""
    if cuda.blockIdx.x > 0:
        return
    t = cuda.threadIdx.x
    if counts[IS_DONE] == 0:
        if t == 0:
            frontier = frontier_of(
                nodes, trees, expand, pairs, recheck, free_slots, heap, need, rules, members,
                left_codes, state,
            )  # fmt: skip
            settings = params_of(params)
            for k in range(counts[N_LOOKED]):
                if looked[k] >= 0:
                    settle(frontier, settings, looked[k], scores[k])
            state[fr.N_RECHECK] = 0
            state[fr.N_PAIRS] = 0
            counts[N_LOOKED] = 0
            n = choose(frontier, settings)
            for k in range(n):
                looked[k] = expand[k].node
            counts[N_TILES] = count_tiles(nodes, looked, n, i64(PARTITION_TILE), first_tile)
        cuda.syncthreads()
        n = state[fr.N_EXPAND]
        for k in range(t, n, BLOCK):
            filled[2 * k] = 0
            filled[2 * k + 1] = 0
        write_tiles(nodes, looked, n, False, first_tile, i64(PARTITION_TILE), tiles, t)
        cuda.syncthreads()
        if t == 0 and n == 0:
            counts[IS_DONE] = 1


@kernel
def number_leaves(
    nodes,
    trees,
    expand,
    pairs,
    recheck,
    free_slots,
    heap,
    need,
    rules,
    members,
    left_codes,
    state,
    params,
    tiles,
    first_tile,
    counts,
    least_rows,
    n_shares,
):
    """When growth is done, number the leaves of the trees, and plan the tiles of the rows in closed
    nodes. ``recheck``, which is empty then, lists these."""
    if cuda.blockIdx.x > 0:
        return
    t = cuda.threadIdx.x
    size = cuda.shared.array(1, np.int64)
    closed = cuda.shared.array(1, np.int64)
    if t == 0:
        closed[0] = 0
        counts[N_TILES] = 0
    if t == 0 and counts[IS_DONE] != 0:
        frontier = frontier_of(
            nodes, trees, expand, pairs, recheck, free_slots, heap, need, rules, members,
            left_codes, state,
        )  # fmt: skip
        finish_trees(frontier, params_of(params), recheck, first_tile)
        n = i64(0)
        for x in range(state[fr.N_NODES]):
            if nodes[x].child < 0:
                recheck[n] = x
                n += 1
        closed[0] = n
        size[0] = fair_size(nodes, recheck, n, least_rows, n_shares)
        counts[N_TILES] = count_tiles(nodes, recheck, n, size[0], first_tile)
    cuda.syncthreads()
    write_tiles(nodes, recheck, closed[0], False, first_tile, size[0], tiles, t)


if is_simulated():

    def finish_trees(frontier, settings, order, offset):
        """On the NumPy arrays behind the simulator's."""
        finish(frontier, settings, unwrapped(order), unwrapped(offset))

else:
    finish_trees = finish


def has_categories(rules: np.ndarray) -> bool:
    """Whether a feature of the host's ``rules`` is split by categories."""
    return bool((rules["kind"] != NUMERIC).any())
