"""The control of growth: which nodes are expanded next, what becomes of them and their children,
and which nodes the final trees have.

Best-first growth opens one leaf at a time, which leaves threads and GPUs idle. Here each round
*simulates* the best-first order over the nodes whose split is known; the nodes that the order wants
opened but whose children are not known yet are the round's work, a first part of them at once
(``open_needed``), or the first one alone (``in_order``). The resulting tree is exactly the
best-first tree: a node that was opened too early is closed again at the end (``finish``). Which
nodes a round opens, and with it the numbers of the nodes, therefore decides nothing but time. The
order is one of gains alone; of equal ones that nearer the root comes first, then the left one
(``comes_before``).

    round 1   need: root                     expand: root
    round 2   need: A B                      expand: A B
    round 3   need: B1 A2 B2 A1              expand: B1 A2       (their children may
    round 4   need: B1b A1 B1a B2            expand: B1b A1       beat B2 and A1)

A node whose split is sought has a histogram in a slot of its own. The slot is given back once
the histogram is no longer needed; the children's histograms are derived from it, so that only the
rows of the smaller child are added up (``Frontier.pairs``)::

    parent, slot 3      partition      smaller child, slot 7     added up from its rows
    +--------------+   ---------->     larger child,  slot 3     parent - smaller child
"""

from __future__ import annotations

import numpy as np

from ..runtime.compilation import fused, inner
from ..scalars.gain import between_values, bounded_score, bounded_value
from ..scalars.rng import draw
from .frontier import N_EXPAND, N_FREE_SLOTS, N_NODES, N_PAIRS, N_RECHECK, NO_GAIN
from .levels import list_levels
from .limits import can_split, l2_of
from .params import UNLIMITED

LARGE_TREE = 200_000
"""Rows from which on a needless expansion costs more than another round."""
ALL, HALF, QUARTER = range(3)
"""How often the nodes that a round opens are halved. A 63-leaf tree of many rows takes 12 rounds
with half of them, in place of 20 with a quarter, and a hundredth more work."""


@inner
def choose(frontier, params, most_halvings):
    """Fill ``expand`` with the nodes of the next round (see ``open_needed``) and return how many
    there are: 0 at the end."""
    for t in range(frontier.trees.size):
        simulate(frontier, params, t)
    return open_needed(frontier, params, most_halvings)


@inner
def simulate(frontier, params, t):
    """Walk the best-first order of tree t over the known splits.

    Fills the tree's part of ``need`` with the nodes that the order opens and whose children are
    unknown, marks the others as ``chosen``, and notes how many nodes are needed, how many splits
    there are, and whether the last split is that of a needed node. Trees without a limit open every
    node that has a split, so they need no order.
    """
    if params.max_leaves == UNLIMITED:
        return
    nodes, heap = frontier.nodes, frontier.heap
    tree = frontier.trees[t]
    first = tree.first
    size = push(heap, first, np.int64(0), nodes, np.int64(t))
    n_splits = 0
    n_need = 0
    needs_last = False
    while size > 0 and n_splits < params.max_leaves - 1:
        x = heap[first]
        size = pop(heap, first, size, nodes)
        n_splits += 1
        child = nodes[x].child
        needs_last = child < 0
        # Nothing below a node can be walked until a round has found the splits of its children.
        if needs_last:
            frontier.need[first + n_need] = x
            n_need += 1
        else:
            nodes[x].chosen = 1
            size = push(heap, first, size, nodes, child)
            size = push(heap, first, size, nodes, child + 1)
    tree.n_need = n_need
    tree.n_splits = n_splits
    tree.needs_last = 1 if needs_last else 0


