"""Growth on a table that is larger than memory: the compiled phases between the passes over its
rows, which stay where they are. A pass routes the rows of the nodes that are opened, counts them,
and adds up the histogram of one child of each at the same time.

That child is the one of the smaller hessian, since how many rows it has is not known yet; the other
histogram is the parent's minus this one, and integers give the same sums either way. If the pass
finds that a child has fewer than ``min_samples_leaf`` rows, the parent stays closed, and another
pass counts its rows by their codes.

The CPU walks over the rows in groups (``groups``), a GPU by numbers in place of positions among the
records of a node (``kernels.growth.cuda.passes``)::

    row            0   1   2   3   4   5   6   7   8   9  ...
    number before  1   2   2   1   0   2   1   1   2   2       node 2 is opened: children 5 and 6
    number after   1   5   6   1   0   5   1   1   6   5       rows of 5 are added up
                       +               +               +

Both numbers stand for the parent where that stays closed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...runtime.compilation import inner, kernel_without_allocation
from ...runtime.cpu.team import wait
from ...runtime.dtypes import N_SLOTS
from .. import control
from .. import frontier as fr
from ..frontier import Frontier
from ..params import GrowthParams
from .histogram import add_used, clear_used, pack_planes
from .levels.dense import find_levels, settle
from .search import evaluate, recheck_known
from .tables import EVALUATE, RECHECK, Table, Work

i64 = np.int64

N_NUMBERS, N_SUMS, QUEUE = range(3)


class Walk(NamedTuple):
    """The arrays that a pass over the rows reads and writes.

    routes : ROUTE, one an expansion
    sets : uint32, shape (expansions, CODE_WORDS)
        The codes that go left.
    expansion_of, node_of : int32
        By number: the expansion of its rows, or -1, and their node.
    opened : int64
        By node: its expansion, or -1.
    sums_of : int64
        By node: the line of ``sums`` that its rows were added to, or -1.
    n_left : int64, shape (threads, expansions)
    sums : int64, shape (threads, lines, entries of a histogram)
    state : int64
        Numbers of entries, and the queue of groups.
    """

    routes: np.ndarray
    sets: np.ndarray
    expansion_of: np.ndarray
    node_of: np.ndarray
    opened: np.ndarray
    sums_of: np.ndarray
    n_left: np.ndarray
    sums: np.ndarray
    state: np.ndarray


class Growth(NamedTuple):
    """A tree that grows."""

    table: Table
    frontier: Frontier
    params: GrowthParams
    work: Work
    walk: Walk


@inner
def _plant(frontier, params, walk):
    """Begin a tree: every row is given number 0 by the first pass, which adds up all of them."""
    control.start(frontier, params)
    walk.node_of[0] = 0
    walk.expansion_of[0] = 0
    walk.state[N_NUMBERS] = 1
    walk.state[N_SUMS] = frontier.state[fr.N_PAIRS]
    # A route by which all rows go left, to number 0 again: the pass needs no case of its own.
    route = walk.routes[0]
    route.feature = 0
    route.bin = N_SLOTS - 1  # every code is left of it
    route.missing_left = 0
    route.number = 0
    route.left_sums = 0 if frontier.state[fr.N_PAIRS] > 0 else -1
    route.right_sums = -1
    walk.sums_of[0] = route.left_sums


@inner
def _plan(frontier, walk):
    """Give the children of the nodes to open their numbers and lines of sums. Nodes for which no
    line is left wait for the next round."""
    state = walk.state
    for x in range(frontier.state[fr.N_NODES]):
        walk.opened[x] = -1
    most = walk.sums.shape[1]
    n_sums = i64(0)
    for k in range(frontier.state[fr.N_EXPAND]):
        expansion = frontier.expand[k]
        node = frontier.nodes[expansion.node]
        # One histogram where the parent's gives the other one, none where the tree is complete.
        n_needed = 0 if expansion.closes == 1 else (1 if node.slot >= 0 else 2)
        if k > 0 and n_sums + n_needed > most:
            frontier.state[fr.N_EXPAND] = k
            break
        route = walk.routes[k]
        route.feature = node.feature
        route.bin = node.bin
        route.missing_left = node.missing_left
        if node.bin < 0:
            for w in range(walk.sets.shape[1]):
                walk.sets[k, w] = frontier.left_codes[expansion.node, w]
        # The lighter child, which most often has fewer rows: those are counted by the pass.
        is_left = node.left_h <= node.h - node.left_h
        route.left_sums = route.right_sums = -1
        if n_needed == 2 or (n_needed == 1 and is_left):
            route.left_sums = n_sums
            n_sums += 1
        if n_needed == 2 or (n_needed == 1 and not is_left):
            route.right_sums = n_sums
            n_sums += 1
        walk.opened[expansion.node] = k
    # Rows know numbers alone, of which a node that stayed closed has several.
    for number in range(state[N_NUMBERS]):
        walk.expansion_of[number] = walk.opened[walk.node_of[number]]
    for k in range(frontier.state[fr.N_EXPAND]):
        walk.routes[k].number = state[N_NUMBERS]
        state[N_NUMBERS] += 2
    state[N_SUMS] = n_sums


@inner
def _clear(thread, table, frontier, walk):
    """Clear this thread's sums and counts; a GPU that adds up has one line of them, for all."""
    slots = table.layout.column_slots
    if thread >= walk.sums.shape[0]:
        return
    for s in range(walk.state[N_SUMS]):
        line = walk.sums[thread, s]
        clear_used(slots, 0, slots.size, line, line)
    for k in range(max(frontier.state[fr.N_EXPAND], 1)):
        walk.n_left[thread, k] = 0


