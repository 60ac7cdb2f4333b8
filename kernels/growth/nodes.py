"""What becomes of nodes: roots are planted, splits are noted, children are added.

A node whose split is looked for has a histogram in a slot of its own, which is given back once
nobody needs it; the children's histograms come from it (``Frontier.pairs``).
"""

from __future__ import annotations

import numpy as np

from ..runtime.compilation import inner
from ..scalars.bounds import between_values, bounded_score, bounded_value
from ..scalars.rng import draw
from .frontier import N_EXPAND, N_FREE_SLOTS, N_NODES, N_PAIRS, N_RECHECK, NO_GAIN
from .limits import can_split, l2_of


@inner
def start(frontier, params):
    """Put the roots into the table, with their trees' ``g`` and ``h``, and make them the
    first pairs to build."""
    state = frontier.state
    state[:] = 0
    n_slots = frontier.free_slots.size
    for i in range(n_slots):
        frontier.free_slots[i] = n_slots - 1 - i
    state[N_FREE_SLOTS] = n_slots
    for t in range(frontier.trees.size):
        tree = frontier.trees[t]
        tree.expanded = 0
        none, top = np.int64(-1), np.int64(0)
        x = _add_node(frontier, none, t, top, tree.begin, tree.end, tree.g, tree.h, tree.key)
        if can_split(frontier, params, x) and params.max_leaves > 1:
            _add_pair(frontier, x, np.int64(-1))


@inner
def settle(frontier, params, x, score):
    """Take note of the node's best split; without one its histogram is given up."""
    take_gain(frontier, params, x, score)
    if not frontier.nodes[x].gain > NO_GAIN:
        release(frontier, x)


@inner
def take_gain(frontier, params, x, score):
    """Fill in the gain of the node's best split, whose ``feature`` and so on stand in the table.

    A gain within the noise of the stochastic rounding is none: rounding n rows of hessian h
    to integers adds a variance below n/4 to any sum of g, so the best of many meaningless
    splits scores up to about 4 n/h.
    """
    node = frontier.nodes[x]
    tree = frontier.trees[node.tree]
    l2 = l2_of(frontier, params, x)
    parent = bounded_score(float(node.g), float(node.h), l2, node.low, node.high)
    quantised = score - parent
    gain = quantised / tree.scale_g / tree.scale_g * tree.scale_h
    noise = 4.0 * (node.end - node.begin) / node.h
    if score > NO_GAIN and gain > params.min_gain and quantised > noise:
        node.gain = gain
    else:
        node.gain = NO_GAIN


@inner
def release(frontier, x):
    """Give the node's histogram slot back."""
    node = frontier.nodes[x]
    if node.slot >= 0:
        frontier.free_slots[frontier.state[N_FREE_SLOTS]] = node.slot
        frontier.state[N_FREE_SLOTS] += 1
        node.slot = -1


@inner
def commit(frontier, params):
    """Turn the partitioned nodes into parents, now that ``n_left`` is known.

    Fills the pairs to build, and ``recheck`` with the nodes that stay closed because a child
    would have fewer than ``min_samples_leaf`` rows.
    """
    state = frontier.state
    state[N_PAIRS] = 0
    state[N_RECHECK] = 0
    for i in range(state[N_EXPAND]):
        expansion = frontier.expand[i]
        x = expansion.node
        node = frontier.nodes[x]
        n_left = expansion.n_left
        n_right = node.end - node.begin - n_left
        if min(n_left, n_right) < params.min_samples_leaf:
            frontier.recheck[state[N_RECHECK]] = x
            state[N_RECHECK] += 1
            continue
        left = _add_children(frontier, params, x, n_left)
        right = left + 1
        look_left = expansion.closes == 0 and can_split(frontier, params, left)
        look_right = expansion.closes == 0 and can_split(frontier, params, right)
        if not (look_left or look_right):
            release(frontier, x)
        elif node.slot < 0:
            if look_left:
                _add_pair(frontier, left, np.int64(-1))
            if look_right:
                _add_pair(frontier, right, np.int64(-1))
        else:
            build = left if n_left <= n_right else right
            sibling = left + right - build
            frontier.nodes[sibling].slot = node.slot
            node.slot = -1
            _add_pair(frontier, build, sibling)


@inner
def _add_children(frontier, params, x, n_left):
    """Give the node its children; the number of the left one."""
    node = frontier.nodes[x]
    tree, depth, key = node.tree, node.depth + 1, node.key
    begin, middle, end = node.begin, node.begin + n_left, node.end
    g, h = node.left_g, node.left_h
    left_key, right_key = draw(key, np.uint64(1)), draw(key, np.uint64(2))
    left = _add_node(frontier, x, tree, depth, begin, middle, g, h, left_key)
    _add_node(frontier, x, tree, depth, middle, end, node.g - g, node.h - h, right_key)
    node.child = left
    if frontier.rules.size > 0:
        _bound_children(frontier, params, x)
    frontier.trees[tree].expanded += 1
    return left


@inner
def _bound_children(frontier, params, x):
    """Children keep the bounds of their parent. Those of a split by a constrained feature stay
    on their own sides of the middle between their values."""
    parent = frontier.nodes[x]
    left, right = frontier.nodes[parent.child], frontier.nodes[parent.child + 1]
    left.low = right.low = parent.low
    left.high = right.high = parent.high
    direction = frontier.rules[parent.feature].monotone
    if direction == 0:
        return
    l2 = l2_of(frontier, params, x)
    middle = between_values(
        bounded_value(float(left.g), float(left.h), l2, parent.low, parent.high),
        bounded_value(float(right.g), float(right.h), l2, parent.low, parent.high),
    )
    if direction > 0:
        left.high = right.low = middle
    else:
        left.low = right.high = middle


@inner
def _add_node(frontier, parent, tree, depth, begin, end, g, h, key):
    """Append a node that has no split yet; its number."""
    x = frontier.state[N_NODES]
    frontier.state[N_NODES] = x + 1
    node = frontier.nodes[x]
    node.parent = parent
    node.low = -np.inf
    node.high = np.inf
    node.tree = tree
    node.depth = depth
    node.begin = begin
    node.end = end
    node.g = g
    node.h = h
    node.gain = NO_GAIN
    node.child = -1
    node.slot = -1
    node.key = key
    return x


@inner
def _add_pair(frontier, build, sibling):
    state = frontier.state
    state[N_FREE_SLOTS] -= 1
    frontier.nodes[build].slot = frontier.free_slots[state[N_FREE_SLOTS]]
    frontier.pairs[state[N_PAIRS]].build = build
    frontier.pairs[state[N_PAIRS]].sibling = sibling
    state[N_PAIRS] += 1
