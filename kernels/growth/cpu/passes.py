"""The compiled phases of growth on a table that is larger than memory: records stay where they are,
and a round is one pass over the table in the order of the rows.

A row has a number in place of a position among the records of its node. Children get their numbers
before the pass, which routes the rows of the nodes that are opened, counts them, and adds up the
histogram of one child of each at the same time::

    row            0   1   2   3   4   5   6   7   8   9  ...
    number before  1   2   2   1   0   2   1   1   2   2       node 2 is opened: children 5 and 6
    number after   1   5   6   1   0   5   1   1   6   5       rows of 5 are added up
                       +               +               +

That child is the one of the smaller hessian, since how many rows it has is not known yet; the other
histogram is the parent's minus this one, and integers give the same sums either way. If the pass
finds that a child has fewer than ``min_samples_leaf`` rows, both numbers stand for the parent from
then on, and another pass counts its rows by their codes.

What lies between the passes serves a GPU, too, which walks over the rows itself
(``kernels.growth.cuda.passes``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...runtime.compilation import inner, kernel_without_allocation
from ...runtime.cpu.lanes import byte_of
from ...runtime.cpu.team import atomic_add, wait
from ...runtime.dtypes import N_SLOTS
from ...statistics.cpu.quantise import integers, record_of
from .. import control
from .. import frontier as fr
from ..frontier import Frontier
from ..params import GrowthParams
from .histogram import (
    WORD_ENTRIES,
    add_eight,
    add_fewer,
    add_used,
    clear_used,
    pack_planes,
    unpack_record,
)
from .partition import below_cut, cut_of, in_set
from .search import evaluate, recheck_known, settle_nodes
from .tables import EVALUATE, RECHECK, Table, Work

u8, u32, u64, i64 = np.uint8, np.uint32, np.uint64, np.int64

PIECE_ROWS = 1 << 13
"""Rows that a thread takes at a time."""
BLOCK = 1 << 10
"""Rows that are routed before those of them are added up that a histogram is built of."""
N_NUMBERS, N_SUMS, QUEUE = range(3)


class Walk(NamedTuple):
    """The arrays that a pass over the rows reads and writes.

    routes : ROUTE, one an expansion
    sets : uint32, shape (expansions, CODE_WORDS)
        The codes that go left.
    expansion_of, node_of : int32
        By number: the expansion of its rows, or -1, and their node.
    opened : int64
        By node: its expansion, or -1.
    sums_of : int64
        By node: the line of ``sums`` that its rows were added to, or -1.
    n_left : int64, shape (threads, expansions)
    sums : int64, shape (threads, lines, entries of a histogram)
    flat_sums : int64, shape (threads, lines * entries)
        The same memory.
    taken : uint64, expansions : int32, shape (threads, BLOCK)
        Records of a block, and the expansions of their nodes.
    state : int64
        Numbers of entries, and the queue of pieces.
    """

    routes: np.ndarray
    sets: np.ndarray
    expansion_of: np.ndarray
    node_of: np.ndarray
    opened: np.ndarray
    sums_of: np.ndarray
    n_left: np.ndarray
    sums: np.ndarray
    flat_sums: np.ndarray
    taken: np.ndarray
    expansions: np.ndarray
    state: np.ndarray


class Source(NamedTuple):
    """The records of a tree, which ascend by their rows; or none, and what the records of all rows
    are made of where they are read.

    records : uint64
    g, h : float32, shape (n_rows,)
    key : uint64
        Of the rounding.
    scale_g, scale_h : float64
    """

    records: np.ndarray
    g: np.ndarray
    h: np.ndarray
    key: np.uint64
    scale_g: float
    scale_h: float

    @property
    def n(self) -> int:
        """How many records."""
        return self.records.size or self.g.size


class Growth(NamedTuple):
    """A tree that grows."""

    table: Table
    frontier: Frontier
    params: GrowthParams
    work: Work
    walk: Walk


@inner
def _plant(frontier, params, walk):
    """Begin a tree: every row is given number 0 by the first pass, which adds up all of them."""
    control.start(frontier, params)
    walk.node_of[0] = 0
    walk.expansion_of[0] = 0
    walk.state[N_NUMBERS] = 1
    walk.state[N_SUMS] = frontier.state[fr.N_PAIRS]
    route = walk.routes[0]
    route.feature = 0
    route.bin = N_SLOTS - 1  # every code is left of it
    route.missing_left = 0
    route.number = 0
    route.left_sums = 0 if frontier.state[fr.N_PAIRS] > 0 else -1
    route.right_sums = -1
    walk.sums_of[0] = route.left_sums


@inner
def _plan(frontier, walk):
    """Give the children of the nodes to open their numbers and lines of sums. Nodes for which no
    line is left wait for the next round."""
    state = walk.state
    for x in range(frontier.state[fr.N_NODES]):
        walk.opened[x] = -1
    most = walk.sums.shape[1]
    n_sums = i64(0)
    for k in range(frontier.state[fr.N_EXPAND]):
        expansion = frontier.expand[k]
        node = frontier.nodes[expansion.node]
        n_needed = 0 if expansion.closes == 1 else (1 if node.slot >= 0 else 2)
        if k > 0 and n_sums + n_needed > most:
            frontier.state[fr.N_EXPAND] = k
            break
        route = walk.routes[k]
        route.feature = node.feature
        route.bin = node.bin
        route.missing_left = node.missing_left
        if node.bin < 0:
            for w in range(walk.sets.shape[1]):
                walk.sets[k, w] = frontier.left_codes[expansion.node, w]
        is_left = node.left_h <= node.h - node.left_h
        route.left_sums = route.right_sums = -1
        if n_needed == 2 or (n_needed == 1 and is_left):
            route.left_sums = n_sums
            n_sums += 1
        if n_needed == 2 or (n_needed == 1 and not is_left):
            route.right_sums = n_sums
            n_sums += 1
        walk.opened[expansion.node] = k
    for number in range(state[N_NUMBERS]):
        walk.expansion_of[number] = walk.opened[walk.node_of[number]]
    for k in range(frontier.state[fr.N_EXPAND]):
        walk.routes[k].number = state[N_NUMBERS]
        state[N_NUMBERS] += 2
    state[N_SUMS] = n_sums


@inner
def _clear(thread, table, frontier, walk):
    """Clear this thread's sums and counts; a GPU that adds up has one line of them, for all."""
    slots = table.layout.column_slots
    if thread >= walk.sums.shape[0]:
        return
    for s in range(walk.state[N_SUMS]):
        line = walk.sums[thread, s]
        clear_used(slots, 0, slots.size, line, line)
    for k in range(max(frontier.state[fr.N_EXPAND], 1)):
        walk.n_left[thread, k] = 0