@kernel_without_allocation
def begin(thread, n_threads, barrier, table, frontier, params, work, walk):
    """Plant the root."""
    if thread == 0:
        _plant(frontier, params, walk)
    wait(barrier, n_threads)  # it is known how many sums there are
    _clear(thread, table, frontier, walk)


@inner
def put_summed_first(frontier, sums_of):
    """Make the node of each pair that was added up its first one; ``sums_of`` is -1 for others."""
    nodes = frontier.nodes
    for p in range(frontier.state[fr.N_PAIRS]):
        build, sibling = frontier.pairs[p].build, frontier.pairs[p].sibling
        if sibling >= 0 and sums_of[build] < 0:
            frontier.pairs[p].build, frontier.pairs[p].sibling = sibling, build
            slot = nodes[build].slot
            nodes[build].slot = nodes[sibling].slot
            nodes[sibling].slot = slot


@inner
def _commit(frontier, params, walk):
    """Turn the opened nodes into parents, or, where a child has too few rows, their numbers into
    those of the parent."""
    nodes = frontier.nodes
    for k in range(frontier.state[fr.N_EXPAND]):
        total = i64(0)
        for t in range(walk.n_left.shape[0]):
            total += walk.n_left[t, k]
        frontier.expand[k].n_left = total
    control.commit(frontier, params)
    for k in range(frontier.state[fr.N_EXPAND]):
        x, route = frontier.expand[k].node, walk.routes[k]
        child = nodes[x].child
        if child < 0:
            walk.node_of[route.number] = walk.node_of[route.number + 1] = x
            continue
        walk.node_of[route.number], walk.node_of[route.number + 1] = child, child + 1
        walk.sums_of[child], walk.sums_of[child + 1] = route.left_sums, route.right_sums
    put_summed_first(frontier, walk.sums_of)


@kernel_without_allocation
def pack_sums(thread, n_threads, barrier, table, planes, packed):
    """Pack the planes of histograms as a GPU adds them up, int32 of shape (n, 2, n_features, 256),
    each into a line of ``packed``."""
    for k in range(thread, planes.shape[0], n_threads):
        pack_planes(table.layout.column_slots, planes[k], packed[k])


@kernel_without_allocation
def close(thread, n_threads, barrier, table, frontier, params, work, walk, is_first):
    """End a pass: turn the opened nodes into parents, and join the sums of the threads."""
    slots = table.layout.column_slots
    if thread == 0:
        if not is_first:
            _commit(frontier, params, walk)
        work.counts[EVALUATE] = work.counts[RECHECK] = 0
    wait(barrier, n_threads)  # the pairs are those of the new nodes
    for p in range(thread, frontier.state[fr.N_PAIRS], n_threads):
        x = frontier.pairs[p].build
        # Each pair belongs to one thread, so that its sums are joined without a barrier.
        built = work.histograms[frontier.nodes[x].slot]
        clear_used(slots, 0, slots.size, built, built)
        for t in range(walk.sums.shape[0]):
            add_used(slots, 0, slots.size, built, walk.sums[t, walk.sums_of[x]])
        work.partial_range[p, 0] = work.partial_range[p, 1] = 0


@kernel_without_allocation
def decide(thread, n_threads, barrier, table, frontier, params, work, walk, packed, counts):
    """Find the splits of the new nodes and of those to recheck, and choose the nodes to open."""
    if params.is_symmetric == 1:
        find_levels(thread, n_threads, barrier, table, frontier, params, work)
    else:
        evaluate(thread, n_threads, table, frontier, params, work)
        recheck_known(thread, table, frontier, params, work, (packed, counts))
    wait(barrier, n_threads)  # all splits are known
    if thread == 0:
        settle(table, frontier, params, work)
        control.choose(frontier, params, i64(control.ALL))
        _plan(frontier, walk)
    wait(barrier, n_threads)  # it is known which lines are added up next
    _clear(thread, table, frontier, walk)


@kernel_without_allocation
def number_leaves(thread, n_threads, barrier, frontier, params, order, tree_offset):
    """Number the nodes of the final tree."""
    if thread == 0:
        control.finish(frontier, params, order, tree_offset)
