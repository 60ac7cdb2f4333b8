"""Growth of classification and regression trees (contract: ``kernels.cart.grow_cart``).

A thread takes a tree and grows it alone, depth first, so that a node's rows are still in its cache
when the children are looked at. A thread that finds no tree left registers as idle, and the others
then put every second node that they make on a shared stack.

    thread 0    root 0 -> its nodes ...            root 2 -> its nodes ... -+
    thread 1    root 1 -> its nodes ...  (idle) <- nodes of tree 2 ---------+

Nodes are numbered breadth first at the end, so the trees do not depend on which thread grew them.
"""

from __future__ import annotations

import numpy as np

from ...growth.control import pop, push
from ...growth.params import UNLIMITED
from ...runtime.arrays import Array
from ...runtime.compilation import fused, inlined, inner, kernel, kernel_without_allocation
from ...runtime.cpu.lanes import count_bits
from ...runtime.cpu.team import atomic_add, atomic_load, get_threads, pause, run, yield_thread
from ...scalars.rng import draw
from ..problem import (
    ABSOLUTE_ERROR,
    GINI,
    MOST_ON_LANES,
    SQUARED_ERROR,
    CartParams,
    CartTable,
    CartTarget,
    GrownCart,
    bytes_by_row,
    most_nodes,
)
from .finishing import finished
from .nodes import find_split
from .parting import part_rows
from .random_cuts.by_row import middles_of_bins, rows_side_by_side
from .random_cuts.small_subtrees import (
    ALL,
    MOST_ROWS,
    part_on_lanes,
    put_records,
    suits_lanes,
    take_records,
)
from .rows import ONE_ROW, RowArrays, mark_classes
from .tables import (
    IDLE,
    NODES,
    SERVING,
    SHARED,
    TICKET,
    TREES,
    Settings,
    allocate_rooms,
    allocate_work,
    room_of,
)

u64, i64 = np.uint64, np.int64

SHARE_ROWS = 64
"""Nodes with fewer rows are not worth handing over."""
SPINS_BEFORE_YIELD = 200
WITHOUT_CLASS = u64(2**63 - 1)
NUMBERS_AT_ONCE = 64
"""Numbers of nodes that a thread takes at a time; even."""


@inner
def _lock(counts):
    # A ticket lock: threads are served in the order in which they came, and wait on a number that
    # only the owner of the lock changes.
    ticket = atomic_add(counts, TICKET, 1)
    spins = 0
    while atomic_load(counts, SERVING) != ticket:
        spins += 1
        pause()
        if spins > SPINS_BEFORE_YIELD:
            # There may be more threads than processors: the owner has to run to unlock.
            yield_thread()


@inner
def _unlock(counts):
    atomic_add(counts, SERVING, 1)


@inner
def share(work, x):
    """Put a node on the shared stack."""
    counts = work.counts
    _lock(counts)
    work.shared[counts[SHARED]] = x
    # Atomic although the lock is held: idle threads poll the count without it.
    atomic_add(counts, SHARED, 1)
    _unlock(counts)


@inner
def take_shared(work, n_threads):
    """Return a node from the shared stack, or -1 once all threads are out of work."""
    counts = work.counts
    x = i64(-1)
    atomic_add(counts, IDLE, 1)
    spins = 0
    while True:
        # A look without the lock, so that idle threads do not slow down those that share nodes.
        if atomic_load(counts, SHARED) > 0:
            _lock(counts)
            # Another idle thread may have taken the node between the look and the lock.
            n = counts[SHARED]
            if n > 0:
                x = work.shared[n - 1]
                # A thread that polls between the next two lines sees no node and all threads idle,
                # and may stop too early. That costs parallel work but no node: the thread that
                # shares a node comes here before it stops, and takes what is left.
                atomic_add(counts, SHARED, -1)
                atomic_add(counts, IDLE, -1)
            _unlock(counts)
            if x >= 0:
                return x
        elif atomic_load(counts, IDLE) == n_threads:
            return x
        spins += 1
        pause()
        if spins > SPINS_BEFORE_YIELD:
            yield_thread()


