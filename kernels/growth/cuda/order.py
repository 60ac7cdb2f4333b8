"""The best-first order of growth with a limit of leaves, which a block keeps from round to round.

The order of a tree lists its nodes that have a split as best-first growth without a limit would
open them. The first ``max_leaves - 1`` of them are the splits of the tree as far as it is known,
and those among them without children are needed. A node stands behind its parent, and before
the first node there that it comes before by gain (``control.comes_before``). So the new nodes of
a round change nothing among the others, and their places, the gaps, are found independently; in
the same gap they stand in the order of their gains::

    order, by gains   9 5 7 4          7 is a child of 5
    arrivals          8, 6             children of 9 and of 5; gaps: before 5, before 4
    new order         9 8 5 7 6 4

A node that is rechecked leaves the order and arrives again with its new gain. Several threads
work on a tree, the block on as many trees as it can at a time.
"""

from __future__ import annotations

import numpy as np

from ...runtime.cuda.loops import rolled
from ...runtime.cuda.narrow import narrow
from ...runtime.cuda.target import cuda, device_function
from .. import control as growth_control
from .. import frontier as fr
from .block import before, before_in_group, control, share_of
from .tables import params_of

i32, i64 = np.int32, np.int64

comes_before = control(growth_control.comes_before)
NEVER = i64(2**62)
"""The gap of a node that does not arrive: it has no split."""
ALL_OF_FEW = 8
"""Needed nodes that are opened all together."""
SLOTS = i64(0xFFFFFFFF)
"""The slots in a number of slots and nodes."""
FREE, OPENED, TAKEN, REST, COUNTED, N_TALLY = range(6)
"""Entries of the ``tally`` that the threads share while they choose: free slots; nodes to open, and
the slots of their children; whether nodes wait for another round; histograms that may be needed
to recheck nodes."""


@device_function
def arrival(x, plan, j):
    """Return the entry of ``looked`` of arrival j of a tree: those of its pairs, then those of
    nodes to recheck."""
    n_of_pairs = 2 * (plan.pairs_end - plan.pairs_begin)
    if j < n_of_pairs:
        return 2 * plan.pairs_begin + j
    return 2 * x.state[fr.N_PAIRS] + plan.recheck_begin + j - n_of_pairs


@device_function
def n_arrivals(plan):
    return 2 * (plan.pairs_end - plan.pairs_begin) + plan.recheck_end - plan.recheck_begin


@device_function
def arrives(x, k):
    """Return whether an entry of ``looked`` is a node with a split."""
    if x.looked[k] < 0:
        return False
    return x.nodes[x.looked[k]].gain > fr.NO_GAIN


@device_function
def leave(x, order, tree, lane, width):
    """Take rechecked nodes out of the order, and put their former places into ``recheck``."""
    plan = x.plans[tree]
    first = x.trees[tree].first
    for r in rolled(range(plan.recheck_begin + lane, plan.recheck_end, width)):
        at = x.place[x.recheck[r]]
        order[at] = -1
        x.recheck[r] = at
    # An arrival without anything that it comes before is last.
    gaps = narrow(x.gaps)
    for j in rolled(range(lane, n_arrivals(plan), width)):
        k = arrival(x, plan, j)
        gaps[k] = first + plan.length if arrives(x, k) else NEVER


@device_function
def find_gaps(frontier, x, order, tree, lane, width):
    """Find the gap of each arrival; the threads of a tree share the places to look at."""
    plan = x.plans[tree]
    first = x.trees[tree].first
    end = first + plan.length
    n = n_arrivals(plan)
    # Threads that are left over look at every second, fourth … place of the same arrival.
    power = i64(0)  # of two threads an arrival
    while 0 < (n << (power + 1)) <= width:
        power += 1
    shared = i64(1) << power
    for j in rolled(range(lane >> power, n, width >> power)):
        k = arrival(x, plan, j)
        if arrives(x, k):
            node = x.looked[k]
            # Best-first growth opens it after its parent, however large its gain is.
            parent = x.nodes[node].parent
            at = first if parent < 0 else x.place[parent] + 1
            at += lane & (shared - 1)
            while at < end:
                other = order[at]
                if other >= 0 and comes_before(frontier.nodes, node, other):
                    # Threads that share the arrival may find later places: the first one counts.
                    cuda.atomic.min(x.gaps, k, at)
                    break
                at += shared


@device_function
def n_left_before(x, plan, at):
    """Return how many rechecked nodes were before a place."""
    n = i64(0)
    for r in rolled(range(plan.recheck_begin, plan.recheck_end)):
        if x.recheck[r] < at:
            n += 1
    return n


@device_function
def n_ahead(frontier, x, plan, gap, node, k):
    """Return how many arrivals come before a node: before entry k of ``looked``, which arrives at
    the gap, or before the node behind the gap, where k is -1."""
    gaps = narrow(x.gaps)
    n = i64(0)
    for j in rolled(range(n_arrivals(plan))):
        other = arrival(x, plan, j)
        if gaps[other] < gap:
            n += 1
        elif gaps[other] == gap and other != k:
            if k < 0 or comes_before(frontier.nodes, x.looked[other], node):
                n += 1
    return n


