"""Which nodes a growing batch of trees expands next, and what becomes of their children.

This is the whole control of growth, shared by every implementation: the CPU calls it inside
its parallel region, the host between CUDA launches. It sees numbers of nodes, never rows.

Best-first growth opens one leaf at a time, which leaves threads and GPUs idle. Here each
round *simulates* the best-first order over the nodes whose split is known; the nodes that the
order wants opened but whose children are not known yet are the round's work, the first half of
them at once. The tree that comes out is exactly the best-first tree: a node that was opened
too early is closed again at the end (``finish``).

    round 1   need: root                     expand: root
    round 2   need: A B                      expand: A B
    round 3   need: B1 A2 B2 A1              expand: B1 A2       (their children may
    round 4   need: B1b A1 B1a B2            expand: B1b A1       beat B2 and A1)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from .scalars.gain import newton_score
from .scalars.rng import PURPOSE_FEATURES, draw, subkey

inner = njit(nogil=True, error_model="numpy", boundscheck=False)
NO_GAIN = -np.inf
UNLIMITED = 2**31 - 1

# Entries of ``Frontier.state``.
N_NODES, N_EXPAND, N_PAIRS, N_RECHECK, N_FREE_SLOTS = range(5)


class GrowthParams(NamedTuple):
    """Settings of growth, all numbers (see ``GradientBoostingRegressor`` for their meaning).

    max_leaves, max_depth : int
        ``UNLIMITED`` where there is no limit.
    min_gain : float
        A split needs ``gain > min_gain``, in the units of the loss.
    colsample_bylevel, colsample_bynode : float
        Fractions of the tree's features, and of those of the level.
    """

    max_leaves: int
    max_depth: int
    min_samples_leaf: int
    min_sum_hessian: float
    l2: float
    min_gain: float
    colsample_bytree: float
    colsample_bylevel: float
    colsample_bynode: float


class Nodes(NamedTuple):
    """The node table of a batch of trees, one entry a node; the first are the roots.

    ``begin, end`` delimit the node's records. ``g, h`` are its quantised sums. ``score``,
    ``feature``, ``bin``, ``missing_left``, ``left_g``, ``left_h`` describe its best split and
    ``gain`` what that split gains in the units of the loss (``NO_GAIN``: none). ``child`` is
    its left child (the right one follows), -1 while it is not expanded. ``slot`` is where its
    histogram is kept, -1 nowhere. ``exact`` says that its split was chosen with exact row
    counts. ``key`` seeds its feature sampling. ``leaf`` is filled by ``finish``.
    """

    tree: np.ndarray
    depth: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    g: np.ndarray
    h: np.ndarray
    gain: np.ndarray
    feature: np.ndarray
    bin: np.ndarray
    missing_left: np.ndarray
    left_g: np.ndarray
    left_h: np.ndarray
    child: np.ndarray
    slot: np.ndarray
    exact: np.ndarray
    key: np.ndarray
    leaf: np.ndarray


class Frontier(NamedTuple):
    """What one round works on.

    expand : nodes to partition; ``n_left`` receives their row counts on the left, ``closes``
        says that the tree is complete with this split.
    build, sibling : pairs of new nodes. The histogram of ``build`` is added up from its rows;
        that of ``sibling`` is its parent's, whose slot it took over, minus that of ``build``.
        ``sibling`` is -1 where there is nothing to subtract from or nobody to do it for.
    recheck : nodes whose best split broke ``min_samples_leaf`` and is chosen anew.
    free_slots : stack of unused histogram slots.
    heap, need, chosen : scratch of the simulation.
    expanded : number of expanded nodes, per tree.
    scale_g, scale_h : float64, per tree.
    state : the counts, indexed by the constants above.
    """

    expand: np.ndarray
    n_left: np.ndarray
    closes: np.ndarray
    build: np.ndarray
    sibling: np.ndarray
    recheck: np.ndarray
    free_slots: np.ndarray
    heap: np.ndarray
    need: np.ndarray
    chosen: np.ndarray
    expanded: np.ndarray
    scale_g: np.ndarray
    scale_h: np.ndarray
    state: np.ndarray


def node_capacity(params: GrowthParams, n_rows: int) -> int:
    """Most nodes that one tree can have in the table, those of speculation included."""
    most_leaves = max(1, n_rows // params.min_samples_leaf)
    if params.max_depth < 31:
        most_leaves = min(most_leaves, 2**params.max_depth)
    if params.max_leaves >= most_leaves:
        return 2 * most_leaves + 1
    return min(2 * most_leaves, 6 * params.max_leaves) + 1


def allocate(n_trees: int, capacity: int, n_slots: int) -> tuple[Nodes, Frontier]:
    """Empty tables for a batch of trees with ``capacity`` nodes in all."""

    def table(dtype: type, n: int = capacity) -> np.ndarray:
        return np.zeros(n, dtype)

    i4, i8, f8, u1 = np.int32, np.int64, np.float64, np.uint8
    nodes = Nodes(
        tree=table(i4),
        depth=table(i4),
        begin=table(i8),
        end=table(i8),
        g=table(i8),
        h=table(i8),
        gain=table(f8),
        feature=table(i4),
        bin=table(i4),
        missing_left=table(u1),
        left_g=table(i8),
        left_h=table(i8),
        child=table(i4),
        slot=table(i4),
        exact=table(u1),
        key=table(np.uint64),
        leaf=table(i4),
    )
    frontier = Frontier(
        expand=table(i4),
        n_left=table(i8),
        closes=table(u1),
        build=table(i4),
        sibling=table(i4),
        recheck=table(i4),
        free_slots=table(i4, n_slots),
        heap=table(i4),
        need=table(i4),
        chosen=table(u1),
        expanded=table(i4, n_trees),
        scale_g=table(f8, n_trees),
        scale_h=table(f8, n_trees),
        state=table(i8, 8),
    )
    return nodes, frontier


@inner
def add_node(nodes, frontier, tree, depth, begin, end, g, h, key):
    """Append a node that has no split yet; its number."""
    x = frontier.state[N_NODES]
    frontier.state[N_NODES] = x + 1
    nodes.tree[x] = tree
    nodes.depth[x] = depth
    nodes.begin[x] = begin
    nodes.end[x] = end
    nodes.g[x] = g
    nodes.h[x] = h
    nodes.gain[x] = NO_GAIN
    nodes.child[x] = -1
    nodes.slot[x] = -1
    nodes.exact[x] = 0
    nodes.key[x] = key
    return x


@inner
def start(nodes, frontier, params, tree_begin, tree_end, root_g, root_h, keys):
    """Put the roots into the table and make them the first pairs to build."""
    state = frontier.state
    state[:] = 0
    n_slots = frontier.free_slots.size
    for i in range(n_slots):
        frontier.free_slots[i] = n_slots - 1 - i
    state[N_FREE_SLOTS] = n_slots
    for tree in range(tree_begin.size):
        frontier.expanded[tree] = 0
        x = add_node(
            nodes,
            frontier,
            tree,
            0,
            tree_begin[tree],
            tree_end[tree],
            root_g[tree],
            root_h[tree],
            keys[tree],
        )
        if can_split(nodes, frontier, params, x) and params.max_leaves > 1:
            _add_pair(nodes, frontier, x, -1)


@inner
def smallest_h(frontier, params, tree):
    """``min_sum_hessian`` of a child in quantised units, at least 1."""
    return max(1, int(math.ceil(params.min_sum_hessian * frontier.scale_h[tree])))


@inner
def least_h(nodes, frontier, params, x):
    """Quantised hessian below which a child of the node is too small.

    The number of rows of a child is estimated from its share of the node's hessian, unless
    exact counts are at hand.
    """
    if nodes.exact[x] == 1:
        return smallest_h(frontier, params, nodes.tree[x])
    share = nodes.h[x] / (nodes.end[x] - nodes.begin[x])
    from_rows = int(math.ceil((params.min_samples_leaf - 0.5) * share))
    return max(smallest_h(frontier, params, nodes.tree[x]), from_rows)


@inner
def can_split(nodes, frontier, params, x):
    """Whether the node is worth looking at."""
    return (
        nodes.depth[x] < params.max_depth
        and nodes.end[x] - nodes.begin[x] >= 2 * params.min_samples_leaf
        and nodes.h[x] >= 2 * smallest_h(frontier, params, nodes.tree[x])
    )


@inner
def _comes_before(gain, x, y):
    return gain[x] > gain[y] or (gain[x] == gain[y] and x < y)


@inner
def _push(heap, size, gain, x):
    i = size
    while i > 0:
        parent = (i - 1) >> 1
        if not _comes_before(gain, x, heap[parent]):
            break
        heap[i] = heap[parent]
        i = parent
    heap[i] = x
    return size + 1


@inner
def _pop(heap, size, gain):
    """Remove the best entry, which stands at 0, from a heap of ``size`` entries."""
    size -= 1
    x = heap[size]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and _comes_before(gain, heap[child + 1], heap[child]):
            child += 1
        if not _comes_before(gain, heap[child], x):
            break
        heap[i] = heap[child]
        i = child
    heap[i] = x
    return size


@inner
def _simulate(nodes, frontier, root, max_leaves):
    """Walk the best-first order over the known splits.

    Fills ``need`` with the nodes that it opens and whose children are unknown, marks the
    others in ``chosen``; returns the numbers of needed nodes and of splits.
    """
    gain = nodes.gain
    heap = frontier.heap
    size = 0
    if gain[root] > NO_GAIN:
        size = _push(heap, size, gain, root)
    n_splits = 0
    n_need = 0
    while size > 0 and n_splits < max_leaves - 1:
        x = heap[0]
        size = _pop(heap, size, gain)
        n_splits += 1
        child = nodes.child[x]
        if child < 0:
            frontier.need[n_need] = x
            n_need += 1
            continue
        frontier.chosen[x] = 1
        if gain[child] > NO_GAIN:
            size = _push(heap, size, gain, child)
        if gain[child + 1] > NO_GAIN:
            size = _push(heap, size, gain, child + 1)
    return n_need, n_splits


@inner
def release(nodes, frontier, x):
    """Give the node's histogram slot back."""
    if nodes.slot[x] >= 0:
        frontier.free_slots[frontier.state[N_FREE_SLOTS]] = nodes.slot[x]
        frontier.state[N_FREE_SLOTS] += 1
        nodes.slot[x] = -1


