"""What the threads do with rows while trees grow: partition, histograms, leaves.

The steps are shared in tasks that the threads take from a counter; one thread plans them.
"""

from __future__ import annotations

import numpy as np

from ...runtime.compilation import inner
from ...runtime.cpu.team import atomic_add
from .. import frontier as fr
from ..limits import l2_of
from .histogram import add_rows, clear_used
from .partition import (
    PIECE,
    cut_of,
    partition_alone,
    partition_alone_by_set,
    partition_piece,
    partition_piece_by_set,
)
from .split_plain import LARGEST_L2
from .tables import (
    EVALUATE,
    HISTOGRAM,
    LEAVES,
    N_PIECES,
    N_TASKS,
    PARTITION,
    PIECES_PER_THREAD,
    RECHECK,
)

u64, i64 = np.uint64, np.int64

SMALLEST_PIECE = 2048
FEW_ROWS = 192
"""Rows up to which adding up both nodes of a pair is cheaper than the histogram of one."""


@inner
def plan_partition(frontier, work, n_threads):
    """Cut the nodes to expand into tasks, large ones into parts for several threads."""
    n_tasks = 0
    for k in range(frontier.state[fr.N_EXPAND]):
        node = frontier.nodes[frontier.expand[k].node]
        begin, end = node.begin, node.end
        work.filled[2 * k] = work.filled[2 * k + 1] = 0
        step = PIECE if n_threads > 1 and end - begin > 2 * PIECE else max(end - begin, 1)
        for low in range(begin, end, step):
            task = work.tasks[n_tasks]
            task.expansion = k
            task.begin = low
            task.end = min(low + step, end)
            n_tasks += 1
    work.counts[N_TASKS] = n_tasks
    work.counts[PARTITION] = 0


@inner
def partition(thread, table, frontier, work):
    while True:
        t = atomic_add(work.counts, PARTITION, 1)
        if t >= work.counts[N_TASKS]:
            break
        task = work.tasks[t]
        k = task.expansion
        node = frontier.nodes[frontier.expand[k].node]
        source = table.records[node.depth & 1]
        target = table.records[1 - (node.depth & 1)]
        column = table.columns[node.feature]
        is_whole = task.end - task.begin == node.end - node.begin
        rows, segment = (task.begin, task.end), (node.begin, node.end)
        side = work.side[thread]
        if node.bin >= 0:
            cut = cut_of(node.bin, node.missing_left)
            if is_whole:
                n_left = partition_alone(column, source, target, node.begin, node.end, cut)
                work.filled[2 * k] = n_left
            else:
                partition_piece(
                    column, source, target, rows, segment, cut, work.filled, 2 * k, side
                )
        else:
            codes = frontier.left_codes[frontier.expand[k].node]
            if is_whole:
                n_left = partition_alone_by_set(column, source, target, node.begin, node.end, codes)
                work.filled[2 * k] = n_left
            else:
                partition_piece_by_set(
                    column, source, target, rows, segment, codes, work.filled, 2 * k, side
                )


@inner
def plan_histograms(frontier, params, work, n_threads):
    """Cut the rows of all pairs but small ones into pieces of about the same size."""
    n_pairs = frontier.state[fr.N_PAIRS]
    n_rows = i64(0)
    for p in range(n_pairs):
        if has_few_rows(frontier, params, frontier.pairs[p]):
            continue
        node = frontier.nodes[frontier.pairs[p].build]
        n_rows += node.end - node.begin
    size = n_rows + 1
    if n_threads > 1:
        size = max(SMALLEST_PIECE, n_rows // (PIECES_PER_THREAD * n_threads) + 1)
    n_pieces = n_partials = 0
    for p in range(n_pairs):
        work.partial_range[p, 0] = work.partial_range[p, 1] = n_partials
        if has_few_rows(frontier, params, frontier.pairs[p]):
            continue
        node = frontier.nodes[frontier.pairs[p].build]
        for low in range(node.begin, node.end, size):
            piece = work.pieces[n_pieces]
            piece.pair = p
            piece.begin = low
            piece.end = min(low + size, node.end)
            piece.partial = -1
            if low > node.begin:
                piece.partial = n_partials
                n_partials += 1
            n_pieces += 1
        work.partial_range[p, 1] = n_partials
    work.counts[N_PIECES] = n_pieces
    work.counts[HISTOGRAM] = work.counts[EVALUATE] = work.counts[RECHECK] = 0


@inner
def has_few_rows(frontier, params, pair):
    """Whether both nodes are so small that they do not need a histogram (see ``growth_few``)."""
    x = pair.build if pair.sibling < 0 else pair.sibling
    node = frontier.nodes[x]
    is_plain = frontier.rules.size == 0 and l2_of(frontier, params, x) <= LARGEST_L2
    return is_plain and node.end - node.begin <= FEW_ROWS


@inner
def histograms(table, frontier, work):
    n_columns = table.layout.column_begin.size - 1
    while True:
        k = atomic_add(work.counts, HISTOGRAM, 1)
        if k >= work.counts[N_PIECES]:
            break
        piece = work.pieces[k]
        node = frontier.nodes[frontier.pairs[piece.pair].build]
        into = work.histograms[node.slot]
        if piece.partial >= 0:
            into = work.partials[piece.partial]
        clear_used(table.layout.column_slots, 0, n_columns, into, into)
        records = table.records[node.depth & 1]
        add_rows(table.layout.words, n_columns, records, piece.begin, piece.end, into)


@inner
def scatter_leaves(table, frontier, work, leaf):
    """Write the leaf of every row; the nodes without children cover all segments."""
    while True:
        x = atomic_add(work.counts, LEAVES, 1)
        if x >= frontier.state[fr.N_NODES]:
            break
        node = frontier.nodes[x]
        if node.child >= 0:
            continue
        records = table.records[node.depth & 1]
        number = np.int32(node.leaf)
        for i in range(node.begin, node.end):
            leaf[node.tree, records[i] & u64(0xFFFFFFFF)] = number