@inner
def _find_opened(walk, source, begin, end, leaf, taken, expansions):
    """List the records of a block whose nodes are opened, or where records are yet to be made their
    rows, and the expansions of these nodes."""
    n = u64(0)
    are_made = source.records.size > 0
    for i in range(begin, end):
        record = source.records[i] if are_made else u64(i)
        k = walk.expansion_of[leaf[u64(u32(record))]]
        taken[n] = record
        expansions[n] = k
        n += u64(1) if k >= 0 else u64(0)
    return n


@inner
def _made(source, row):
    """Make the record of a row, the one of ``quantise``."""
    own = float(source.g[row]), float(source.h[row])
    return record_of(*integers(*own, row, u64(source.key), source.scale_g, source.scale_h), row)


@inner
def _route(walk, rows, first_row, row_bytes, taken, expansions, n, n_left, leaf):
    """Give rows the numbers of the children that they go to. The list is cut to the records that
    are added up, and ``expansions`` to their lines of sums; returns how many."""
    n_added = u64(0)
    for i in range(n):
        record, k = taken[i], expansions[i]
        row = u64(u32(record))
        route = walk.routes[k]
        code = u8(byte_of(rows, (row - first_row) * row_bytes + u64(route.feature)))
        if route.bin >= 0:
            is_left = below_cut(code, cut_of(route.bin, route.missing_left))
        else:
            is_left = in_set(code, walk.sets[k])
        on_left = i64(1) if is_left else i64(0)
        n_left[k] += on_left
        leaf[row] = np.int32(route.number + i64(1) - on_left)
        s = route.left_sums if is_left else route.right_sums
        taken[n_added] = record
        expansions[n_added] = np.int32(s)
        n_added += u64(1) if s >= 0 else u64(0)
    return n_added