@inner
def _slots_needed(nodes, x):
    return 1 if nodes.slot[x] >= 0 else 2


@inner
def choose(nodes, frontier, params):
    """Fill ``expand`` with the nodes of the next round; their number, 0 when all is done.

    Speculation stops when a tree has opened twice the nodes that it needs; from then on only
    the first needed node is opened, which is certain to belong to the tree.
    """
    state = frontier.state
    state[N_EXPAND] = 0
    slots_left = state[N_FREE_SLOTS]
    for root in range(frontier.expanded.size):
        n_need, n_splits = _simulate(nodes, frontier, root, params.max_leaves)
        n_open = n_need
        if params.max_leaves < UNLIMITED and n_need > 2:
            n_open = (n_need + 1) >> 1
            if frontier.expanded[root] + n_open > 2 * (params.max_leaves - 1):
                n_open = 1
        for i in range(n_open):
            x = frontier.need[i]
            if slots_left < _slots_needed(nodes, x):
                if state[N_EXPAND] > 0:
                    return state[N_EXPAND]
                slots_left = _evict_all(nodes, frontier)
            slots_left -= _slots_needed(nodes, x)
            k = state[N_EXPAND]
            frontier.expand[k] = x
            frontier.closes[k] = n_need == 1 and n_splits == params.max_leaves - 1
            state[N_EXPAND] = k + 1
    return state[N_EXPAND]