@inner
def open_needed(frontier, params, most_halvings):
    """Fill ``expand`` with nodes that the simulations need and return how many there are: those
    left after ``QUARTER`` halvings, ``HALF`` for trees of fewer rows and where workers wait for
    each other in every round, or ``ALL``, none, where a round is a pass over a table that does not
    fit into memory.

    Speculation stops when a tree has opened twice the nodes that it may have; from then on only the
    first needed node is opened, which is certain to belong to the tree, as on a GPU.
    """
    state = frontier.state
    state[N_EXPAND] = 0
    slots_left = state[N_FREE_SLOTS]
    if params.max_leaves == UNLIMITED:
        for x in range(state[N_NODES]):
            if frontier.nodes[x].child < 0 and frontier.nodes[x].gain > NO_GAIN:
                # The last level of a symmetric tree; others count no levels.
                closes = frontier.trees[frontier.nodes[x].tree].n_levels >= params.max_depth
                slots_left = open_node(frontier, np.int64(x), np.int64(closes), slots_left)
                if slots_left < 0:
                    break
        return state[N_EXPAND]
    # The later a node comes in the order, the more likely children of others come before it:
    # only the first part of the needed nodes is worth the work.
    for t in range(frontier.trees.size):
        tree = frontier.trees[t]
        n_need = n_open = tree.n_need
        if n_need > 2:
            is_large = tree.end - tree.begin >= LARGE_TREE
            n_halvings = min(most_halvings, np.int64(QUARTER if is_large else HALF))
            n_open = (n_need + (1 << n_halvings) - 1) >> n_halvings
        # Nodes have places for no more, see ``node_capacity``.
        n_open = min(n_open, max(1, 2 * (params.max_leaves - 1) - tree.expanded))
        # Not if it comes before a known split, which a child of it may beat.
        closes = n_need == 1 and tree.needs_last == 1 and tree.n_splits == params.max_leaves - 1
        for i in range(n_open):
            x = frontier.need[tree.first + i]
            slots_left = open_node(frontier, x, np.int64(1 if closes else 0), slots_left)
            if slots_left < 0:
                return state[N_EXPAND]
    return state[N_EXPAND]


@inner
def open_node(frontier, x, closes, slots_left):
    """Add a node to ``expand`` and return how many histogram slots are left, or -1 if the node
    must wait for slots."""
    k = frontier.state[N_EXPAND]
    # The first node of a round gets slots in any case: a round that opens nothing is the last.
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
    """Give up every kept histogram; the children of those nodes will both be built from their
    rows."""
    for x in range(frontier.state[N_NODES]):
        release(frontier, x)
    return frontier.state[N_FREE_SLOTS]


@inner
def push(heap, first, size, nodes, x):
    """Add a node that has a split to a heap of ``size`` nodes and return the new size. The heap
    begins at ``heap[first]`` with its best node (see ``comes_before``)."""
    if not nodes[x].gain > NO_GAIN:
        return size
    i = size
    while i > 0:
        parent = (i - 1) >> 1
        if not comes_before(nodes, x, heap[first + parent]):
            break
        heap[first + i] = heap[first + parent]
        i = parent
    heap[first + i] = x
    return size + 1


@inner
def pop(heap, first, size, nodes):
    """Remove the best node of a heap and return the new size."""
    size -= 1
    x = heap[first + size]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and comes_before(nodes, heap[first + child + 1], heap[first + child]):
            child += 1
        if not comes_before(nodes, heap[first + child], x):
            break
        heap[first + i] = heap[first + child]
        i = child
    heap[first + i] = x
    return size


@inner
def comes_before(nodes, x, y):
    """Return whether node x of a tree is opened before node y if both can be: it has the larger
    gain, or the same and is nearer the root, or on the same level left of y."""
    gain_x, gain_y = nodes[x].gain, nodes[y].gain
    if gain_x != gain_y:
        return gain_x > gain_y
    if nodes[x].depth != nodes[y].depth:
        return nodes[x].depth < nodes[y].depth
    return nodes[x].begin < nodes[y].begin


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
        tree.expanded = tree.n_levels = 0
        plant(frontier, t)
        state[N_NODES] += 1
        if is_root_looked(frontier, params, t):
            _add_pair(frontier, np.int64(t), np.int64(-1))
    if params.is_symmetric == 1:
        list_levels(frontier, params)


