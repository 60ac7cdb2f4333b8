"""The decisions between the launches over rows: which nodes are opened, and their children.

A round reads one line of ``state`` and writes the other, so that blocks may read it while one of
them prepares the next round. Where the number of leaves is not limited, all young nodes with a
split are opened: blocks count them and then list them in ascending order. Otherwise a single block
chooses each tree's best one; its threads are shared by the trees.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...growth.params import UNLIMITED
from ...runtime.arrays import Array
from ...runtime.cuda.blocks import inclusive_scan, share_of_block
from ...runtime.cuda.loops import rolled
from ...runtime.cuda.target import block_size, blocks_for, cuda, device_function, kernel, launch
from ...scalars.gain import between_values
from ...scalars.rng import draw
from ..problem import CartParams
from .candidates import MASK, SHIFT, is_classification, n_packed
from .rows import list_tiles
from .tables import (
    FIRST,
    FIRST_TILE,
    HUGE,
    IS_FULL,
    LEAST_GAIN,
    LEAST_WEIGHT,
    MONOTONE,
    MOST_SMALL,
    N_HUGE,
    N_LARGE,
    N_LEAVES,
    N_NODES,
    N_OPENED,
    N_OWN_YOUNG,
    N_PARTS,
    N_TILES,
    N_WAITING,
    N_YOUNG,
    NODE_OF,
    SOUGHT,
    YOUNG,
    Bins,
    CartNodes,
    Growing,
    Sizes,
)

i64, u64, f64 = np.int64, np.uint64, np.float64

BLOCK = block_size(256)


@device_function
def packed_of(statistics, x, entry_begin):
    """Return rows and weight of statistics."""
    packed = i64(0)
    for s in rolled(range(n_packed(entry_begin))):
        packed += statistics[x, s]
    return packed


@device_function
def has_one_class(statistics, x, packed, entry_begin):
    """Return whether all rows of a node have the same class in every output."""
    for output in rolled(range(entry_begin.shape[0] - 1)):
        one = False
        for s in rolled(range(entry_begin[output], entry_begin[output + 1])):
            # Both are packed: one class has all rows, and the whole weight.
            one = one or statistics[x, s] == packed
        if not one:
            return False
    return True


@device_function
def list_huge(x, n_rows, state, line, huge, tiles, sizes):
    """List a node if it is huge, and its tiles. Return its number among those, -1 if it is not, or
    if there is no room for more."""
    if n_rows <= sizes[0] or huge.shape[0] == 0:
        return i64(-1)
    number = cuda.atomic.add(state, (line, N_HUGE), 1)
    # The count may exceed the table: what has no room is searched as a large node, by one block.
    if number >= huge.shape[0]:
        return i64(-1)
    huge[number, NODE_OF] = x
    huge[number, FIRST_TILE] = list_tiles(number, n_rows, sizes[1], state, line, N_TILES, tiles)
    return number


@device_function
def begin_search(x, nodes, statistics, limits, entry_begin, state, line, lists, sizes, own_limits):
    """Mark or list a node whose split is to be found in the round of a line."""
    large, huge, tiles = lists
    max_depth, least = own_limits
    node = nodes[x]
    packed = packed_of(statistics, x, entry_begin)
    n_rows = packed >> SHIFT
    wanted = (
        node.depth < max_depth
        and n_rows >= least
        and f64(packed & MASK) >= 2.0 * limits[node.tree, LEAST_WEIGHT]
    )
    if wanted and is_classification(entry_begin):
        wanted = not has_one_class(statistics, x, packed, entry_begin)
    node.feature = SOUGHT if wanted and n_rows <= MOST_SMALL else -1
    if wanted and n_rows > MOST_SMALL:
        # The order of the list depends on which thread comes first; no result does, as each node is
        # searched by itself.
        k = cuda.atomic.add(state, (line, N_LARGE), 1)
        large[k, NODE_OF] = x
        large[k, HUGE] = list_huge(x, n_rows, state, line, huge, tiles, sizes)


@kernel
def plant(
    begin, end, keys, sums, entry_begin, nodes, statistics, limits, trees, state, large, huge,
    tiles, most_large, tile_rows, max_depth, least_rows, least_share, least_gain,
):  # fmt: skip
    """Make the roots, a tree a thread."""
    x = i64(cuda.grid(1))
    n_trees = begin.shape[0]
    if x == 0:
        state[0, FIRST] = 0
        state[0, N_YOUNG] = n_trees
        state[0, N_NODES] = n_trees
    while x < n_trees:
        node = nodes[x]
        node.tree = x
        node.depth = 0
        node.begin = begin[x]
        node.end = end[x]
        node.key = keys[x]
        node.low = -np.inf
        node.high = np.inf
        node.child = -1
        for s in rolled(range(statistics.shape[1])):
            statistics[x, s] = sums[x, 0, s]
        weight = f64(packed_of(statistics, x, entry_begin) & MASK)
        limits[x, LEAST_WEIGHT] = least_share * weight
        # -inf: without a least gain, even one below zero by rounding does not prevent a split.
        limits[x, LEAST_GAIN] = least_gain * weight if least_gain > 0.0 else -np.inf
        # For trees with a limit on the leaves: the root is the one young node.
        trees[x, N_LEAVES] = 1
        trees[x, N_WAITING] = 0
        trees[x, YOUNG] = x
        trees[x, N_OWN_YOUNG] = 1
        begin_search(
            x, nodes, statistics, limits, entry_begin, state, 0, (large, huge, tiles),
            (most_large, tile_rows), (max_depth, least_rows),
        )  # fmt: skip
        x += cuda.gridsize(1)


@kernel
def count_splits(nodes, state, line, counts):
    """Count the young nodes with a split, each block its part."""
    scan = cuda.shared.array(BLOCK, np.int64)
    t = cuda.threadIdx.x
    # Each block counts a run of nodes, so that ``list_splits`` knows where the run's nodes begin,
    # and lists all of them in ascending order whichever block is first.
    first, last = share_of_block(state[line, N_YOUNG])
    own = i64(0)
    for k in rolled(range(first + t, last, BLOCK)):
        if nodes[state[line, FIRST] + k].feature >= 0:
            own += 1
    scan[t] = own
    inclusive_scan(scan, t)
    if t == 0:
        counts[cuda.blockIdx.x] = scan[BLOCK - 1]


@device_function
def note_opened(state, line, n_opened, capacity):
    """Note how many nodes are opened, none if there is no room for their children, and prepare the
    next round's line; called by one thread."""
    # Two children for each node that is opened.
    is_full = state[line, N_NODES] + 2 * n_opened > capacity
    state[line, IS_FULL] = 1 if is_full else 0
    state[line, N_OPENED] = 0 if is_full else n_opened
    state[line, N_PARTS] = 0
    # A full table stops the round before children are made: its lists serve the next one again.
    for counter in (N_LARGE, N_HUGE, N_TILES):
        state[1 - line, counter] = state[line, counter] if is_full else 0