@inner
def _add(rows, first_row, row_bytes, n_columns, taken, lines, n, sums):
    """Add the codes of rows to histograms, of which ``lines`` has the numbers."""
    n_full, n_rest = u64(n_columns >> 3), n_columns & 7
    size = u64((n_columns + 7) >> 3) * u64(WORD_ENTRIES)
    for i in range(n):
        v = unpack_record(taken[i])
        b, o = (u64(u32(taken[i])) - first_row) * row_bytes, u64(lines[i]) * size
        for _ in range(n_full):
            add_eight(sums, o, rows, b, v)
            b += u64(8)
            o += u64(WORD_ENTRIES)
        if n_rest > 0:
            add_fewer(sums, o, rows, b, v, n_rest)


@kernel_without_allocation
def walk_rows(
    thread, n_threads, barrier, table, source, walk, rows, row, first, last, is_first, leaf
):  # fmt: skip
    """Route and add up the records ``first`` to ``last - 1``, whose codes are in a slab, uint8 of
    shape (n_rows, row bytes), from ``row`` on; ``leaf`` has the numbers of rows."""
    first_row, row_bytes = u64(row), u64(rows.shape[1])
    are_made = source.records.size > 0
    n_columns = table.layout.column_begin.size - 1
    taken, expansions = walk.taken[thread], walk.expansions[thread]
    n_left, sums = walk.n_left[thread], walk.flat_sums[thread]
    while True:
        begin = first + PIECE_ROWS * atomic_add(walk.state, QUEUE, 1)
        if begin >= last:
            break
        for block in range(begin, min(begin + PIECE_ROWS, last), BLOCK):
            end = min(block + BLOCK, last)
            if is_first:
                for i in range(block, end):
                    leaf[u64(u32(source.records[i])) if are_made else u64(i)] = 0
            n = _find_opened(walk, source, block, end, leaf, taken, expansions)
            n = _route(walk, rows, first_row, row_bytes, taken, expansions, n, n_left, leaf)
            if not are_made:
                for i in range(n):
                    taken[i] = _made(source, taken[i])
            _add(rows, first_row, row_bytes, n_columns, taken, expansions, n, sums)


@kernel_without_allocation
def begin(thread, n_threads, barrier, table, frontier, params, work, walk):
    """Plant the root."""
    if thread == 0:
        _plant(frontier, params, walk)
    wait(barrier, n_threads)
    _clear(thread, table, frontier, walk)


@inner
def put_summed_first(frontier, sums_of):
    """Make the node of each pair that was added up its first one; ``sums_of`` is -1 for others."""
    nodes = frontier.nodes
    for p in range(frontier.state[fr.N_PAIRS]):
        build, sibling = frontier.pairs[p].build, frontier.pairs[p].sibling
        if sibling >= 0 and sums_of[build] < 0:
            frontier.pairs[p].build, frontier.pairs[p].sibling = sibling, build
            slot = nodes[build].slot
            nodes[build].slot = nodes[sibling].slot
            nodes[sibling].slot = slot


@inner
def _commit(frontier, params, walk):
    """Turn the opened nodes into parents, or, where a child has too few rows, their numbers into
    those of the parent."""
    nodes = frontier.nodes
    for k in range(frontier.state[fr.N_EXPAND]):
        total = i64(0)
        for t in range(walk.n_left.shape[0]):
            total += walk.n_left[t, k]
        frontier.expand[k].n_left = total
    control.commit(frontier, params)
    for k in range(frontier.state[fr.N_EXPAND]):
        x, route = frontier.expand[k].node, walk.routes[k]
        child = nodes[x].child
        if child < 0:
            walk.node_of[route.number] = walk.node_of[route.number + 1] = x
            continue
        walk.node_of[route.number], walk.node_of[route.number + 1] = child, child + 1
        walk.sums_of[child], walk.sums_of[child + 1] = route.left_sums, route.right_sums
    put_summed_first(frontier, walk.sums_of)