@inlined
def someone_waits(work, node, n_threads):
    """Return whether a node is worth handing over to an idle thread."""
    if n_threads == 1 or node.end - node.begin < SHARE_ROWS:
        return False
    # Read without the lock: an old count only sends a node the long way over the stack.
    return atomic_load(work.counts, IDLE) > atomic_load(work.counts, SHARED)


@inner
def two_numbers(work, numbers):
    """Return the first of two numbers of nodes. A thread takes many at a time, since threads
    that write into the same cache line wait for each other."""
    if numbers[0] == numbers[1]:
        numbers[0] = atomic_add(work.counts, NODES, NUMBERS_AT_ONCE)
        numbers[1] = numbers[0] + NUMBERS_AT_ONCE
    numbers[0] += 2
    return numbers[0] - 2


@fused
def _split_node(table, rows, params, work, x, room):
    """Part the rows of a node, add its children, and return the left one's number."""
    nodes = work.nodes
    node = nodes[x]
    # Best first, other nodes were looked at since: the codes at hand are not those of this one.
    has_codes = params.random_splits == 1 and params.max_leaves >= UNLIMITED
    has_codes = has_codes and params.criterion != ABSOLUTE_ERROR
    # Rows first: this also settles the side of missing values that the node has not seen. Without
    # categories there are no bits, and any line of their type will do.
    bits = work.bits[x] if work.bits.size else room.bits[0]
    n_left = part_rows(table, rows, node, bits, room, has_codes)
    child = two_numbers(work, room.numbers)
    node.child = child
    direction = i64(table.monotone[node.feature])
    # Halved before they are added: the sum of two large values could overflow.
    middle = node.value_left * 0.5 + node.value_right * 0.5
    for side in range(2):
        new = nodes[child + side]
        _begin_child(node, new, side, n_left)
        new.low, new.high = node.low, node.high
        # A feature that is constant in a node is constant in every part of it.
        for w in range(work.constant.shape[1]):
            work.constant[child + side, w] = work.constant[x, w]
        if direction != 0:
            # The lower side has the middle as its upper bound: the left one if predictions must
            # rise.
            if (side == 0) == (direction > 0):
                new.high = middle
            else:
                new.low = middle
    return child


@inlined
def _begin_child(node, new, side, n_left):
    new.tree = node.tree
    new.depth = node.depth + 1
    new.begin = node.begin if side == 0 else node.begin + n_left
    new.end = node.begin + n_left if side == 0 else node.end
    new.key = draw(node.key, u64(1 + side))


@fused
def _grow_on_lanes(table, rows, params, work, x, room):
    """Grow everything below a node, a bit for each of its rows (see ``small_subtrees``)."""
    nodes, lanes = work.nodes, room.lanes
    n = nodes[x].end - nodes[x].begin
    tree_weight = work.weight[nodes[x].tree]
    ones = take_records(rows.records[nodes[x].begin : nodes[x].end], lanes)
    # At least one row: a shift by all bits would be undefined.
    lanes.node[0], lanes.inside[0] = x, ALL >> u64(MOST_ROWS - n)
    n_stacked = 1
    while n_stacked > 0:
        n_stacked -= 1
        x, inside = lanes.node[n_stacked], lanes.inside[n_stacked]
        node = nodes[x]
        left = part_on_lanes(
            table, rows, params, tree_weight, node, work.statistics[x], inside, ones, room
        )
        if left == u64(0):
            put_records(rows.records[node.begin : node.end], lanes, inside)
            continue
        n_left = i64(count_bits(left))
        if node.missing_left < 0:
            # At a tie the right child counts as larger, as in the contract.
            node.missing_left = i64(1 if 2 * n_left > node.end - node.begin else 0)
        node.child = two_numbers(work, room.numbers)
        for side in range(2):
            _begin_child(node, nodes[node.child + side], side, n_left)
        lanes.node[n_stacked], lanes.inside[n_stacked] = node.child + 1, inside & ~left
        lanes.node[n_stacked + 1], lanes.inside[n_stacked + 1] = node.child, left
        n_stacked += 2


@fused
def _look_at(table, rows, params, work, x, room):
    node = work.nodes[x]
    find_split(
        table, rows, params, work.weight[node.tree], node, work.statistics[x],
        work.constant[x], room,
    )  # fmt: skip
    if node.feature >= 0 and table.categorical[node.feature] == 1:
        # The bits are scratch, which the next node overwrites.
        for w in range((table.n_bins[node.feature] + 31) >> 5):
            work.bits[x, w] = room.bits[0, w]