@kernel
def list_splits(nodes, state, line, counts, opened, capacity):
    """List the young nodes with a split, each block its part behind those of the blocks before."""
    scan = cuda.shared.array(BLOCK, np.int64)
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x
    total = i64(0)
    before = i64(0)
    # Every block adds up the counts of all: that is cheaper than a launch that does it once.
    for other in rolled(range(t, counts.shape[0], BLOCK)):
        total += counts[other]
        if other < b:
            before += counts[other]
    scan[t] = before
    inclusive_scan(scan, t)
    to = scan[BLOCK - 1]
    cuda.syncthreads()  # all have read it
    scan[t] = total
    inclusive_scan(scan, t)
    if b == 0 and t == 0:
        note_opened(state, line, scan[BLOCK - 1], capacity)
    first, last = share_of_block(state[line, N_YOUNG])
    # A node a thread: its place follows from the scan of this step and the steps before.
    while first < last:
        cuda.syncthreads()  # all have read the scan before
        x = state[line, FIRST] + first + t
        own = i64(0)
        if first + t < last and nodes[x].feature >= 0:
            own = i64(1)
        scan[t] = own
        inclusive_scan(scan, t)
        if own > 0:
            opened[to + scan[t] - 1] = x
        to += scan[BLOCK - 1]
        first += BLOCK


@device_function
def lanes_of(n_trees):
    """Return how many threads of a block choose the node of a tree: a power of two."""
    lanes = BLOCK
    while lanes > 1 and lanes * n_trees > BLOCK:
        lanes >>= 1
    return lanes


@device_function
def list_waiting(nodes, trees, waiting, tree):
    """Let the young nodes of a tree wait that have a split."""
    n = trees[tree, N_WAITING]
    for k in rolled(range(trees[tree, N_OWN_YOUNG])):
        young = trees[tree, YOUNG] + k
        if nodes[young].feature >= 0:
            waiting[tree, n] = young
            n += 1
    trees[tree, N_WAITING] = n
    trees[tree, N_OWN_YOUNG] = 0


