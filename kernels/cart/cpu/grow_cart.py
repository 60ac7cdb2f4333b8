"""Growth of classification and regression trees (contract: ``kernels.cart.grow_cart``).

A thread takes a tree and grows it alone, depth first, so that a node's rows are still in its cache
when the children are looked at. A thread that finds no tree left says so, and the others then
put every second node that they make on a shared stack.

    thread 0    root 0 -> its nodes ...            root 2 -> its nodes ... -+
    thread 1    root 1 -> its nodes ...  (idle) <- nodes of tree 2 ---------+

Nodes are numbered breadth first at the end, so who grew them leaves no trace.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...growth.params import UNLIMITED
from ...runtime.compilation import inlined, kernel, kernel_without_allocation
from ...runtime.cpu.team import atomic_add, get_threads, run
from ...scalars.rng import draw
from ..problem import ABSOLUTE_ERROR, CartParams, CartTable, CartTarget, GrownCart
from .nodes import find_split
from .numbering import emitted
from .queue import NUMBERS_AT_ONCE, pop, push, share, someone_waits, take_shared, two_numbers
from .rows import Rows, part_rows
from .tables import TREES, Settings, allocate_rooms, allocate_work, room_of

u64, i64 = np.uint64, np.int64


@inlined
def _split_node(table, rows, params, work, x, room):
    """Part the rows of a node and add its children; the left one's number."""
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


@inlined
def _look_at(table, rows, params, work, x, room):
    node = work.nodes[x]
    find_split(
        table, rows, params, work.weight[node.tree], node, work.statistics[x],
        work.constant[x], room,
    )  # fmt: skip
    if node.feature >= 0 and table.categorical[node.feature] == 1:
        for w in range((table.n_bins[node.feature] + 31) >> 5):
            work.bits[x, w] = room.bits[0, w]


@inlined
def _grow_below(table, rows, params, work, x, room, stack, heap, n_threads):
    """Grow everything below a node: depth first, or, where leaves are limited, the best first.

    One thread numbers the nodes of a tree that grows best first, so older ones have lower
    numbers.
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
            if best_first:
                n_heap = push(heap, n_heap, nodes, x)
            elif nodes[x].feature >= 0:
                split = x
        elif n_heap > 0 and n_leaves < params.max_leaves:
            split = heap[0]
            n_heap = pop(heap, n_heap, nodes)
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
    room = room_of(thread, rooms)
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
    records: Any,
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
        _most_nodes(sizes, params) + n_threads * NUMBERS_AT_ONCE,
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
    return emitted(table, work, n_trees)


def _most_nodes(sizes: np.ndarray, params: CartParams) -> int:
    """Most nodes that trees on samples of these sizes can have."""
    leaves = np.maximum(1, sizes // params.min_samples_leaf)
    leaves = np.minimum(leaves, params.max_leaves)
    if params.max_depth < 31:
        leaves = np.minimum(leaves, 2**params.max_depth)
    return int((2 * leaves - 1).sum())


def _rows(target: CartTarget, records: np.ndarray, params: CartParams) -> Rows:
    rank, n_ranks = np.empty((0, 0), np.uint32), 1
    if params.criterion == ABSOLUTE_ERROR:
        distinct, inverse = np.unique(target.values, return_inverse=True)
        rank, n_ranks = inverse.reshape(target.values.shape).astype(np.uint32), distinct.size
    return Rows(
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