@fused
def _grow_below(table, rows, params, work, x, room, stack, heap, n_threads):
    """Grow everything below a node: depth first, or best first where leaves are limited.

    One thread numbers the nodes of a tree that grows best first, so older ones have lower numbers.
    """
    nodes = work.nodes
    best_first = params.max_leaves < UNLIMITED
    stack[0] = x
    n_stacked, n_heap, n_leaves = i64(1), i64(0), i64(1)
    while True:
        split = i64(-1)
        # Young nodes come before the heap: where leaves are limited, both children have to be on it
        # before the next best node is chosen.
        if n_stacked > 0:
            n_stacked -= 1
            x = stack[n_stacked]
            if suits_lanes(nodes[x], rows):
                _grow_on_lanes(table, rows, params, work, x, room)
                continue
            _look_at(table, rows, params, work, x, room)
            if best_first and nodes[x].feature >= 0:
                n_heap = push(heap, i64(0), n_heap, nodes, x)
            elif nodes[x].feature >= 0:
                split = x
        elif n_heap > 0 and n_leaves < params.max_leaves:
            split = heap[0]
            n_heap = pop(heap, i64(0), n_heap, nodes)
            # A split replaces one leaf by two.
            n_leaves += 1
        else:
            break
        if split >= 0:
            child = _split_node(table, rows, params, work, split, room)
            # The left child is on top: it is looked at next, while its rows are in the cache.
            stack[n_stacked] = child + 1
            n_stacked += 1
            # A tree that grows best first needs all its candidates on one heap, and stays with its
            # thread.
            if someone_waits(work, nodes[child], n_threads) and not best_first:
                share(work, child)
            else:
                stack[n_stacked] = child
                n_stacked += 1
    # The limit was reached before these nodes had their turn: they are leaves.
    for i in range(n_heap):
        nodes[heap[i]].feature = -1
        nodes[heap[i]].gain = 0.0


@kernel_without_allocation
def _worker(thread, n_threads, barrier, table, rows, params, work, rooms, stacks):
    room = room_of(thread, n_threads, rooms)
    stack, heap = stacks[thread, 0], stacks[thread, 1]
    while True:
        # Roots are the nodes 0, 1, ..., so that the count of trees taken is the next root.
        x = atomic_add(work.counts, TREES, 1)
        if x >= work.weight.size:
            # No tree is left: help with nodes of those that others grow.
            x = take_shared(work, n_threads)
            if x < 0:
                break
        elif rows.unit != 0:
            mark_classes(rows.classes[0], rows.records[work.nodes[x].begin : work.nodes[x].end])
        _grow_below(table, rows, params, work, x, room, stack, heap, n_threads)


