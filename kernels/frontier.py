"""Which nodes a growing batch of trees expands next, and what becomes of their children.

This is the whole control of growth, shared by every implementation: the CPU calls it inside
its parallel region, CUDA in kernels of one block between those over the rows. It sees numbers of
nodes, never rows.

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
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .compilation import inner
from .dtypes import ALONE, CODE_WORDS, N_SLOTS, NUMERIC, ORDERED, Scales
from .scalars.bounds import between_values, bounded_score, bounded_value
from .scalars.primitives import mul
from .scalars.rng import PURPOSE_FEATURES, draw, subkey

NO_GAIN = -np.inf
UNLIMITED = 2**31 - 1
LARGE_TREE = 200_000
"""Rows from which on a needless expansion costs more than another round."""
HISTOGRAM_BYTES = 2**29
"""Most memory that kept histograms may take; beyond it they are built again when needed."""

# Entries of ``Frontier.state``.
N_NODES, N_EXPAND, N_PAIRS, N_RECHECK, N_FREE_SLOTS = range(5)

# One table of records instead of many arrays, and one integer type: a compiled function costs
# compile time for every array that it takes and for every combination of types. Aligned, or a GPU
# would read the fields byte by byte.
_I, _F = np.int64, np.float64
NODE = np.dtype(
    [
        ("tree", _I),
        ("depth", _I),
        ("begin", _I),  # its records are begin … end - 1
        ("end", _I),
        ("g", _I),  # quantised sums
        ("h", _I),
        ("feature", _I),  # its best split
        ("bin", _I),
        ("missing_left", _I),
        ("left_g", _I),
        ("left_h", _I),
        ("gain", _F),  # of that split, in the units of the loss; NO_GAIN: there is none
        ("child", _I),  # the left one, the right one follows; -1: not expanded
        ("parent", _I),  # -1: it is a root
        ("low", _F),  # bounds of its value, in quantised units: real value * scale_g / scale_h
        ("high", _F),
        ("slot", _I),  # where its histogram is kept; -1: nowhere
        ("chosen", _I),  # 1: the simulation expands it
        ("leaf", _I),  # after ``finish``: number of the leaf that it is or is below
        ("key", np.uint64),  # for the sampling of features
    ],
    align=True,
)
TREE = np.dtype(
    [
        ("begin", _I),
        ("end", _I),
        ("g", _I),
        ("h", _I),
        ("scale_g", _F),
        ("scale_h", _F),
        ("expanded", _I),  # number of nodes
        ("key", np.uint64),
        ("first", _I),  # where its part of ``heap`` and ``need`` begins
        ("n_need", _I),  # what its simulation has found
        ("n_splits", _I),
        ("needs_last", _I),
    ],
    align=True,
)
EXPANSION = np.dtype(
    [
        ("node", _I),
        ("n_left", _I),  # rows that went left, filled by the partition
        ("closes", _I),  # 1: the tree is complete with this split
    ],
    align=True,
)
PAIR = np.dtype(
    [
        ("build", _I),  # the histogram of this node is added up from its rows
        ("sibling", _I),  # its own is the parent's, whose slot it has, minus that; -1: nobody
    ],
    align=True,
)
RULE = np.dtype([("monotone", _I), ("kind", _I)], align=True)
"""What a feature may do: 1 and -1 make values rise and fall along it; kind is that of
``CategorySplits``."""
MEMBER = np.dtype([("group", _I), ("feature", _I)], align=True)
"""A feature that may interact with the others of a group; those of a group stand together."""


class FeatureRules(NamedTuple):
    """What a batch of trees must know of the features beyond their bins (NumPy).

    monotone : int8, shape (n_features,) or (0,)
        1: values must not fall from left to right at its splits, -1: not rise, 0: free.
    groups : tuple of tuples of int
        A path from the root may use features only if one group holds them all; empty where all
        may interact.
    categorical : bool, shape (n_features,) or (0,)
        Which features are split by categories, one for each bin.
    """

    monotone: np.ndarray = np.zeros(0, np.int8)
    groups: tuple[tuple[int, ...], ...] = ()
    categorical: np.ndarray = np.zeros(0, np.bool_)


NO_RULES = FeatureRules()


class GrowthParams(NamedTuple):
    """Settings of growth, all numbers (see ``GradientBoostingRegressor`` for their meaning).

    max_leaves, max_depth : int
        ``UNLIMITED`` where there is no limit.
    min_gain : float
        A split needs ``gain > min_gain``, in the units of the loss.
    colsample_bylevel, colsample_bynode : float
        Fractions of the tree's features, and of those of the level.
    max_path_features : int
        Most different features of a path from the root; ``UNLIMITED`` where there is no limit.
    cat_smooth : float
        Added to the hessian of a category where categories are ordered. A category with fewer
        rows in a node goes with its missing values.
    cat_l2 : float
        Added to ``l2`` where ordered categories are cut.
    max_cat_to_onehot : int
        A feature with at most so many bins is split into one category and the others.
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
    max_path_features: int = UNLIMITED
    cat_smooth: float = 10.0
    cat_l2: float = 0.0
    max_cat_to_onehot: int = 4