@device_function
def is_better(gain, x, other_gain, other):
    """Return whether a node, if there is one, has a larger gain than another one, if there is one;
    the older one wins ties."""
    if x < 0 or other < 0:
        return x >= 0
    return gain > other_gain or gain == other_gain and x < other


@device_function
def find_best(nodes, waiting, tree, n, lanes, shared, t):
    """Find the node with the largest gain among the n of a tree that wait, to the first of the
    tree's threads: its number and its place, in ``shared`` behind the gains."""
    gains, numbers, places = shared
    lane = t & (lanes - 1)
    gains[t], numbers[t] = 0.0, -1
    # First the best of each lane's nodes, then halves of the lanes are compared, down to one.
    for k in rolled(range(lane, n, lanes)):
        x = waiting[tree, k]
        gain = nodes[x].gain
        if is_better(gain, x, gains[t], numbers[t]):
            gains[t], numbers[t], places[t] = gain, x, k
    half = lanes >> 1
    while half > 0:
        cuda.syncthreads()  # the upper half is there
        o = t + half
        if lane < half and is_better(gains[o], numbers[o], gains[t], numbers[t]):
            gains[t], numbers[t], places[t] = gains[o], numbers[o], places[o]
        half >>= 1


@kernel
def choose_best(nodes, trees, waiting, state, line, max_leaves, opened):
    """Choose the best node of each tree that may have more leaves. One block."""
    if cuda.blockIdx.x > 0:
        return
    scan = cuda.shared.array(BLOCK, np.int64)
    gains = cuda.shared.array(BLOCK, np.float64)
    numbers = cuda.shared.array(BLOCK, np.int64)
    places = cuda.shared.array(BLOCK, np.int64)
    t = cuda.threadIdx.x
    n_trees = i64(trees.shape[0])
    lanes = lanes_of(n_trees)
    n_opened = i64(0)
    first = i64(0)
    while first < n_trees:
        # As many trees at a time as the block has groups of lanes.
        tree = first + t // lanes
        leads = t & (lanes - 1) == 0 and tree < n_trees
        if leads:
            list_waiting(nodes, trees, waiting, tree)
        cuda.syncthreads()  # for all threads of the tree
        n = i64(0)
        if tree < n_trees and trees[tree, N_LEAVES] < max_leaves:
            n = trees[tree, N_WAITING]
        find_best(nodes, waiting, tree, n, lanes, (gains, numbers, places), t)
        cuda.syncthreads()  # the first thread may move a place that others read
        if leads and n > 0:
            # The last one fills the gap: those that wait need no order, since ties go to older
            # nodes.
            waiting[tree, places[t]] = waiting[tree, n - 1]
            trees[tree, N_WAITING] = n - 1
            trees[tree, N_LEAVES] += 1
        scan[t] = 1 if leads and n > 0 else 0
        inclusive_scan(scan, t)
        if leads and n > 0:
            # In the order of the trees, so that the numbers of children do not depend on the
            # threads.
            opened[n_opened + scan[t] - 1] = numbers[t]
        n_opened += scan[BLOCK - 1]
        first += BLOCK // lanes
        cuda.syncthreads()  # ``scan`` and the bests have been read
    if t == 0:
        note_opened(state, line, n_opened, nodes.shape[0])


