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
from ...runtime.cpu.team import atomic_add, atomic_load, get_threads, pause, run, yield_thread
from ...scalars.rng import draw
from ..grown import most_nodes
from ..problem import ABSOLUTE_ERROR, CartParams, CartTable, CartTarget, GrownCart
from .finishing import finished
from .nodes import find_split
from .rows import RowArrays, part_rows
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
NUMBERS_AT_ONCE = 64
"""Numbers of nodes that a thread takes at a time; even."""


@inner
def _lock(counts):
    ticket = atomic_add(counts, TICKET, 1)
    spins = 0
    while atomic_load(counts, SERVING) != ticket:
        spins += 1
        pause()
        if spins > SPINS_BEFORE_YIELD:
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
        if atomic_load(counts, SHARED) > 0:
            _lock(counts)
            n = counts[SHARED]
            if n > 0:
                x = work.shared[n - 1]
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
    n_left = part_rows(table, rows, node, work.bits[x] if work.bits.size else room.bits[0], room)
    child = two_numbers(work, room.numbers)
    node.child = child
    direction = i64(table.monotone[node.feature])
    middle = node.value_left * 0.5 + node.value_right * 0.5
    for side in range(2):
        new = nodes[child + side]
        new.tree = node.tree
        new.depth = node.depth + 1
        new.begin = node.begin if side == 0 else node.begin + n_left
        new.end = node.begin + n_left if side == 0 else node.end
        new.key = draw(node.key, u64(1 + side))
        new.low, new.high = node.low, node.high
        for w in range(work.constant.shape[1]):
            work.constant[child + side, w] = work.constant[x, w]
        if direction != 0:
            if (side == 0) == (direction > 0):
                new.high = middle
            else:
                new.low = middle
    return child


@fused
def _look_at(table, rows, params, work, x, room):
    node = work.nodes[x]
    find_split(
        table, rows, params, work.weight[node.tree], node, work.statistics[x],
        work.constant[x], room,
    )  # fmt: skip
    if node.feature >= 0 and table.categorical[node.feature] == 1:
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
        if n_stacked > 0:
            n_stacked -= 1
            x = stack[n_stacked]
            _look_at(table, rows, params, work, x, room)
            if best_first and nodes[x].feature >= 0:
                n_heap = push(heap, i64(0), n_heap, nodes, x)
            elif nodes[x].feature >= 0:
                split = x
        elif n_heap > 0 and n_leaves < params.max_leaves:
            split = heap[0]
            n_heap = pop(heap, i64(0), n_heap, nodes)
            n_leaves += 1
        else:
            break
        if split >= 0:
            child = _split_node(table, rows, params, work, split, room)
            stack[n_stacked] = child + 1
            n_stacked += 1
            if someone_waits(work, nodes[child], n_threads) and not best_first:
                share(work, child)
            else:
                stack[n_stacked] = child
                n_stacked += 1
    for i in range(n_heap):
        nodes[heap[i]].feature = -1
        nodes[heap[i]].gain = 0.0


@kernel_without_allocation
def _worker(thread, n_threads, barrier, table, rows, params, work, rooms, stacks):
    room = room_of(thread, n_threads, rooms)
    stack, heap = stacks[thread, 0], stacks[thread, 1]
    while True:
        x = atomic_add(work.counts, TREES, 1)
        if x >= work.weight.size:
            x = take_shared(work, n_threads)
            if x < 0:
                break
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
    n_threads = max(1, min(get_threads(), int(sizes.sum()) // 512))
    rooms = allocate_rooms(n_threads, int(sizes.max()), table, target, params)
    work = allocate_work(
        most_nodes(sizes, params) + n_threads * NUMBERS_AT_ONCE,
        _tree_weights(target.weight, records, tree_begin, tree_end),
        table,
        target.n_statistics,
        rooms.bits.shape[2] if bool((table.categorical == 1).any()) else 0,
    )
    roots = work.nodes[:n_trees]
    roots["tree"], roots["depth"] = np.arange(n_trees), 0
    roots["begin"], roots["end"], roots["key"] = tree_begin, tree_end, keys
    roots["low"], roots["high"] = -np.inf, np.inf
    settings = Settings(*params, bounded=bool((table.monotone != 0).any()))
    stacks = np.empty((n_threads, 2, int(sizes.max()) + 2), np.int64)
    rows = _rows(target, records, params)
    run(_worker, n_threads, table, rows, settings, work, rooms, stacks)
    nodes = work.nodes[: work.counts[NODES]]
    return finished(table, nodes, work.statistics, work.bits, n_trees)


def _rows(target: CartTarget, records: np.ndarray, params: CartParams) -> RowArrays:
    rank, n_ranks = np.empty((0, 0), np.uint32), 1
    if params.criterion == ABSOLUTE_ERROR:
        distinct, inverse = np.unique(target.values, return_inverse=True)
        rank, n_ranks = inverse.reshape(target.values.shape).astype(np.uint32), distinct.size
    return RowArrays(
        target.classes, target.values, rank, n_ranks, target.weight, target.output_begin, records
    )


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