@inner
def _evict_all(nodes, frontier):
    """Give up every kept histogram; their nodes' children will both be built from rows."""
    for x in range(frontier.state[N_NODES]):
        release(nodes, frontier, x)
    return frontier.state[N_FREE_SLOTS]


@inner
def commit(nodes, frontier, params):
    """Turn the partitioned nodes into parents, now that ``n_left`` is known.

    Fills the pairs to build, and ``recheck`` with the nodes that stay closed because a child
    would have fewer than ``min_samples_leaf`` rows.
    """
    state = frontier.state
    state[N_PAIRS] = 0
    state[N_RECHECK] = 0
    for i in range(state[N_EXPAND]):
        x = frontier.expand[i]
        n_left = frontier.n_left[i]
        n_right = nodes.end[x] - nodes.begin[x] - n_left
        if min(n_left, n_right) < params.min_samples_leaf:
            nodes.gain[x] = NO_GAIN
            if nodes.exact[x] == 0:
                nodes.exact[x] = 1
                frontier.recheck[state[N_RECHECK]] = x
                state[N_RECHECK] += 1
            continue
        left, right = _add_children(nodes, frontier, x, n_left)
        frontier.expanded[nodes.tree[x]] += 1
        look_left = can_split(nodes, frontier, params, left) and frontier.closes[i] == 0
        look_right = can_split(nodes, frontier, params, right) and frontier.closes[i] == 0
        if not (look_left or look_right):
            release(nodes, frontier, x)
        elif nodes.slot[x] < 0:
            if look_left:
                _add_pair(nodes, frontier, left, -1)
            if look_right:
                _add_pair(nodes, frontier, right, -1)
        else:
            build = left if n_left <= n_right else right
            sibling = left + right - build
            nodes.slot[sibling] = nodes.slot[x]
            nodes.slot[x] = -1
            _add_pair(nodes, frontier, build, sibling)


