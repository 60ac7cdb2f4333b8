"""The decisions that one block makes between the launches over rows, all of them on the device.

The threads of the first block share the work on nodes, trees and tiles; they find by sums over the
block (``block.before``) where each writes its results. Formulas, and what becomes of one node, are
those of the control of growth (``kernels.growth.control``), compiled for the device. Which nodes
a round opens is decided on the device (``choosing``), and so are the numbers of nodes: the trees
that result do not depend on either.

Every table is an argument of its own, and all control kernels take the same.
"""

from __future__ import annotations

import numpy as np

from ...runtime.cuda.loops import rolled
from ...runtime.cuda.narrow import narrow
from ...runtime.cuda.target import cuda, device_function, is_simulated, kernel
from .. import control as growth_control
from .. import frontier as fr
from .. import limits as growth_limits
from .best import give_back
from .block import BLOCK, before, control, number_trees, share_of
from .plan import (
    address_tiles,
    can_split,
    count_tiles,
    fair_size,
    plan_counts,
    write_limits,
    write_tiles,
)
from .tables import (
    IS_DONE,
    N_CLEARED,
    N_CLEARED_COUNTS,
    N_COUNTED,
    N_LOOKED,
    N_REST,
    N_TILES,
    SIDE,
    frontier_of,
    params_of,
    tables_of,
)

i32, i64, u32 = np.int32, np.int64, np.uint32

PIECE = 4 * BLOCK
"""Entries of a histogram that a block clears at a time."""

plant = control(growth_control.plant)
is_root_looked = control(growth_control.is_root_looked)
is_enough = control(growth_control.is_enough)
add_children = control(growth_control.add_children)
forget_choice = control(growth_control.forget_choice)
inherit_leaf = control(growth_control.inherit_leaf)
allow_features = control(growth_limits.allow_features)


@device_function
def plant_roots(frontier, params, x, totals, scales, sums, t):
    """Begin all trees. Those whose root may be split are the first pairs, in the first slots."""
    n_trees, n_slots = i64(x.trees.shape[0]), i64(x.free_slots.shape[0])
    # The roots, and a stack of free slots whose top is slot 0.
    for tree in rolled(range(t, n_trees, BLOCK)):
        own = x.trees[tree]
        own.g = totals[2 * tree]
        own.h = totals[2 * tree + 1]
        own.scale_g = scales[2 * tree]
        own.scale_h = scales[2 * tree + 1]
        plant(frontier, i64(tree))
        x.plans[tree].length = x.plans[tree].expanded = 0
        x.plans[tree].recheck_begin = x.plans[tree].recheck_end = 0
    for i in rolled(range(t, n_slots, BLOCK)):
        x.free_slots[i] = n_slots - 1 - i
    cuda.syncthreads()  # the roots are there
    # Pairs in the order of the trees: a thread has neighbouring trees, and learns from a sum
    # over the block where its pairs begin. Pair p gets slot p, as a stack would give it.
    begin, end = share_of(n_trees, t)
    own = i64(0)
    for tree in rolled(range(begin, end)):
        own += i64(is_root_looked(frontier, params_of(params, tree), tree))
    p, n_pairs = before(sums, own, t)
    for tree in rolled(range(begin, end)):
        x.plans[tree].pairs_begin = p
        if is_root_looked(frontier, params_of(params, tree), tree):
            x.nodes[tree].slot = p
            x.pairs[p].build = tree
            x.pairs[p].sibling = -1
            p += 1
        x.plans[tree].pairs_end = p
    cuda.syncthreads()  # the pairs are there
    if t == 0:
        x.state[fr.N_NODES] = n_trees
        x.state[fr.N_FREE_SLOTS] = n_slots - n_pairs
        x.state[fr.N_PAIRS] = n_pairs
        x.state[fr.N_EXPAND] = x.state[fr.N_RECHECK] = 0
        x.counts[N_REST] = x.counts[SIDE] = 0


@device_function
def tree_of(x, k, n):
    """Return the tree of entry k of n in ``expand``, -1 where k is not an entry. Entries of a tree
    are adjacent if leaves are limited."""
    return x.nodes[x.expand[k].node].tree if 0 <= k < n else i64(-1)