class Frontier(NamedTuple):
    """The tables of a batch of growing trees and what the current round works on.

    nodes : NODE, shape (capacity,)
        All nodes, those of speculation included; node t is the root of tree t.
    trees : TREE, shape (n_trees,)
    expand : EXPANSION
        Nodes to partition.
    pairs : PAIR
        New nodes whose splits are to be found.
    recheck : int64
        Nodes whose best split broke ``min_samples_leaf``. They get the best split that keeps
        it: while the best split is of a feature whose rows are not counted yet, they are
        counted, and the feature's splits that break the limit are struck out.
    free_slots : int64
        Stack of unused histogram slots.
    heap, need : int64
        Scratch of the simulations; each tree has a part of its own.
    rules : RULE, shape (n_features,) or (0,)
        Empty where no feature is special.
    members : MEMBER
        Groups of features that may interact; empty where all may.
    left_codes : uint32, shape (capacity, CODE_WORDS) or (0, CODE_WORDS)
        The codes that go left at nodes whose best split is by categories: ``bin`` is -1.
    state : int64
        Numbers of entries, indexed by the constants above.
    """

    nodes: np.ndarray
    trees: np.ndarray
    expand: np.ndarray
    pairs: np.ndarray
    recheck: np.ndarray
    free_slots: np.ndarray
    heap: np.ndarray
    need: np.ndarray
    rules: np.ndarray
    members: np.ndarray
    left_codes: np.ndarray
    state: np.ndarray


def node_capacity(params: GrowthParams, n_rows: int) -> int:
    """Most nodes that one tree can have in the table, those of speculation included."""
    most_leaves = _most_leaves(params, n_rows)
    if params.max_leaves >= most_leaves:
        return 2 * most_leaves + 1
    return min(2 * most_leaves, 6 * params.max_leaves) + 1


def most_nodes(params: GrowthParams, n_rows: int) -> int:
    """Most nodes that one tree has when it is done."""
    return 2 * min(params.max_leaves, _most_leaves(params, n_rows)) - 1


