"""Which nodes a growing batch of trees expands next.

Best-first growth opens one leaf at a time, which leaves threads and GPUs idle. Here each
round *simulates* the best-first order over the nodes whose split is known; the nodes that the
order wants opened but whose children are not known yet are the round's work, the first half of
them at once. The tree that comes out is exactly the best-first tree: a node that was opened
too early is closed again at the end (``growth_numbering``).

    round 1   need: root                     expand: root
    round 2   need: A B                      expand: A B
    round 3   need: B1 A2 B2 A1              expand: B1 A2       (their children may
    round 4   need: B1b A1 B1a B2            expand: B1b A1       beat B2 and A1)
"""

from __future__ import annotations

import numpy as np

from ..runtime.compilation import inner
from .frontier import N_EXPAND, N_FREE_SLOTS, N_NODES, NO_GAIN
from .nodes import release
from .params import UNLIMITED

LARGE_TREE = 200_000
"""Rows from which on a needless expansion costs more than another round."""


@inner
def choose(frontier, params):
    """Fill ``expand`` with the nodes of the next round; their number, 0 when all is done."""
    for t in range(frontier.trees.size):
        simulate(frontier, params, t)
    return open_needed(frontier, params)


@inner
def simulate(frontier, params, t):
    """Walk the best-first order of tree t over the known splits.

    Fills the tree's part of ``need`` with the nodes that it opens and whose children are unknown,
    marks the others as ``chosen``, and takes note of the numbers of needed nodes and of splits,
    and of whether the last split is a needed node's. Trees without a limit open every node that
    has a split: they need no order.
    """
    if params.max_leaves == UNLIMITED:
        return
    nodes, heap = frontier.nodes, frontier.heap
    tree = frontier.trees[t]
    first = tree.first
    size = _push(heap, first, np.int64(0), nodes, np.int64(t))
    n_splits = 0
    n_need = 0
    needs_last = False
    while size > 0 and n_splits < params.max_leaves - 1:
        x = heap[first]
        size = _pop(heap, first, size, nodes)
        n_splits += 1
        child = nodes[x].child
        needs_last = child < 0
        if needs_last:
            frontier.need[first + n_need] = x
            n_need += 1
        else:
            nodes[x].chosen = 1
            size = _push(heap, first, size, nodes, child)
            size = _push(heap, first, size, nodes, child + 1)
    tree.n_need = n_need
    tree.n_splits = n_splits
    tree.needs_last = 1 if needs_last else 0


@inner
def open_needed(frontier, params):
    """The same after the simulations.

    Speculation stops when a tree has opened twice the nodes that it needs; from then on only
    the first needed node is opened, which is certain to belong to the tree.
    """
    state = frontier.state
    state[N_EXPAND] = 0
    slots_left = state[N_FREE_SLOTS]
    if params.max_leaves == UNLIMITED:
        for x in range(state[N_NODES]):
            if frontier.nodes[x].child < 0 and frontier.nodes[x].gain > NO_GAIN:
                slots_left = _open(frontier, np.int64(x), np.int64(0), slots_left)
                if slots_left < 0:
                    break
        return state[N_EXPAND]
    for t in range(frontier.trees.size):
        tree = frontier.trees[t]
        n_need = n_open = tree.n_need
        if n_need > 2:
            large = tree.end - tree.begin >= LARGE_TREE
            n_open = (n_need + 3) >> 2 if large else (n_need + 1) >> 1
            if tree.expanded + n_open > 2 * (params.max_leaves - 1):
                n_open = 1
        # Not if it comes before a known split, which a child of it may beat.
        closes = n_need == 1 and tree.needs_last == 1 and tree.n_splits == params.max_leaves - 1
        for i in range(n_open):
            x = frontier.need[tree.first + i]
            slots_left = _open(frontier, x, np.int64(1 if closes else 0), slots_left)
            if slots_left < 0:
                return state[N_EXPAND]
    return state[N_EXPAND]


@inner
def _open(frontier, x, closes, slots_left):
    """Add a node to ``expand``; the histogram slots that are left, -1 if it must wait for them."""
    k = frontier.state[N_EXPAND]
    if slots_left < _slots_needed(frontier, x):
        if k > 0:
            return np.int64(-1)
        slots_left = _evict_all(frontier)
    frontier.expand[k].node = x
    frontier.expand[k].closes = closes
    frontier.state[N_EXPAND] = k + 1
    return slots_left - _slots_needed(frontier, x)


@inner
def _slots_needed(frontier, x):
    return 1 if frontier.nodes[x].slot >= 0 else 2


@inner
def _evict_all(frontier):
    """Give up every kept histogram; their nodes' children will both be built from rows."""
    for x in range(frontier.state[N_NODES]):
        release(frontier, x)
    return frontier.state[N_FREE_SLOTS]


@inner
def _push(heap, first, size, nodes, x):
    """Add a node to the heap of ``size`` nodes that begins at ``first``, the best there; the new
    size."""
    if not nodes[x].gain > NO_GAIN:
        return size
    i = size
    while i > 0:
        parent = (i - 1) >> 1
        if not _comes_before(nodes, x, heap[first + parent]):
            break
        heap[first + i] = heap[first + parent]
        i = parent
    heap[first + i] = x
    return size + 1


@inner
def _pop(heap, first, size, nodes):
    """Remove the best entry; the new size."""
    size -= 1
    x = heap[first + size]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and _comes_before(nodes, heap[first + child + 1], heap[first + child]):
            child += 1
        if not _comes_before(nodes, heap[first + child], x):
            break
        heap[first + i] = heap[first + child]
        i = child
    heap[first + i] = x
    return size


@inner
def _comes_before(nodes, x, y):
    return nodes[x].gain > nodes[y].gain or (nodes[x].gain == nodes[y].gain and x < y)