@device_function
def part_expansions(frontier, params, x, n, sums, t):
    """Give children to the partitioned nodes that have enough rows on both sides, and list the
    others in ``recheck``. Return how many have got children."""
    # Neighbouring expansions for each thread, so that numbers follow their order as on the host.
    begin, end = share_of(n, t)
    own = i64(0)
    for k in rolled(range(begin, end)):
        x.expand[k].n_left = x.filled[2 * k]
        settings = params_of(params, x.nodes[x.expand[k].node].tree)
        own += i64(is_enough(frontier, settings, k))
    opened, n_opened = before(sums, own, t)
    n_nodes = x.state[fr.N_NODES]
    for k in rolled(range(begin, end)):
        node = x.expand[k].node
        tree = x.nodes[node].tree
        # Where leaves are limited, expansions of a tree are adjacent, and the thread with the first
        # or the last one stores where they are. Without a limit several threads store the entries
        # of a tree, which are not read then: a test for the limit would take two registers.
        plan = x.plans[tree]
        if tree_of(x, k - 1, n) != tree:
            plan.opened_begin = opened
            plan.recheck_begin = k - opened
        settings = params_of(params, tree)
        if is_enough(frontier, settings, k):
            add_children(frontier, settings, node, n_nodes + 2 * opened, x.expand[k].n_left)
            opened += 1
        else:
            x.recheck[k - opened] = node
        if tree_of(x, k + 1, n) != tree:
            plan.opened_end = opened
            plan.recheck_end = k + 1 - opened
    cuda.syncthreads()  # the children are there
    return n_opened


@device_function
def looked_children(frontier, params, x, k):
    """Return which children of an expansion are looked at: bit 0 is the left one's, bit 1 the
    right one's."""
    node = x.nodes[x.expand[k].node]
    left, settings = node.child, params_of(params, node.tree)
    found = i64(0)
    if left >= 0 and x.expand[k].closes == 0:
        for side in rolled(range(2)):
            if can_split(frontier, settings, left + side):
                found |= i64(1) << side
    return found


@device_function
def n_pairs_of(x, k, looked):
    """Return how many pairs the children of an expansion are, which of whom are ``looked`` at: none
    if neither is, one if their parent's histogram serves for a child, else one for each that is."""
    n = (looked & 1) + (looked >> 1)
    return min(n, i64(1)) if x.nodes[x.expand[k].node].slot >= 0 else n


@device_function
def pair_children(x, k, looked, p, free):
    """Write the pairs of an expansion from the p-th on; the first pairs get the uppermost free
    slots. Where the parent has a slot, the larger child inherits it and the smaller one is
    built."""
    node = x.nodes[x.expand[k].node]
    n_left = x.expand[k].n_left
    inherits = node.slot >= 0
    if inherits:
        looked = i64(1) if n_left <= node.end - node.begin - n_left else i64(2)
    for side in rolled(range(2)):
        if (looked >> side) & 1 != 0:
            build, sibling = node.child + side, i64(-1)
            if inherits:
                sibling = node.child + 1 - side
                x.nodes[sibling].slot = node.slot
            x.nodes[build].slot = x.free_slots[free - 1 - p]
            x.pairs[p].build = build
            x.pairs[p].sibling = sibling
            p += 1
    if inherits:
        node.slot = -1