@inner
def plant(frontier, t):
    """Write the root of tree t."""
    tree = frontier.trees[t]
    none, top = np.int64(-1), np.int64(0)
    _write_node(frontier, t, none, t, top, tree.begin, tree.end, tree.g, tree.h, tree.key)


@inner
def is_root_looked(frontier, params, t):
    """Return whether a split of the root of tree t is sought."""
    return can_split(frontier, params, t) and params.max_leaves > 1


@inner
def settle(frontier, params, x, score):
    """Note the node's best split; without one its histogram is given up."""
    take_gain(frontier, params, x, score)
    if not frontier.nodes[x].gain > NO_GAIN:
        release(frontier, x)


@inner
def take_gain(frontier, params, x, score):
    """Fill in the gain of the node's best split, whose other fields are in the table already.

    A gain within the noise of the stochastic rounding does not count: rounding n rows of hessian h
    to integers adds a variance below n/4 to any sum of g, so the best of many meaningless splits
    scores up to about 4 n/h.
    """
    node = frontier.nodes[x]
    tree = frontier.trees[node.tree]
    l2 = l2_of(frontier, params, x)
    parent = bounded_score(float(node.g), float(node.h), l2, node.low, node.high)
    # Scores are in quantised units; the gain of the loss needs both scales.
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


