"""Growth (contract: ``kernels.grow``): all threads run one loop over the rounds.

A round has five steps with a barrier after each. Thread 0 decides alone (cheap, a few hundred
nodes), the rest is shared, in tasks that the threads take from a counter:

    decide      thread 0    which nodes to open
    partition   all         a small node is one task, a large one many pieces
    commit      thread 0    children, pairs, pieces of the rows to add up
    histogram   all         pieces of equal size over all the rows of the round
    evaluate    all         (pair, eight features): collect pieces, subtract, compare splits
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import frontier as fr
from ..dtypes import MISSING, N_SLOTS, Codes
from ..frontier import GrowthParams, inner
from ..grow import GrownTrees, empty_trees, n_histogram_slots, table_capacity
from .histogram import WORD_ENTRIES, add_rows, as_words, unpack_record
from .partition import PIECE, RUN, partition_alone, partition_piece
from .split import best_of_feature
from .team import CACHE_LINE, atomic_add, get_threads, kernel, run, wait

u64, i64 = np.uint64, np.int64
LOW = i64(0xFFFFFFFF)

PIECES_PER_THREAD = 4
SMALLEST_PIECE = 2048
MIN_CELLS_PER_THREAD = 40_000
"""Cells of the table below which another thread costs more than it saves."""

# Queues: counters that tasks are taken from. Those of a step are reset one barrier earlier.
ROOTS, PARTITION, HISTOGRAM, EVALUATE, RECHECK, LEAVES = (k * CACHE_LINE for k in range(6))
# Entries of ``Work.counts``.
N_TASKS, N_PIECES = 0, CACHE_LINE


class Table(NamedTuple):
    """The rows: codes as columns and as row-major words, and both buffers of records.

    A node's records are in the buffer ``depth & 1``.
    """

    columns: np.ndarray
    words: np.ndarray
    n_bins: np.ndarray
    records: tuple[np.ndarray, np.ndarray]


class Work(NamedTuple):
    """Tasks of the round and scratch of the threads.

    task_node, task_begin, task_end : pieces of partition; ``filled`` counts their rows placed.
    piece_pair, piece_begin, piece_end, piece_partial : pieces of histogram; a node's first
        piece goes to its slot, the others to partial histograms
        ``first_partial[pair] … last_partial[pair]``.
    histograms, partials : packed, one line a slot or partial.
    best_* : best split of every (child of a pair, eight features).
    """

    queues: np.ndarray
    counts: np.ndarray
    task_node: np.ndarray
    task_begin: np.ndarray
    task_end: np.ndarray
    filled: np.ndarray
    piece_pair: np.ndarray
    piece_begin: np.ndarray
    piece_end: np.ndarray
    piece_partial: np.ndarray
    first_partial: np.ndarray
    last_partial: np.ndarray
    histograms: np.ndarray
    partials: np.ndarray
    best_score: np.ndarray
    best_feature: np.ndarray
    best_bin: np.ndarray
    best_missing_left: np.ndarray
    best_left: np.ndarray
    allowed: np.ndarray
    features: np.ndarray
    hashes: np.ndarray
    side: np.ndarray
    prefix: np.ndarray
    scores: np.ndarray
    spare: np.ndarray
    row_counts: np.ndarray
    totals: np.ndarray


@inner
def _sum_roots(thread, table, work, tree_begin, tree_end):
    """Add up the packed statistics of each tree, piece by piece."""
    records = table.records[0]
    queue = work.queues
    n = tree_end[tree_end.size - 1] - tree_begin[0]
    n_pieces = (n + PIECE - 1) // PIECE
    while True:
        piece = atomic_add(queue, ROOTS, 1)
        if piece >= n_pieces:
            break
        low = tree_begin[0] + piece * PIECE
        high = min(low + PIECE, tree_end[tree_end.size - 1])
        for tree in range(tree_begin.size):
            total = i64(0)
            for i in range(max(low, tree_begin[tree]), min(high, tree_end[tree])):
                total += unpack_record(records[i])
            if total != 0:
                atomic_add(work.totals, tree, total)


@inner
def _plan_partition(nodes, frontier, work, n_threads):
    """Cut the nodes to expand into tasks, large ones into pieces for several threads."""
    n_tasks = 0
    n_expand = frontier.state[fr.N_EXPAND]
    for k in range(n_expand):
        x = frontier.expand[k]
        begin, end = nodes.begin[x], nodes.end[x]
        work.filled[2 * k] = work.filled[2 * k + 1] = 0
        step = PIECE if n_threads > 1 and end - begin > 2 * PIECE else max(end - begin, 1)
        for low in range(begin, end, step):
            work.task_node[n_tasks] = k
            work.task_begin[n_tasks] = low
            work.task_end[n_tasks] = min(low + step, end)
            n_tasks += 1
    work.counts[N_TASKS] = n_tasks
    work.queues[PARTITION] = 0


@inner
def _partition(thread, table, nodes, frontier, work):
    while True:
        task = atomic_add(work.queues, PARTITION, 1)
        if task >= work.counts[N_TASKS]:
            break
        k = work.task_node[task]
        x = frontier.expand[k]
        begin, end = work.task_begin[task], work.task_end[task]
        source = table.records[nodes.depth[x] & 1]
        target = table.records[1 - (nodes.depth[x] & 1)]
        column = table.columns[nodes.feature[x]]
        bin_, missing_left = nodes.bin[x], nodes.missing_left[x]
        if end - begin == nodes.end[x] - nodes.begin[x]:
            work.filled[2 * k] = partition_alone(
                column, source, target, begin, end, bin_, missing_left
            )
        else:
            segment = (nodes.begin[x], nodes.end[x])
            partition_piece(
                column,
                source,
                target,
                begin,
                end,
                segment,
                bin_,
                missing_left,
                work.filled,
                2 * k,
                work.side[thread],
            )


@inner
def _plan_histograms(nodes, frontier, params, table, tree_keys, work, n_threads):
    """Cut the rows of all pairs into pieces of about the same size; draw features."""
    n_pairs = frontier.state[fr.N_PAIRS]
    n_rows = i64(0)
    for p in range(n_pairs):
        x = frontier.build[p]
        n_rows += nodes.end[x] - nodes.begin[x]
    size = n_rows + 1
    if n_threads > 1:
        size = max(SMALLEST_PIECE, n_rows // (PIECES_PER_THREAD * n_threads) + 1)
    n_pieces = n_partials = 0
    for p in range(n_pairs):
        x = frontier.build[p]
        work.first_partial[p] = n_partials
        for low in range(nodes.begin[x], nodes.end[x], size):
            work.piece_pair[n_pieces] = p
            work.piece_begin[n_pieces] = low
            work.piece_end[n_pieces] = min(low + size, nodes.end[x])
            work.piece_partial[n_pieces] = -1
            if low > nodes.begin[x]:
                work.piece_partial[n_pieces] = n_partials
                n_partials += 1
            n_pieces += 1
        work.last_partial[p] = n_partials
    work.counts[N_PIECES] = n_pieces
    work.queues[HISTOGRAM] = work.queues[EVALUATE] = work.queues[RECHECK] = 0


@inner
def _histograms(table, nodes, frontier, work):
    n_features = table.n_bins.size
    while True:
        piece = atomic_add(work.queues, HISTOGRAM, 1)
        if piece >= work.counts[N_PIECES]:
            break
        x = frontier.build[work.piece_pair[piece]]
        partial = work.piece_partial[piece]
        into = work.histograms[nodes.slot[x]] if partial < 0 else work.partials[partial]
        into[:] = 0
        records = table.records[nodes.depth[x] & 1]
        begin, end = work.piece_begin[piece], work.piece_end[piece]
        add_rows(table.words, n_features, records, begin, end, into)


@inner
def _evaluate(thread, table, nodes, frontier, params, tree_keys, work):
    n_words = (table.n_bins.size + 7) >> 3
    n_tasks = frontier.state[fr.N_PAIRS] * n_words
    while True:
        task = atomic_add(work.queues, EVALUATE, 1)
        if task >= n_tasks:
            break
        p = task // n_words
        word = task - p * n_words
        first = word * WORD_ENTRIES
        last = first + WORD_ENTRIES
        x, sibling = frontier.build[p], frontier.sibling[p]
        built = work.histograms[nodes.slot[x], first:last]
        for q in range(work.first_partial[p], work.last_partial[p]):
            for i in range(WORD_ENTRIES):
                built[i] += work.partials[q, first + i]
        _best_of_word(thread, table, nodes, frontier, params, tree_keys, work, x, built, word, 2 * task)
        if sibling >= 0:
            rest = work.histograms[nodes.slot[sibling], first:last]
            for i in range(WORD_ENTRIES):
                rest[i] -= built[i]
            _best_of_word(
                thread,
                table,
                nodes,
                frontier,
                params,
                tree_keys,
                work,
                sibling,
                rest,
                word,
                2 * task + 1,
            )


@inner
def _best_of_word(thread, table, nodes, frontier, params, tree_keys, work, x, histogram, word, at):
    """Best split of a node among eight features, kept as candidate ``at``."""
    work.best_score[at] = fr.NO_GAIN
    if not fr.can_split(nodes, frontier, params, x):
        return
    allowed = work.allowed[thread]
    key = tree_keys[nodes.tree[x]]
    fr.allow_features(
        nodes, params, x, key, work.features[thread], work.hashes[thread], allowed
    )
    total = (nodes.g[x] << i64(32)) + nodes.h[x]
    least = fr.least_h(nodes, frontier, params, x)
    l2 = params.l2 * frontier.scale_h[nodes.tree[x]]
    for f in range(8 * word, min(8 * word + 8, table.n_bins.size)):
        if allowed[f] == 0:
            continue
        o = (f - 8 * word) * N_SLOTS
        score, bin_, missing_left, left = best_of_feature(
            histogram[o : o + N_SLOTS],
            table.n_bins[f],
            total,
            least,
            l2,
            work.row_counts[thread, :0],
            0,
            0,
            work.prefix[thread],
            work.scores[thread],
        )
        if score > work.best_score[at]:
            work.best_score[at] = score
            work.best_feature[at] = f
            work.best_bin[at] = bin_
            work.best_missing_left[at] = missing_left
            work.best_left[at] = left


@inner
def _take_best(nodes, frontier, params, work, x, first, step, n):
    """Settle a node on the best of its candidates, which stand in the order of features."""
    best = first
    for at in range(first + step, first + n * step, step):
        if work.best_score[at] > work.best_score[best]:
            best = at
    nodes.feature[x] = work.best_feature[best]
    nodes.bin[x] = work.best_bin[best]
    nodes.missing_left[x] = work.best_missing_left[best]
    nodes.left_g[x] = work.best_left[best] >> i64(32)
    nodes.left_h[x] = work.best_left[best] & LOW
    fr.settle(nodes, frontier, params, x, work.best_score[best])


@inner
def _settle_pairs(table, nodes, frontier, params, work):
    n_words = (table.n_bins.size + 7) >> 3
    for p in range(frontier.state[fr.N_PAIRS]):
        first = 2 * p * n_words
        _take_best(nodes, frontier, params, work, frontier.build[p], first, 2, n_words)
        if frontier.sibling[p] >= 0:
            _take_best(nodes, frontier, params, work, frontier.sibling[p], first + 1, 2, n_words)


@inner
def _recheck(table, nodes, frontier, params, tree_keys, work):
    """Choose the splits anew, with exact row counts, of nodes whose split left too few rows."""
    n_features = table.n_bins.size
    spare, row_counts = work.spare, work.row_counts[0]
    allowed = work.allowed[0]
    for k in range(frontier.state[fr.N_RECHECK]):
        x = frontier.recheck[k]
        records = table.records[nodes.depth[x] & 1]
        begin, end = nodes.begin[x], nodes.end[x]
        if nodes.slot[x] >= 0:
            histogram = work.histograms[nodes.slot[x]]
        else:
            histogram = spare
            spare[:] = 0
            add_rows(table.words, n_features, records, begin, end, spare)
        fr.allow_features(
            nodes, params, x, tree_keys[nodes.tree[x]], work.features[0], work.hashes[0], allowed
        )
        total = (nodes.g[x] << i64(32)) + nodes.h[x]
        least = fr.least_h(nodes, frontier, params, x)
        l2 = params.l2 * frontier.scale_h[nodes.tree[x]]
        work.best_score[0] = fr.NO_GAIN
        for f in range(n_features):
            if allowed[f] == 0:
                continue
            row_counts[:] = 0
            column = table.columns[f]
            for i in range(begin, end):
                row_counts[column[records[i] & u64(0xFFFFFFFF)]] += 1
            score, bin_, missing_left, left = best_of_feature(
                histogram[f * N_SLOTS : (f + 1) * N_SLOTS],
                table.n_bins[f],
                total,
                least,
                l2,
                row_counts,
                end - begin,
                params.min_samples_leaf,
                work.prefix[0],
                work.scores[0],
            )
            if score > work.best_score[0]:
                work.best_score[0] = score
                work.best_feature[0] = f
                work.best_bin[0] = bin_
                work.best_missing_left[0] = missing_left
                work.best_left[0] = left
        _take_best(nodes, frontier, params, work, x, 0, 1, 1)
    frontier.state[fr.N_RECHECK] = 0


@inner
def _scatter_leaves(table, nodes, frontier, work, leaf):
    """Write the leaf of every row; the nodes without children cover all segments."""
    while True:
        x = atomic_add(work.queues, LEAVES, 1)
        if x >= frontier.state[fr.N_NODES]:
            break
        if nodes.child[x] >= 0:
            continue
        records = table.records[nodes.depth[x] & 1]
        rows_leaf = leaf[nodes.tree[x]]
        number = nodes.leaf[x]
        for i in range(nodes.begin[x], nodes.end[x]):
            rows_leaf[records[i] & u64(0xFFFFFFFF)] = number


@kernel
def _worker(
    thread,
    n_threads,
    barrier,
    table,
    nodes,
    frontier,
    params,
    work,
    tree_begin,
    tree_end,
    tree_keys,
    order,
    offset,
    leaf,
):
    _sum_roots(thread, table, work, tree_begin, tree_end)
    wait(barrier, n_threads)
    if thread == 0:
        root_g, root_h = work.totals >> i64(32), work.totals & LOW
        fr.start(nodes, frontier, params, tree_begin, tree_end, root_g, root_h, tree_keys)
    while True:
        if thread == 0:
            _plan_histograms(nodes, frontier, params, table, tree_keys, work, n_threads)
        wait(barrier, n_threads)
        _histograms(table, nodes, frontier, work)
        wait(barrier, n_threads)
        _evaluate(thread, table, nodes, frontier, params, tree_keys, work)
        wait(barrier, n_threads)
        if thread == 0:
            _settle_pairs(table, nodes, frontier, params, work)
            _recheck(table, nodes, frontier, params, tree_keys, work)
            fr.choose(nodes, frontier, params)
            _plan_partition(nodes, frontier, work, n_threads)
        wait(barrier, n_threads)
        if frontier.state[fr.N_EXPAND] == 0:
            break
        _partition(thread, table, nodes, frontier, work)
        wait(barrier, n_threads)
        if thread == 0:
            for k in range(frontier.state[fr.N_EXPAND]):
                frontier.n_left[k] = work.filled[2 * k]
            fr.commit(nodes, frontier, params)
    if thread == 0:
        fr.finish(nodes, frontier, params, order, offset)
    wait(barrier, n_threads)
    _scatter_leaves(table, nodes, frontier, work, leaf)


def grow(
    codes: Codes,
    n_bins: Any,
    records: Any,
    tree_begin: np.ndarray,
    tree_end: np.ndarray,
    keys: np.ndarray,
    scale_g: np.ndarray,
    scale_h: np.ndarray,
    params: GrowthParams,
) -> GrownTrees:
    n_trees = tree_begin.size
    n_features, n_rows = codes.columns.shape
    capacity = table_capacity(params, tree_begin, tree_end)
    slots = n_histogram_slots(n_features, capacity)
    nodes, frontier = fr.allocate(n_trees, capacity, slots)
    frontier.scale_g[:] = scale_g
    frontier.scale_h[:] = scale_h
    n_threads = max(1, min(get_threads(), records.size * n_features // MIN_CELLS_PER_THREAD))
    buffers = (records, np.empty_like(records))
    table = Table(codes.columns, as_words(codes), n_bins, buffers)
    work = _allocate_work(table, n_trees, capacity, slots, n_threads)
    order, offset = np.empty(capacity, np.int32), np.empty(n_trees + 1, np.int64)
    leaf = np.full((n_trees, n_rows), -1, np.int32)
    tables = (table, nodes, frontier, params, work)
    run(_worker, n_threads, *tables, tree_begin, tree_end, keys, order, offset, leaf)
    trees = empty_trees(n_trees, int(offset[-1]), leaf)
    trees.offset[:] = offset
    fr.emit(nodes, order, *trees[:-1])
    return trees


def _allocate_work(
    table: Table, n_trees: int, capacity: int, n_slots: int, n_threads: int
) -> Work:
    n_features = table.n_bins.size
    n_words = (n_features + 7) // 8
    n_records = table.records[0].size
    n_tasks = capacity + n_records // PIECE + 1
    n_pieces = capacity + PIECES_PER_THREAD * n_threads + 1
    n_best = 2 * capacity * n_words

    def table_of(dtype: type, *shape: int) -> np.ndarray:
        return np.empty(shape, dtype)

    i4, i8, f8, u1 = np.int32, np.int64, np.float64, np.uint8
    return Work(
        queues=np.zeros(6 * CACHE_LINE, i8),
        counts=np.zeros(2 * CACHE_LINE, i8),
        task_node=table_of(i4, n_tasks),
        task_begin=table_of(i8, n_tasks),
        task_end=table_of(i8, n_tasks),
        filled=table_of(i8, 2 * capacity),
        piece_pair=table_of(i4, n_pieces),
        piece_begin=table_of(i8, n_pieces),
        piece_end=table_of(i8, n_pieces),
        piece_partial=table_of(i4, n_pieces),
        first_partial=table_of(i4, capacity),
        last_partial=table_of(i4, capacity),
        histograms=table_of(i8, n_slots, n_words * WORD_ENTRIES),
        partials=table_of(i8, PIECES_PER_THREAD * n_threads + 1, n_words * WORD_ENTRIES),
        best_score=table_of(f8, n_best),
        best_feature=table_of(i4, n_best),
        best_bin=table_of(i4, n_best),
        best_missing_left=table_of(u1, n_best),
        best_left=table_of(i8, n_best),
        allowed=table_of(u1, n_threads, n_features),
        features=table_of(i4, n_threads, n_features),
        hashes=table_of(np.uint64, n_threads, n_features),
        side=table_of(np.uint64, n_threads, 2, RUN),
        prefix=table_of(i8, n_threads, N_SLOTS),
        scores=table_of(f8, n_threads, N_SLOTS),
        spare=table_of(i8, n_words * WORD_ENTRIES),
        row_counts=table_of(i8, n_threads, N_SLOTS),
        totals=np.zeros(n_trees, i8),
    )