@device_function
def commit(frontier, params, x, sums, top, t):
    """Turn the partitioned nodes into parents (see ``kernels.growth.control.commit``).

    First their children are made, then it is found which of these are looked at and how many pairs
    that gives, then the pairs are written, and last the slots of parents come back whose children
    are not looked at.
    """
    # Both counts are read before any thread may change them, at the very end.
    n, free = x.state[fr.N_EXPAND], x.state[fr.N_FREE_SLOTS]
    for tree in rolled(range(t, x.trees.shape[0], BLOCK)):
        plan = x.plans[tree]
        plan.pairs_begin = plan.pairs_end = plan.recheck_begin = plan.recheck_end = 0
        plan.opened_begin = plan.opened_end = 0
    n_opened = part_expansions(frontier, params, x, n, sums, t)
    # Which children are looked at, and so how many pairs come before those of this thread.
    begin, end = share_of(n, t)
    own = i64(0)
    for k in rolled(range(begin, end)):
        looked = looked_children(frontier, params, x, k)
        x.filled[2 * k + 1] = looked  # until the next partition is planned
        own += n_pairs_of(x, k, looked)
    p, n_pairs = before(sums, own, t)
    for k in rolled(range(begin, end)):
        tree = x.nodes[x.expand[k].node].tree
        looked = x.filled[2 * k + 1]
        if tree_of(x, k - 1, n) != tree:
            x.plans[tree].pairs_begin = p
        n_own = n_pairs_of(x, k, looked)
        if n_own > 0:
            pair_children(x, k, looked, p, free)
        p += n_own
        if tree_of(x, k + 1, n) != tree:
            x.plans[tree].pairs_end = p
    if t == 0:
        top[0] = i32(free - n_pairs)
    cuda.syncthreads()  # all pairs have their slots: others may come back
    for k in rolled(range(begin, end)):  # no child is looked at
        if x.nodes[x.expand[k].node].child >= 0:
            give_back(x, x.expand[k].node, top)
    for tree in rolled(range(t, x.trees.shape[0], BLOCK)):
        x.plans[tree].expanded += x.plans[tree].opened_end - x.plans[tree].opened_begin
    cuda.syncthreads()  # ``top`` is final, and all have read ``state``
    if t == 0:
        x.state[fr.N_NODES] += 2 * n_opened
        x.state[fr.N_RECHECK] = n - n_opened
        x.state[fr.N_PAIRS] = n_pairs
        x.state[fr.N_FREE_SLOTS] = top[0]
        x.state[fr.N_EXPAND] = 0


@device_function
def plan_histograms(frontier, params, x, sums, counted, least_rows, share, least, t):
    """Plan the histograms of new nodes and of those to recheck, and the search for their
    splits."""
    n_kept = i64(x.free_slots.shape[0])
    n_pairs, n_recheck = x.state[fr.N_PAIRS], x.state[fr.N_RECHECK]
    n_looked = 2 * n_pairs + n_recheck
    for p in rolled(range(t, n_pairs, BLOCK)):  # first the nodes to build, for the tiles
        x.looked[p] = x.pairs[p].build
    n_counted = plan_counts(
        x.nodes, x.recheck, n_pairs, n_recheck, least, n_kept, x.looked, x.limits, counted, t
    )
    n_built = n_pairs + n_counted
    # Tiles of their rows; each belongs to a histogram, by its slot.
    size = fair_size(x.nodes, x.looked, n_built, least_rows, share, sums, t)
    n_tiles = count_tiles(x.nodes, x.looked, n_built, size, x.first_tile, sums, t)
    write_tiles(x.nodes, x.looked, n_built, x.first_tile, n_tiles, size, x.tiles, t)
    address_tiles(x.nodes, x.looked, n_pairs, n_kept, x.tiles, n_tiles, t)
    for p in rolled(range(t, n_pairs, BLOCK)):
        # For the search: both nodes of each pair, then those to recheck.
        x.looked[2 * p] = x.pairs[p].build
        x.looked[2 * p + 1] = x.pairs[p].sibling
    for k in rolled(range(t, n_recheck, BLOCK)):
        x.looked[2 * n_pairs + k] = x.recheck[k]
    if t == 0:
        x.counts[N_TILES] = n_tiles
        x.counts[N_LOOKED] = n_looked
        x.counts[N_COUNTED] = n_counted
    cuda.syncthreads()  # ``looked`` is complete
    write_limits(frontier, x.nodes, params, n_pairs, x.looked, x.limits, n_looked, t)