@kernel_without_allocation
def pack_sums(thread, n_threads, barrier, table, planes, packed):
    """Pack the planes of histograms as a GPU adds them up, int32 of shape (n, 2, n_features, 256),
    each into a line of ``packed``."""
    for k in range(thread, planes.shape[0], n_threads):
        pack_planes(table.layout.column_slots, planes[k], packed[k])


@kernel_without_allocation
def close(thread, n_threads, barrier, table, frontier, params, work, walk, is_first):
    """End a pass: turn the opened nodes into parents, and join the sums of the threads."""
    slots = table.layout.column_slots
    if thread == 0:
        if not is_first:
            _commit(frontier, params, walk)
        work.counts[EVALUATE] = work.counts[RECHECK] = 0
    wait(barrier, n_threads)
    for p in range(thread, frontier.state[fr.N_PAIRS], n_threads):
        x = frontier.pairs[p].build
        built = work.histograms[frontier.nodes[x].slot]
        clear_used(slots, 0, slots.size, built, built)
        for t in range(walk.sums.shape[0]):
            add_used(slots, 0, slots.size, built, walk.sums[t, walk.sums_of[x]])
        work.partial_range[p, 0] = work.partial_range[p, 1] = 0


@kernel_without_allocation
def count_rechecked(
    thread, n_threads, barrier, table, frontier, source, k_of, rows, first_row, first, last, leaf,
    packed, counts,
):  # fmt: skip
    """Count rows of the nodes to recheck by feature and code, and add up the histograms that are
    not kept, of the same records as ``walk_rows``; ``k_of`` has the place of a number's node among
    these nodes, or -1. Each thread does this for words of its own."""
    are_made = source.records.size > 0
    n_columns = table.layout.column_begin.size - 1
    n_words = (n_columns + 7) >> 3
    for i in range(first, last):
        row = u64(u32(source.records[i])) if are_made else u64(i)
        k = k_of[leaf[row]]
        if k < 0:
            continue
        record = source.records[i] if are_made else _made(source, row)
        is_kept = frontier.nodes[frontier.recheck[k]].slot >= 0
        for word in range(thread, n_words, n_threads):
            b = (row - u64(first_row)) * u64(rows.shape[1]) + u64(8 * word)
            n = min(n_columns - 8 * word, 8)
            for f in range(n):
                counts[k, 8 * word + f, byte_of(rows, b + u64(f))] += 1
            if is_kept:
                continue
            v, o = unpack_record(record), u64(word * WORD_ENTRIES)
            if n == 8:
                add_eight(packed[k], o, rows, b, v)
            else:
                add_fewer(packed[k], o, rows, b, v, n)


@kernel_without_allocation
def decide(thread, n_threads, barrier, table, frontier, params, work, walk, packed, counts):
    """Find the splits of the new nodes and of those to recheck, and choose the nodes to open."""
    evaluate(thread, n_threads, table, frontier, params, work)
    recheck_known(thread, table, frontier, params, work, (packed, counts))
    wait(barrier, n_threads)
    if thread == 0:
        settle_nodes(frontier, params, work)
        control.simulate(frontier, params, 0)
        control.open_needed(frontier, params, i64(control.ALL))
        _plan(frontier, walk)
    wait(barrier, n_threads)
    _clear(thread, table, frontier, walk)


@kernel_without_allocation
def name_leaves(thread, n_threads, barrier, frontier, walk, leaf):
    """Replace the number of every row by its leaf."""
    n = leaf.size
    for i in range(n * thread // n_threads, n * (thread + 1) // n_threads):
        if leaf[i] >= 0:
            leaf[i] = np.int32(frontier.nodes[walk.node_of[leaf[i]]].leaf)


@kernel_without_allocation
def number_leaves(thread, n_threads, barrier, frontier, params, order, tree_offset):
    """Number the nodes of the final tree."""
    if thread == 0:
        control.finish(frontier, params, order, tree_offset)