@inner
def _add_children(nodes, frontier, x, n_left):
    begin, end = nodes.begin[x], nodes.end[x]
    middle = begin + n_left
    tree, depth = nodes.tree[x], nodes.depth[x] + 1
    g, h = nodes.left_g[x], nodes.left_h[x]
    key = nodes.key[x]
    left = add_node(
        nodes, frontier, tree, depth, begin, middle, g, h, draw(key, np.uint64(1))
    )
    right = add_node(
        nodes,
        frontier,
        tree,
        depth,
        middle,
        end,
        nodes.g[x] - g,
        nodes.h[x] - h,
        draw(key, np.uint64(2)),
    )
    nodes.child[x] = left
    return left, right


@inner
def _add_pair(nodes, frontier, build, sibling):
    state = frontier.state
    state[N_FREE_SLOTS] -= 1
    nodes.slot[build] = frontier.free_slots[state[N_FREE_SLOTS]]
    frontier.build[state[N_PAIRS]] = build
    frontier.sibling[state[N_PAIRS]] = sibling
    state[N_PAIRS] += 1


@inner
def settle(nodes, frontier, params, x, score):
    """Take note of the node's best split, whose ``feature`` and so on stand in the table.

    A gain within the noise of the stochastic rounding is none: rounding n rows of hessian h
    to integers adds a variance below n/4 to any sum of g, so the best of many meaningless
    splits scores up to about 4 n/h.
    """
    tree = nodes.tree[x]
    count = nodes.end[x] - nodes.begin[x]
    scale_g, scale_h = frontier.scale_g[tree], frontier.scale_h[tree]
    quantised = score - newton_score(
        float(nodes.g[x]), float(nodes.h[x]), params.l2 * scale_h
    )
    gain = quantised / scale_g / scale_g * scale_h
    if score > NO_GAIN and gain > params.min_gain and quantised > 4.0 * count / nodes.h[x]:
        nodes.gain[x] = gain
    else:
        nodes.gain[x] = NO_GAIN
        release(nodes, frontier, x)