@device_function
def clear(x, n, of_slots, n_counts, histograms, t):
    """Set histograms to zero, a piece at a time, in all blocks but the first one: n slots, the
    first ones where ``of_slots`` is 1, else those of ``cleared``; and the first ``n_counts``
    behind all slots, which ``plan_counts`` gives to nodes to recheck::

        histograms   | slots that growth keeps | sums, rows of a node | sums, rows of another | ...
    """
    size = i64(histograms.shape[1])
    pieces = max(u32((size + PIECE - 1) // PIECE), u32(1))
    n_items = (n + n_counts) * i64(pieces)
    # Block 0 is opening nodes meanwhile: the others count from 1.
    for item in rolled(range(i64(cuda.blockIdx.x) - 1, n_items, i64(cuda.gridDim.x) - 1)):
        k = i64(u32(item) // u32(pieces))
        first = (item - k * i64(pieces)) * PIECE
        slot = k
        # Histograms of nodes to recheck are behind all slots.
        if k >= n:
            slot = i64(x.free_slots.shape[0]) + k - n
        elif of_slots == 0:
            slot = x.cleared[k]
        entries = narrow(histograms[slot])
        for entry in rolled(range(first + t, min(first + PIECE, size), BLOCK)):
            entries[entry] = 0


@kernel
def open_roots(
    nodes, trees, expand, pairs, recheck, free_slots,
    heap, need, rules, members, left_codes, state,
    params, tiles, first_tile, filled, looked, limits, gaps, place, cleared, plans, counts,
    totals, scales, histograms, least_rows, share, least_counted,
):  # fmt: skip
    """Plant the roots; then plan their histograms and the search for their splits. Meanwhile the
    other blocks clear the histograms."""
    t = i64(cuda.threadIdx.x)
    x = tables_of(
        nodes, trees, expand, pairs, recheck, free_slots,
        heap, need, rules, members, left_codes, state,
        params, tiles, first_tile, filled, looked, limits, gaps, place, cleared, plans, counts,
    )  # fmt: skip
    if cuda.blockIdx.x > 0:
        clear(x, i64(x.trees.shape[0]), i64(1), i64(0), histograms, t)
        return
    sums = narrow(cuda.shared.array(BLOCK, np.int64))
    counted = cuda.shared.array(1, np.int32)
    frontier = frontier_of(
        nodes, trees, expand, pairs, recheck, free_slots,
        heap, need, rules, members, left_codes, state,
    )  # fmt: skip
    plant_roots(frontier, params, x, totals, scales, sums, t)
    cuda.syncthreads()  # the pairs are there
    plan_histograms(frontier, params, x, sums, counted, least_rows, share, least_counted, t)


@kernel
def open_nodes(
    nodes, trees, expand, pairs, recheck, free_slots,
    heap, need, rules, members, left_codes, state,
    params, tiles, first_tile, filled, looked, limits, gaps, place, cleared, plans, counts,
    histograms, least_rows, share, least_counted,
):  # fmt: skip
    """Turn partitioned nodes into parents; then plan the histograms of the new nodes and of those
    to recheck, and the search for their splits. Meanwhile the other blocks clear the
    histograms."""
    t = i64(cuda.threadIdx.x)
    x = tables_of(
        nodes, trees, expand, pairs, recheck, free_slots,
        heap, need, rules, members, left_codes, state,
        params, tiles, first_tile, filled, looked, limits, gaps, place, cleared, plans, counts,
    )  # fmt: skip
    if cuda.blockIdx.x > 0:
        clear(x, x.counts[N_CLEARED], i64(0), x.counts[N_CLEARED_COUNTS], histograms, t)
        return
    sums = narrow(cuda.shared.array(BLOCK, np.int64))
    top = cuda.shared.array(1, np.int32)
    frontier = frontier_of(
        nodes, trees, expand, pairs, recheck, free_slots,
        heap, need, rules, members, left_codes, state,
    )  # fmt: skip
    if x.state[fr.N_EXPAND] > 0:
        commit(frontier, params, x, sums, top, t)
    cuda.syncthreads()  # the children are there, and their pairs
    plan_histograms(frontier, params, x, sums, top, least_rows, share, least_counted, t)


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
    thread = cuda.grid(1)
    if thread < features.shape[0]:
        k = i64(thread)
        while k < counts[N_LOOKED]:
            if looked[k] >= 0:
                settings = params_of(params, nodes[looked[k]].tree)
                draw_for_node(frontier, settings, looked[k], features, hashes, allowed, thread, k)
            k += features.shape[0]


if is_simulated():
    from ...runtime.cuda.simulator import unwrapped

    def draw_for_node(frontier, settings, x, features, hashes, allowed, thread, k):
        """On the NumPy arrays behind the simulator's."""
        allow_features(
            frontier, settings, x,
            unwrapped(features)[thread], unwrapped(hashes)[thread], unwrapped(allowed)[k],
        )  # fmt: skip

else:

    @device_function
    def draw_for_node(frontier, settings, x, features, hashes, allowed, thread, k):
        """Fill line ``k`` of ``allowed``."""
        allow_features(frontier, settings, x, features[thread], hashes[thread], allowed[k])


@device_function
def mark_splits(x, params, t):
    """Mark the first nodes of the orders as chosen; without a limit of leaves orders are empty."""
    order = x.heap if x.counts[SIDE] == 0 else x.need
    for tree in rolled(range(x.trees.shape[0])):
        first, most_splits = x.trees[tree].first, params_of(params, tree).max_leaves - 1
        for at in rolled(range(t, min(x.plans[tree].length, most_splits), BLOCK)):
            x.nodes[order[first + at]].chosen = 1


@kernel
def number_leaves(
    nodes, trees, expand, pairs, recheck, free_slots,
    heap, need, rules, members, left_codes, state,
    params, tiles, first_tile, filled, looked, limits, gaps, place, cleared, plans, counts,
    least_rows, share,
):  # fmt: skip
    """Turn the nodes that were partitioned last into parents; if nothing is left to do, number
    the leaves of the trees and plan the tiles of the rows in closed nodes. ``recheck``, which is
    empty by then, lists these nodes."""
    if cuda.blockIdx.x > 0:
        return
    t = i64(cuda.threadIdx.x)
    sums = narrow(cuda.shared.array(BLOCK, np.int64))
    top = cuda.shared.array(1, np.int32)
    x = tables_of(
        nodes, trees, expand, pairs, recheck, free_slots,
        heap, need, rules, members, left_codes, state,
        params, tiles, first_tile, filled, looked, limits, gaps, place, cleared, plans, counts,
    )  # fmt: skip
    frontier = frontier_of(
        nodes, trees, expand, pairs, recheck, free_slots,
        heap, need, rules, members, left_codes, state,
    )  # fmt: skip
    if x.state[fr.N_EXPAND] > 0:
        commit(frontier, params, x, sums, top, t)
    cuda.syncthreads()  # ``state`` is that of the last round
    # Nothing to search, and no node with a split that waits for a slot or for another round.
    is_done = x.state[fr.N_PAIRS] == 0 and x.state[fr.N_RECHECK] == 0 and x.counts[N_REST] == 0
    if t == 0:
        x.counts[IS_DONE] = i64(is_done)
        x.counts[N_TILES] = 0
        top[0] = 0
    if not is_done:
        return
    # Number the leaves of the trees, without the nodes that were opened too early.
    for node in rolled(range(t, x.state[fr.N_NODES], BLOCK)):
        forget_choice(frontier, params_of(params, x.nodes[node].tree), i64(node))
    cuda.syncthreads()  # nothing is chosen any more
    mark_splits(x, params, t)
    number_trees(x, x.need if x.counts[SIDE] == 0 else x.heap, sums, t)
    for node in rolled(range(t, x.state[fr.N_NODES], BLOCK)):
        # A node that was opened too early has children, whose rows have the leaf that it is below.
        # All closed nodes are listed, in any order.
        inherit_leaf(frontier, i64(node))
        if x.nodes[node].child < 0:
            x.recheck[cuda.atomic.add(top, 0, i32(1))] = node
    cuda.syncthreads()  # the closed nodes are listed
    # Tiles of their rows, for ``scatter_closed``.
    n = i64(top[0])
    size = fair_size(x.nodes, x.recheck, n, least_rows, share, sums, t)
    n_tiles = count_tiles(x.nodes, x.recheck, n, size, x.first_tile, sums, t)
    write_tiles(x.nodes, x.recheck, n, x.first_tile, n_tiles, size, x.tiles, t)
    if t == 0:
        x.counts[N_TILES] = n_tiles