def grow_cart(
    table: CartTable,
    target: CartTarget,
    records: Array,
    tree_begin: np.ndarray,
    tree_end: np.ndarray,
    keys: np.ndarray,
    params: CartParams,
) -> GrownCart:
    n_trees = tree_begin.size
    sizes = tree_end - tree_begin
    # Starting a thread takes longer than growing on a few hundred records.
    n_threads = max(1, min(get_threads(), int(sizes.sum()) // 512))
    weights = _tree_weights(target.weight, records, tree_begin, tree_end)
    unit = _unit_of_rows(table, target, params, weights, sizes)
    by_row, on_lanes = ways_of_nodes(table, target, records.size, params, unit)
    rooms = allocate_rooms(n_threads, int(sizes.max()), table, target, params, on_lanes=on_lanes)
    work = allocate_work(
        # Every thread may leave some of the numbers that it took last unused.
        most_nodes(sizes, params) + n_threads * NUMBERS_AT_ONCE,
        weights,
        table,
        target.n_statistics,
        rooms.bits.shape[2] if bool((table.categorical == 1).any()) else 0,
    )
    roots = work.nodes[:n_trees]
    roots["tree"], roots["depth"] = np.arange(n_trees), 0
    roots["begin"], roots["end"], roots["key"] = tree_begin, tree_end, keys
    roots["low"], roots["high"] = -np.inf, np.inf
    settings = Settings(*params, bounded=bool((table.monotone != 0).any()))
    # Nodes on a stack or heap are disjoint and have rows: there are no more than the tree has rows.
    stacks = np.empty((n_threads, 2, int(sizes.max()) + 2), np.int64)
    rows = _rows(table, target, records, params, unit, by_row, on_lanes)
    run(_worker, n_threads, table, rows, settings, work, rooms, stacks)
    if unit:
        records &= WITHOUT_CLASS
    nodes = work.nodes[: work.counts[NODES]]
    return finished(table, nodes, work.statistics, work.bits, n_trees)


def _rows(
    table: CartTable,
    target: CartTarget,
    records: np.ndarray,
    params: CartParams,
    unit: int,
    reads_by_row: bool,
    on_lanes: bool,
) -> RowArrays:
    rank, n_ranks = np.empty((0, 0), np.uint32), 1
    if params.criterion == ABSOLUTE_ERROR:
        # Ranks are sorted by their digits, and number the values of a node without comparisons.
        distinct, inverse = np.unique(target.values, return_inverse=True)
        rank, n_ranks = inverse.reshape(target.values.shape).astype(np.uint32), distinct.size
    codes = table.codes
    by_row, middle = np.empty(0, codes.dtype), np.empty(0)
    if reads_by_row and params.random_splits:
        by_row = rows_side_by_side(codes)
    elif reads_by_row:
        by_row = np.ascontiguousarray(codes.T).reshape(-1)
    if on_lanes or (reads_by_row and params.random_splits):
        middle = middles_of_bins(table)
    return RowArrays(
        target.classes, target.values, rank, n_ranks, target.weight, unit, target.output_begin,
        records, codes.reshape(-1), by_row, middle,
    )  # fmt: skip


def ways_of_nodes(
    table: CartTable, target: CartTarget, n_records: int, params: CartParams, unit: int
) -> tuple[bool, bool]:
    """Return whether nodes read the codes from a copy row by row, and whether subtrees of few rows
    are grown on lanes, never both; ``unit`` is that of ``RowArrays``."""
    codes = table.codes
    n_copied = bytes_by_row(
        codes.shape[::-1], n_records, params.max_features, params.max_depth,
        params.random_splits == 1,
    )  # fmt: skip
    copy_pays = n_copied > 0 and codes.itemsize == 1
    if params.random_splits == 0:
        return copy_pays, False
    if codes.itemsize > 1 or bool((table.monotone != 0).any()) or bool(table.categorical.any()):
        return False, False
    of_two_classes = params.criterion == GINI and unit != 0
    of_numbers = target.classes.shape[0] == 0 and target.n_outputs == 1
    of_numbers = of_numbers and params.criterion == SQUARED_ERROR
    if copy_pays and (of_two_classes or of_numbers):
        return True, False
    is_narrow = codes.shape[0] <= MOST_ON_LANES
    return False, of_two_classes and is_narrow and params.max_leaves >= UNLIMITED


def _unit_of_rows(
    table: CartTable, target: CartTarget, params: CartParams, weights: np.ndarray, sizes: np.ndarray
) -> int:
    """Return ``RowArrays.unit``: not 0 for random splits of two classes, if all rows of all samples
    count alike. ``weights`` are those of the samples."""
    if params.random_splits == 0 or target.classes.shape[0] != 1 or target.n_statistics != 2:
        return 0
    # A cut of categories looks at rows one by one.
    if table.categorical.any():
        return 0
    first = int(target.weight[0])
    # Rows that are more than once in a sample make it heavier than its size.
    if (weights != sizes * first).any() or (target.weight != first).any():
        return 0
    return int(ONE_ROW) + first


def _tree_weights(
    weight: np.ndarray, records: np.ndarray, begin: np.ndarray, end: np.ndarray
) -> np.ndarray:
    totals = np.empty(begin.size, np.int64)
    _add_up_trees(weight, records, begin, end, totals)
    return totals


@kernel
def _add_up_trees(weight, records, begin, end, totals):
    for t in range(begin.size):
        total = i64(0)
        for i in range(begin[t], end[t]):
            total += weight[records[i] & u64(0xFFFFFFFF)] * i64(records[i] >> u64(32))
        totals[t] = total