@inner
def finish(nodes, frontier, params, order, tree_offset):
    """Number the nodes of the final trees breadth first.

    ``order`` receives the table's entries tree by tree, ``tree_offset`` where each tree
    begins. Sets ``nodes.leaf`` of every node at or below a leaf to that leaf's number in its
    tree, and to -1 above. Returns the number of nodes.
    """
    n_nodes = frontier.state[N_NODES]
    frontier.chosen[:n_nodes] = 0
    nodes.leaf[:n_nodes] = -1
    total = 0
    for root in range(frontier.expanded.size):
        _simulate(nodes, frontier, root, params.max_leaves)
        first = total
        order[total] = root
        total += 1
        head = first
        while head < total:
            x = order[head]
            if frontier.chosen[x] == 1:
                order[total] = nodes.child[x]
                order[total + 1] = nodes.child[x] + 1
                total += 2
            else:
                nodes.leaf[x] = head - first
            head += 1
        tree_offset[root] = first
    tree_offset[frontier.expanded.size] = total
    for x in range(n_nodes):  # parents come before their children
        child = nodes.child[x]
        if child >= 0 and nodes.leaf[x] >= 0:
            nodes.leaf[child] = nodes.leaf[x]
            nodes.leaf[child + 1] = nodes.leaf[x]
    return total


@inner
def emit(nodes, order, tree_offset, feature, bin_, missing_left, left, right, gain, n_samples):
    """Write the final trees' arrays (see ``grow.GrownTrees``)."""
    for tree in range(tree_offset.size - 1):
        first = tree_offset[tree]
        next_child = 1
        for i in range(first, tree_offset[tree + 1]):
            x = order[i]
            n_samples[i] = nodes.end[x] - nodes.begin[x]
            if nodes.leaf[x] >= 0:
                feature[i] = bin_[i] = left[i] = right[i] = -1
                missing_left[i] = 0
                gain[i] = 0.0
                continue
            feature[i] = nodes.feature[x]
            bin_[i] = nodes.bin[x]
            missing_left[i] = nodes.missing_left[x]
            gain[i] = nodes.gain[x]
            left[i] = next_child  # breadth first: children are numbered in their parents' order
            right[i] = next_child + 1
            next_child += 2


@inner
def share_of(fraction, n):
    """How many of n features a fraction stands for, at least one."""
    return max(1, min(n, int(math.floor(fraction * n + 0.5))))


@inner
def _smallest(values, n, k):
    """The k-th smallest (from 1) of n distinct values, which are reordered (quickselect)."""
    low, high = 0, n - 1
    while low < high:
        pivot = values[(low + high) >> 1]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            break
    return values[k - 1]


@inner
def draw_features(key, fraction, features, n, scratch):
    """Keep a random share of the first n ``features``, in place; how many are left.

    Every feature gets a hash under the key; the smallest hashes stay, in their order.
    """
    keep = share_of(fraction, n)
    if keep == n:
        return n
    for i in range(n):
        feature = np.uint64(features[i])
        scratch[i] = (draw(key, feature) << np.uint64(32)) | feature
    last = _smallest(scratch, n, keep)
    kept = 0
    for i in range(n):
        feature = np.uint64(features[i])
        if (draw(key, feature) << np.uint64(32)) | feature <= last:
            features[kept] = features[i]
            kept += 1
    return kept


@inner
def allow_features(nodes, params, x, tree_key, features, scratch, allowed):
    """Mark the features that a node may use: drawn by tree, of those by level, of those by
    node. ``features`` (int32) and ``scratch`` (uint64) have an entry a feature."""
    n = allowed.size
    if params.colsample_bytree * params.colsample_bylevel * params.colsample_bynode == 1.0:
        allowed[:] = 1
        return
    for f in range(n):
        features[f] = f
    level = np.uint64(nodes.depth[x])
    n = draw_features(tree_key, params.colsample_bytree, features, n, scratch)
    level_key = subkey(tree_key, PURPOSE_FEATURES, level)
    n = draw_features(level_key, params.colsample_bylevel, features, n, scratch)
    node_key = subkey(nodes.key[x], PURPOSE_FEATURES, np.uint64(0))
    n = draw_features(node_key, params.colsample_bynode, features, n, scratch)
    allowed[:] = 0
    for i in range(n):
        allowed[features[i]] = 1