@fused
def commit(frontier, params):
    """Turn the partitioned nodes into parents, now that ``n_left`` is known.

    Fills the pairs to build, and ``recheck`` with the nodes that stay closed because a child would
    have fewer than ``min_samples_leaf`` rows.
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
        # The split was found by hessians. Now that rows are counted, it may leave too few.
        if not is_enough(frontier, params, i):
            if params.is_symmetric == 1:  # the level has its split, which is not for this node
                node.gain = NO_GAIN
                continue
            frontier.recheck[state[N_RECHECK]] = x
            state[N_RECHECK] += 1
            continue
        left = state[N_NODES]
        right = left + 1
        state[N_NODES] += 2
        add_children(frontier, params, x, left, n_left)
        frontier.trees[node.tree].expanded += 1
        look_left = expansion.closes == 0 and can_split(frontier, params, left)
        look_right = expansion.closes == 0 and can_split(frontier, params, right)
        # Which histograms does the search need? None; or those of the children, from their rows
        # where the parent's is given up; or one of them, from which the other one follows.
        if not (look_left or look_right):
            release(frontier, x)
        elif node.slot < 0:
            if look_left:
                _add_pair(frontier, left, np.int64(-1))
            if look_right:
                _add_pair(frontier, right, np.int64(-1))
        else:
            # The rows of the smaller child are added up, and the larger one takes over the slot.
            build = left if n_left <= n_right else right
            sibling = left + right - build
            frontier.nodes[sibling].slot = node.slot
            node.slot = -1
            _add_pair(frontier, build, sibling)
    if params.is_symmetric == 1:
        list_levels(frontier, params)


@inner
def is_enough(frontier, params, i):
    """Return whether both children of expansion i have ``min_samples_leaf`` rows."""
    expansion = frontier.expand[i]
    node = frontier.nodes[expansion.node]
    n_right = node.end - node.begin - expansion.n_left
    return min(expansion.n_left, n_right) >= params.min_samples_leaf


@inner
def add_children(frontier, params, x, left, n_left):
    """Give the node its children, whose numbers are ``left`` and the next one."""
    node = frontier.nodes[x]
    tree, depth, key = node.tree, node.depth + 1, node.key
    begin, middle, end = node.begin, node.begin + n_left, node.end
    g, h = node.left_g, node.left_h
    left_key, right_key = draw(key, np.uint64(1)), draw(key, np.uint64(2))
    _write_node(frontier, left, x, tree, depth, begin, middle, g, h, left_key)
    right_g, right_h = node.g - g, node.h - h
    _write_node(frontier, left + 1, x, tree, depth, middle, end, right_g, right_h, right_key)
    node.child = left
    if frontier.rules.size > 0:
        _bound_children(frontier, params, x)


@inner
def _bound_children(frontier, params, x):
    """Set the bounds of a node's children: those of their parent. After a split by a constrained
    feature each child also stays on its side of the middle between their values."""
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
    # Whatever is opened below, no value of one side crosses the middle: the order holds for
    # all leaves, not only for these two.
    if direction > 0:
        left.high = right.low = middle
    else:
        left.low = right.high = middle


@inner
def _write_node(frontier, x, parent, tree, depth, begin, end, g, h, key):
    """Write a node that has no split yet."""
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


@inner
def _add_pair(frontier, build, sibling):
    state = frontier.state
    state[N_FREE_SLOTS] -= 1
    frontier.nodes[build].slot = frontier.free_slots[state[N_FREE_SLOTS]]
    frontier.pairs[state[N_PAIRS]].build = build
    frontier.pairs[state[N_PAIRS]].sibling = sibling
    state[N_PAIRS] += 1


@inner
def finish(frontier, params, order, tree_offset):
    """Number the nodes of the final trees breadth first.

    ``order`` receives the table's entries tree by tree, ``tree_offset`` where each tree
    begins. Sets the ``leaf`` of every node at or below a leaf to that leaf's number in its
    tree, and to -1 above.
    """
    for x in range(frontier.state[N_NODES]):
        forget_choice(frontier, params, x)
    end = np.int64(0)
    for t in range(frontier.trees.size):
        tree_offset[t] = end
        simulate(frontier, params, t)
        end = number_nodes(frontier, t, order, end)
    tree_offset[frontier.trees.size] = end
    for x in range(frontier.state[N_NODES]):
        inherit_leaf(frontier, x)


@inner
def forget_choice(frontier, params, x):
    """Undo what simulations have marked; without a limit of leaves every parent is chosen."""
    node = frontier.nodes[x]
    node.chosen = 1 if params.max_leaves == UNLIMITED and node.child >= 0 else 0
    node.leaf = -1


@inner
def number_nodes(frontier, t, order, first):
    """List the nodes of tree t breadth first in ``order``, beginning at ``first``, number its
    leaves, and return the end of the list."""
    end = first
    order[end] = t
    end += 1
    head = first
    while head < end:
        node = frontier.nodes[order[head]]
        if node.chosen == 1:
            order[end] = node.child
            order[end + 1] = node.child + 1
            end += 2
        else:
            node.leaf = head - first
        head += 1
    return end


@inner
def inherit_leaf(frontier, x):
    """Give a node below a leaf, which was opened too early, the number of that leaf."""
    nodes = frontier.nodes
    y = np.int64(x)
    if nodes[x].chosen == 1:
        return
    while y >= 0 and nodes[y].leaf < 0:
        y = nodes[y].parent
    if y >= 0:
        nodes[x].leaf = nodes[y].leaf


@inner
def emit(
    nodes,
    sets,
    order,
    tree_offset,
    feature,
    bin_,
    missing_left,
    left,
    right,
    gain,
    n_samples,
    left_codes,
):
    """Write the final trees' arrays (see ``grow.GrownTrees``)."""
    for tree in range(tree_offset.size - 1):
        next_child = 1
        for i in range(tree_offset[tree], tree_offset[tree + 1]):
            node = nodes[order[i]]
            n_samples[i] = node.end - node.begin
            if node.leaf >= 0:
                feature[i] = bin_[i] = left[i] = right[i] = -1
                missing_left[i] = 0
                gain[i] = 0.0
                continue
            feature[i] = node.feature
            bin_[i] = node.bin
            missing_left[i] = node.missing_left
            gain[i] = node.gain
            if node.bin < 0:
                for word in range(sets.shape[1]):
                    left_codes[i, word] = sets[order[i], word]
            left[i] = next_child  # breadth first: children are numbered in their parents' order
            right[i] = next_child + 1
            next_child += 2