@kernel
def make_children(
    nodes, statistics, of_left, limits, trees, opened, features, entry_begin, state, line, large,
    huge, tiles, parts, most_large, tile_rows, max_depth, least_rows, is_limited,
):  # fmt: skip
    """Make the children of an opened node a thread, and begin the next round."""
    k = i64(cuda.grid(1))
    n_opened = state[line, N_OPENED]
    n_nodes = state[line, N_NODES]
    is_full = state[line, IS_FULL]
    # One thread prepares the line of the next round; the counters of its lists were cleared by
    # ``note_opened``, in a launch before this one.
    if k == 0:
        state[1 - line, FIRST] = state[line, FIRST] if is_full != 0 else n_nodes
        state[1 - line, N_YOUNG] = state[line, N_YOUNG] if is_full != 0 else 2 * n_opened
        state[1 - line, N_NODES] = n_nodes + 2 * n_opened
        state[1 - line, IS_FULL] = is_full
    while k < n_opened:
        x = opened[k]
        # From the place in the list, which is the same in every run; a counter would not be.
        child = n_nodes + 2 * k
        node = nodes[x]
        node.child = child
        for s in rolled(range(statistics.shape[1])):
            # The right child has the rest: differences of integers are exact.
            statistics[child, s] = of_left[x, s]
            statistics[child + 1, s] = statistics[x, s] - of_left[x, s]
        n_left = packed_of(of_left, x, entry_begin) >> SHIFT
        n_rows = node.end - node.begin
        # Its rows are still to be partitioned, tile by tile.
        if n_rows > most_large and parts.shape[0] > 0:
            list_tiles(x, n_rows, tile_rows, state, line, N_PARTS, parts)
        direction = features[node.feature, MONOTONE]
        middle = between_values(node.value_left, node.value_right)
        for side in rolled(range(2)):
            young = nodes[child + side]
            young.tree = node.tree
            young.depth = node.depth + 1
            young.begin = node.begin if side == 0 else node.begin + n_left
            young.end = node.begin + n_left if side == 0 else node.end
            young.key = draw(node.key, u64(side + 1))
            # The bounds of monotone constraints: below a constrained split the sides meet in the
            # middle.
            is_low_side = direction > 0 and side == 0 or direction < 0 and side == 1
            young.low = middle if direction != 0 and not is_low_side else node.low
            young.high = middle if is_low_side else node.high
            young.child = -1
            # A child is looked at where it is made: what it needs is at hand.
            begin_search(
                child + side, nodes, statistics, limits, entry_begin, state, 1 - line,
                (large, huge, tiles), (most_large, tile_rows), (max_depth, least_rows),
            )  # fmt: skip
        if is_limited != 0:  # it is the only one of its tree
            trees[node.tree, YOUNG] = child
            trees[node.tree, N_OWN_YOUNG] = 2
        k += cuda.gridsize(1)


class CartLimits(NamedTuple):
    """The limits of growth.

    least_rows : int
        Of a node that is split.
    """

    max_depth: int
    max_leaves: int
    least_rows: int

    @property
    def is_limited(self) -> bool:
        """Return whether the number of leaves is limited."""
        return self.max_leaves < UNLIMITED


def limits_of(params: CartParams) -> CartLimits:
    """Return the limits of growth."""
    least = max(params.min_samples_split, 2 * params.min_samples_leaf)
    # A tree of one leaf: no root has so many rows.
    least = least if params.max_leaves > 1 else UNLIMITED
    return CartLimits(params.max_depth, params.max_leaves, least)


def plant_roots(
    segments: tuple[Array, Array, Array],
    sums: Array,
    bins: Bins,
    nodes: CartNodes,
    growing: Growing,
    sizes: Sizes,
    params: CartParams,
) -> None:
    """Make the roots; ``segments`` are begins, ends and keys of the trees."""
    limits = limits_of(params)
    launch(
        plant, blocks_for(-(-sums.shape[0] // BLOCK)), BLOCK,
        *segments, sums, bins.entry_begin, nodes.table, nodes.statistics,
        growing.limits, growing.trees, growing.state, growing.large, growing.huge, growing.tiles,
        *sizes, limits.max_depth, limits.least_rows, params.min_weight_fraction, params.min_gain,
    )  # fmt: skip


def open_nodes(
    bins: Bins, nodes: CartNodes, growing: Growing, line: int, limits: CartLimits, sizes: Sizes
) -> None:
    """Choose the nodes to open, and make their children."""
    most = growing.opened.shape[0]
    state, counts, opened = growing.state, growing.counts, growing.opened
    if limits.is_limited:
        # Best first: one block, as trees open one node a round each.
        launch(
            choose_best, blocks_for(1), BLOCK,
            nodes.table, growing.trees, growing.waiting, state, line, limits.max_leaves, opened,
        )  # fmt: skip
    else:
        # All young nodes with a split.
        blocks = counts.shape[0]
        launch(count_splits, blocks, BLOCK, nodes.table, state, line, counts)
        launch(list_splits, blocks, BLOCK, nodes.table, state, line, counts, opened, nodes.capacity)
    launch(
        make_children, blocks_for(-(-most // BLOCK)), BLOCK,
        nodes.table, nodes.statistics, nodes.of_left, growing.limits, growing.trees, opened,
        bins.features, bins.entry_begin, state, line, growing.large, growing.huge, growing.tiles,
        growing.parts, *sizes, limits.max_depth, limits.least_rows, int(limits.is_limited),
    )  # fmt: skip