def _most_leaves(params: GrowthParams, n_rows: int) -> int:
    """Most leaves that the depth and the rows allow."""
    most_leaves = max(1, n_rows // params.min_samples_leaf)
    return min(most_leaves, 2**params.max_depth) if params.max_depth < 31 else most_leaves


def allocate(
    n_records: Sequence[int],
    keys: np.ndarray,
    params: GrowthParams,
    n_bins: np.ndarray,
    feature_rules: FeatureRules = NO_RULES,
) -> Frontier:
    """Tables for a batch of trees, whose records stand one segment after the other."""
    capacities = [node_capacity(params, n) for n in n_records]
    capacity = sum(capacities)
    trees = np.zeros(len(n_records), TREE)
    trees["end"] = np.cumsum(n_records)
    trees["begin"] = trees["end"] - n_records
    trees["key"] = keys
    trees["first"] = np.cumsum(capacities) - capacities
    by_categories = feature_rules.categorical.any()
    is_ruled = by_categories or feature_rules.monotone.any()
    rules = np.zeros(n_bins.size if is_ruled else 0, RULE)
    if feature_rules.monotone.any():
        rules["monotone"] = feature_rules.monotone
    if by_categories:
        kinds = np.where(n_bins <= params.max_cat_to_onehot, ALONE, ORDERED)
        rules["kind"] = np.where(feature_rules.categorical, kinds, NUMERIC)
    members = [(k, feature) for k, group in enumerate(feature_rules.groups) for feature in group]
    return Frontier(
        nodes=np.zeros(capacity, NODE),
        trees=trees,
        expand=np.zeros(capacity, EXPANSION),
        pairs=np.zeros(capacity, PAIR),
        recheck=np.zeros(capacity, np.int64),
        free_slots=np.zeros(_n_slots(n_bins.size, capacity), np.int64),
        heap=np.zeros(capacity, np.int64),
        need=np.zeros(capacity, np.int64),
        rules=rules,
        members=np.array(members, MEMBER),
        left_codes=np.zeros((capacity if by_categories else 0, CODE_WORDS), np.uint32),
        state=np.zeros(8, np.int64),
    )


def set_statistics(frontier: Frontier, sums: Sequence[Any], scales: Sequence[Scales]) -> None:
    """Tell the trees the sums and the scales of their records."""
    frontier.trees["g"], frontier.trees["h"] = np.stack(sums, axis=1)
    frontier.trees["scale_g"], frontier.trees["scale_h"] = zip(*scales, strict=True)


def _n_slots(n_features: int, capacity: int) -> int:
    """How many histograms to keep. It decides the order of growth, so it depends on the
    problem alone and not on the machine."""
    return max(4, min(capacity, HISTOGRAM_BYTES // (n_features * N_SLOTS * 8)))


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
def smallest_h(frontier, params, tree):
    """``min_sum_hessian`` of a child in quantised units, at least 1."""
    return max(1, int(math.ceil(params.min_sum_hessian * frontier.trees[tree].scale_h)))


@inner
def least_h(frontier, params, x):
    """Quantised hessian below which a child of the node is too small.

    It says nothing about rows: in a node of nearly certain rows many weigh less than one that
    is not. A child with too few rows is found out when its rows are counted (``recheck``).
    """
    return smallest_h(frontier, params, frontier.nodes[x].tree)


@inner
def l2_of(frontier, params, x):
    """The L2 regularisation in quantised units."""
    return mul(params.l2, frontier.trees[frontier.nodes[x].tree].scale_h)


@inner
def category_least_h(frontier, params, x):
    """Quantised hessian below which a category goes with the missing values; its number of rows
    is estimated from its share of the hessian."""
    node = frontier.nodes[x]
    share = node.h / (node.end - node.begin)
    return max(1, int(math.ceil((params.cat_smooth - 0.5) * share)))


@inner
def category_smoothing(frontier, params, x):
    return mul(params.cat_smooth, frontier.trees[frontier.nodes[x].tree].scale_h)


@inner
def category_l2(frontier, params, x):
    return mul(params.l2 + params.cat_l2, frontier.trees[frontier.nodes[x].tree].scale_h)


@inner
def can_split(frontier, params, x):
    """Whether the node is worth looking at."""
    node = frontier.nodes[x]
    return (
        node.depth < params.max_depth
        and node.end - node.begin >= 2 * params.min_samples_leaf
        and node.h >= 2 * smallest_h(frontier, params, node.tree)
    )


@inner
def _comes_before(nodes, x, y):
    return nodes[x].gain > nodes[y].gain or (nodes[x].gain == nodes[y].gain and x < y)


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
def release(frontier, x):
    """Give the node's histogram slot back."""
    node = frontier.nodes[x]
    if node.slot >= 0:
        frontier.free_slots[frontier.state[N_FREE_SLOTS]] = node.slot
        frontier.state[N_FREE_SLOTS] += 1
        node.slot = -1


@inner
def _slots_needed(frontier, x):
    return 1 if frontier.nodes[x].slot >= 0 else 2


@inner
def choose(frontier, params):
    """Fill ``expand`` with the nodes of the next round; their number, 0 when all is done."""
    for t in range(frontier.trees.size):
        simulate(frontier, params, t)
    return open_needed(frontier, params)


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
def _evict_all(frontier):
    """Give up every kept histogram; their nodes' children will both be built from rows."""
    for x in range(frontier.state[N_NODES]):
        release(frontier, x)
    return frontier.state[N_FREE_SLOTS]


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
def kind_of(frontier, feature):
    """How the feature is split."""
    return frontier.rules[feature].kind if frontier.rules.size > 0 else np.int64(NUMERIC)


@inner
def direction_of(frontier, feature):
    """The monotone constraint of a feature."""
    return frontier.rules[feature].monotone if frontier.rules.size > 0 else np.int64(0)


@inner
def _add_pair(frontier, build, sibling):
    state = frontier.state
    state[N_FREE_SLOTS] -= 1
    frontier.nodes[build].slot = frontier.free_slots[state[N_FREE_SLOTS]]
    frontier.pairs[state[N_PAIRS]].build = build
    frontier.pairs[state[N_PAIRS]].sibling = sibling
    state[N_PAIRS] += 1


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
    """List the nodes of tree t breadth first in ``order`` from ``first`` on, and number its
    leaves; the end of the list."""
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
    """Give a node below a leaf, which was opened too early, the number of the leaf."""
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
                left_codes[i] = sets[order[i]]
            left[i] = next_child  # breadth first: children are numbered in their parents' order
            right[i] = next_child + 1
            next_child += 2


@inner
def share_of(fraction, n):
    """How many of n features a fraction stands for, at least one."""
    return max(1, min(n, int(math.floor(mul(fraction, float(n)) + 0.5))))


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
    if keep >= n:
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
def _allow_interactions(frontier, params, x, on_path, allowed):
    """Mark the features that may interact with all those of the node's path: the ones of every
    group that holds them all, or all while the path has fewer features than it may have."""
    on_path[:] = 0
    n_used = 0
    x = frontier.nodes[x].parent
    while x >= 0:
        node = frontier.nodes[x]
        if on_path[node.feature] == 0:
            on_path[node.feature] = 1
            n_used += 1
        x = node.parent
    if frontier.members.size == 0:
        for f in range(allowed.size):
            allowed[f] = 1 if n_used < params.max_path_features else on_path[f]
        return
    allowed[:] = 0
    first = 0
    while first < frontier.members.size:
        group = frontier.members[first].group
        end = first
        n_held = np.uint64(0)
        while end < frontier.members.size and frontier.members[end].group == group:
            n_held += on_path[frontier.members[end].feature]
            end += 1
        if n_held == np.uint64(n_used):
            for i in range(first, end):
                allowed[frontier.members[i].feature] = 1
        first = end


@inner
def _keep_allowed(allowed, features, n):
    """Keep those of the first n ``features`` that are allowed, in place; how many there are."""
    kept = 0
    for i in range(n):
        if allowed[features[i]] == 1:
            features[kept] = features[i]
            kept += 1
    return kept


@inner
def allow_features(frontier, params, x, features, scratch, allowed):
    """Mark the features that a node may use: drawn by tree, of those by level, of those that
    may interact with the ones of its path by node. ``features`` (int64) and ``scratch``
    (uint64) have an entry a feature."""
    n = allowed.size
    all_drawn = params.colsample_bytree * params.colsample_bylevel * params.colsample_bynode == 1.0
    all_interact = frontier.members.size == 0 and params.max_path_features == UNLIMITED
    if all_drawn and all_interact:
        allowed[:] = 1
        return
    for f in range(n):
        features[f] = f
    node = frontier.nodes[x]
    tree_key = frontier.trees[node.tree].key
    n = draw_features(tree_key, params.colsample_bytree, features, n, scratch)
    level_key = subkey(tree_key, PURPOSE_FEATURES, np.uint64(node.depth))
    n = draw_features(level_key, params.colsample_bylevel, features, n, scratch)
    if not all_interact:
        _allow_interactions(frontier, params, x, scratch, allowed)
        n = _keep_allowed(allowed, features, n)
    node_key = subkey(node.key, PURPOSE_FEATURES, np.uint64(0))
    n = draw_features(node_key, params.colsample_bynode, features, n, scratch)
    allowed[:] = 0
    for i in range(n):
        allowed[features[i]] = 1