@device_function
def merge(frontier, x, order, target, tree, lane, width):
    """Write the new order of a tree to ``target``: the places of the old one, and then the
    arrivals, in turn by its threads. Return by how much this thread has made it longer."""
    plan = x.plans[tree]
    first = x.trees[tree].first
    longer = i64(0) if lane > 0 else plan.recheck_begin - plan.recheck_end
    for i in rolled(range(lane, plan.length + n_arrivals(plan), width)):
        k, gap = i64(-1), first + i
        if i >= plan.length:
            k = arrival(x, plan, i - plan.length)
            gap = narrow(x.gaps)[k]
        # A place whose node was rechecked is a hole, an arrival without a split never arrives.
        node = i64(-1)
        if gap != NEVER:
            node = order[gap] if k < 0 else x.looked[k]
        if node >= 0:
            # Found without the other threads: places before this one, less holes, plus arrivals.
            to = gap - n_left_before(x, plan, gap) + n_ahead(frontier, x, plan, gap, node, k)
            target[to] = node
            x.place[node] = to
            longer += i64(k >= 0)
    return longer


@device_function
def update_order(frontier, x, order, target, tree, lane, width, sums, t):
    """Let the arrivals of a round into the order of a tree."""
    is_tree = tree < x.trees.shape[0]
    if is_tree:
        leave(x, order, tree, lane, width)
    cuda.syncthreads()  # the order has its holes, and every arrival the last gap
    if is_tree:
        find_gaps(frontier, x, order, tree, lane, width)
    cuda.syncthreads()  # the gaps are final
    longer = i64(0)
    if is_tree:
        longer = merge(frontier, x, order, target, tree, lane, width)
    _, change = before_in_group(sums, longer, t, width)
    if is_tree and lane == 0:
        plan = x.plans[tree]
        plan.length += change
        plan.pairs_begin = plan.pairs_end = plan.recheck_begin = plan.recheck_end = 0


@device_function
def most_opened(n_need, expanded, most_splits):
    """Return how many of a tree's needed nodes a round opens.

    The later ones of many may no longer be needed when the others have children; three of four
    are. Speculation stops when a tree has opened twice the nodes that it may have; from then on
    only the first needed node is opened, which is certain to belong to the tree.
    """
    n = n_need if n_need <= ALL_OF_FEW else n_need - (n_need >> 2)
    return min(n_need, max(i64(1), min(n, 2 * most_splits - expanded)))


@device_function
def slots_needed(x, node):
    """Return the slots that a node's children take, with its count of 1 in the high half."""
    return (i64(1) << i64(32)) + (i64(1) if x.nodes[node].slot >= 0 else i64(2))


@device_function
def open_node(x, node, packed, closes, tally):
    """Add a node to ``expand`` if there are slots; ``packed`` counts nodes and slots up to it."""
    if (packed & SLOTS) <= tally[FREE]:
        entry = x.expand[(packed >> i64(32)) - 1]
        entry.node = node
        entry.closes = closes
        cuda.atomic.add(tally, OPENED, i32(1))
        cuda.atomic.add(tally, TAKEN, i32(slots_needed(x, node) & SLOTS))


@device_function
def open_in_order(x, params, order, tree, lane, power, others, tally, sums, t):
    """Add the first needed nodes of a tree to ``expand``, behind those of the trees before, as
    long as there are slots.

    Parameters
    ----------
    power : int
        The tree has ``2**power`` threads.
    others : int
        Slots (low half) and nodes of the trees before.
    tally : int32, shared

    Returns
    -------
    int
        ``others`` with those of this tree, and of the others that the block works on.
    """
    most_splits = first = n_splits = i64(0)
    if tree < x.trees.shape[0]:
        most_splits = params_of(params, tree).max_leaves - 1
        first = x.trees[tree].first
        n_splits = min(x.plans[tree].length, most_splits)
    # How many needed nodes there are before those of this thread.
    width = i64(1) << power
    share = (n_splits + width - 1) >> power
    begin = first + min(lane * share, n_splits)
    end = min(begin + share, first + n_splits)
    own = i64(0)
    for at in rolled(range(begin, end)):
        own += i64(x.nodes[order[at]].child < 0)
    rank, n_need = before_in_group(sums, own, t, width)
    n_open = closes = i64(0)
    if n_need > 0:
        n_open = most_opened(n_need, x.plans[tree].expanded, most_splits)
        if lane == 0 and n_open < n_need:
            cuda.atomic.add(tally, REST, i32(1))
        # The tree is complete only if its last split is opened: a child of one before may beat it.
        needs_last = x.nodes[order[first + n_splits - 1]].child < 0
        closes = i64(n_need == 1 and needs_last and n_splits == most_splits)
    own = i64(0)
    # How many slots they take, of this tree and those before: the sum decides who gets any.
    number = rank
    for at in rolled(range(begin, end)):
        if x.nodes[order[at]].child < 0:
            if number < n_open:
                own += slots_needed(x, order[at])
            number += 1
    packed, total = before(sums, own, t)
    packed += others
    for at in rolled(range(begin, end)):
        if x.nodes[order[at]].child < 0:
            if rank < n_open:
                packed += slots_needed(x, order[at])
                open_node(x, order[at], packed, closes, tally)
            rank += 1
    return others + total


@device_function
def open_all(x, tally, sums, t):
    """Add all nodes that have a split and no children to ``expand``, as long as there are slots,
    and return their slots (low half) and their number. Without a limit there is no order."""
    begin, end = share_of(x.state[fr.N_NODES], t)
    own = i64(0)
    for node in rolled(range(begin, end)):
        if x.nodes[node].child < 0 and x.nodes[node].gain > fr.NO_GAIN:
            own += slots_needed(x, node)
    packed, total = before(sums, own, t)
    for node in rolled(range(begin, end)):
        if x.nodes[node].child < 0 and x.nodes[node].gain > fr.NO_GAIN:
            packed += slots_needed(x, node)
            open_node(x, node, packed, i64(0), tally)
    return total
