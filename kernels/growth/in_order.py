"""Growth in the best-first order itself, a node at a time, by one thread.

It loses nothing by a round for each node, so that it opens none in vain: the others open a fifth
more. The order is continued from round to round, in place of walked again (``control.simulate``).
"""

from __future__ import annotations

import numpy as np

from ..runtime.compilation import fused
from .control import ALL, open_needed, open_node, pop, push
from .frontier import N_EXPAND, N_FREE_SLOTS
from .params import UNLIMITED


@fused
def choose_first(frontier, params):
    """Fill ``expand`` with the first node of each tree in the best-first order, all of whose splits
    are known, and return how many there are: 0 at the end.

    Each tree keeps the nodes that it may open as a heap of ``n_open``, and counts ``n_splits``.
    """
    if params.max_leaves == UNLIMITED:
        return open_needed(frontier, params, np.int64(ALL))
    nodes, heap, state = frontier.nodes, frontier.heap, frontier.state
    if state[N_EXPAND] == 0:
        for t in range(frontier.trees.size):
            tree = frontier.trees[t]
            tree.n_splits = 0
            tree.n_open = push(heap, tree.first, np.int64(0), nodes, np.int64(t))
    # The splits of the nodes that the last round opened, or searched again, are known now.
    for k in range(state[N_EXPAND]):
        x = frontier.expand[k].node
        child, tree = nodes[x].child, frontier.trees[nodes[x].tree]
        if child < 0:
            tree.n_splits -= 1
            tree.n_open = push(heap, tree.first, tree.n_open, nodes, x)
        else:
            tree.n_open = push(heap, tree.first, tree.n_open, nodes, child)
            tree.n_open = push(heap, tree.first, tree.n_open, nodes, child + 1)
    state[N_EXPAND] = 0
    slots_left = state[N_FREE_SLOTS]
    for t in range(frontier.trees.size):
        tree = frontier.trees[t]
        if tree.n_open == 0 or tree.n_splits == params.max_leaves - 1:
            continue
        closes = tree.n_splits == params.max_leaves - 2
        slots_left = open_node(frontier, heap[tree.first], np.int64(1 if closes else 0), slots_left)
        if slots_left < 0:
            break
        tree.n_open = pop(heap, tree.first, tree.n_open, nodes)
        tree.n_splits += 1
    return state[N_EXPAND]
