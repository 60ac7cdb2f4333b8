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
from ..compilation import inner, kernel_without_allocation
from ..derived import derived
from ..dtypes import ALONE, CODE_WORDS, N_SLOTS, NUMERIC, ORDERED, Codes
from ..frontier import NO_RULES, FeatureRules, Frontier, GrowthParams
from ..grow import GrownTrees, emitted
from .bundles import Layout, expand, layout
from .category_arrangement import COUNTS, N_LINES, PLACES, SUMS, arrange, fill_left_codes
from .histogram import STRIDE, WORD_ENTRIES, add_rows, unpack_record
from .partition import (
    PIECE,
    RUN,
    cut_of,
    partition_alone,
    partition_alone_by_set,
    partition_piece,
    partition_piece_by_set,
)
from .split import best_of_feature
from .split_plain import LARGEST_L2, N_CANDIDATES, best_of_plain
from .team import CACHE_LINE, atomic_add, get_threads, run, wait

u64, i64 = np.uint64, np.int64
LOW = i64(0xFFFFFFFF)

PIECES_PER_THREAD = 4
SMALLEST_PIECE = 2048
MIN_CELLS_PER_THREAD = 100_000
"""Cells of the table below which another thread costs more than it saves."""

# Entries of ``Work.counts``, each on a cache line of its own: the queues that tasks are taken
# from (reset while no thread uses them), and the numbers of tasks.
ROOTS, PARTITION, HISTOGRAM, EVALUATE, RECHECK, LEAVES, N_TASKS, N_PIECES = (
    k * CACHE_LINE for k in range(8)
)

_I = np.int64
TASK = np.dtype([("expansion", _I), ("begin", _I), ("end", _I)])
"""Rows to partition, all of a node or a part of it."""
PIECE_OF_ROWS = np.dtype([("pair", _I), ("begin", _I), ("end", _I), ("partial", _I)])
"""Rows to add up: a node's first piece into its slot (partial is -1), the others apart."""
BEST = np.dtype(
    [
        ("score", np.float64),
        ("feature", _I),
        ("bin", _I),
        ("missing_left", _I),
        ("left", _I),
        ("codes", np.uint32, (CODE_WORDS,)),
    ]
)
"""The best split among some features; ``left`` is packed, ``codes`` are those on the left of a
split by categories, whose bin is -1."""


class Table(NamedTuple):
    """The rows: codes as columns and in the layout for histograms, both buffers of records.

    A node's records are in the buffer ``depth & 1``.
    """

    columns: np.ndarray
    layout: Layout
    records: tuple[np.ndarray, np.ndarray]


class Work(NamedTuple):
    """Tasks of the round, histograms, and scratch of the threads.

    tasks : TASK; pieces : PIECE_OF_ROWS; counts : see above.
    filled : int64, (expansions, 2)
        Rows placed so far on the left and on the right.
    partial_range : int64, (pairs, 2)
        Lines of ``partials`` that belong to the pair's first node.
    histograms, partials : packed, a line each.
    best : BEST, (pairs, words, 2)
        For the pair's two nodes, among the features of a word.
    rechecked : BEST, one a rechecked node.
    spare : packed histogram; like all below it has a line for each thread.
    """

    counts: np.ndarray
    tasks: np.ndarray
    filled: np.ndarray
    pieces: np.ndarray
    partial_range: np.ndarray
    histograms: np.ndarray
    partials: np.ndarray
    best: np.ndarray
    rechecked: np.ndarray
    spare: np.ndarray
    found: np.ndarray
    by_feature: np.ndarray
    counted: np.ndarray
    allowed: np.ndarray
    features: np.ndarray
    hashes: np.ndarray
    side: np.ndarray
    expanded: np.ndarray
    prefix: np.ndarray
    scores: np.ndarray
    approximate: np.ndarray
    row_counts: np.ndarray
    arranged: np.ndarray


@inner
def _sum_roots(table, frontier, work):
    """Add up the packed statistics of each tree, piece by piece, into the trees' ``g``."""
    records = table.records[0]
    n_trees = frontier.trees.size
    while True:
        low = atomic_add(work.counts, ROOTS, PIECE)
        if low >= records.size:
            break
        for t in range(n_trees):
            tree = frontier.trees[t]
            total = i64(0)
            for i in range(max(low, tree.begin), min(low + PIECE, tree.end)):
                total += unpack_record(records[i])
            if total != 0:
                atomic_add(work.filled, 2 * t, total)


@inner
def _start(frontier, params, work):
    for t in range(frontier.trees.size):
        frontier.trees[t].g = work.filled[2 * t] >> i64(32)
        frontier.trees[t].h = work.filled[2 * t] & LOW
    fr.start(frontier, params)


@inner
def _plan_partition(frontier, work, n_threads):
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
def _partition(thread, table, frontier, work):
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
def _plan_histograms(frontier, work, n_threads):
    """Cut the rows of all pairs into pieces of about the same size."""
    n_pairs = frontier.state[fr.N_PAIRS]
    n_rows = i64(0)
    for p in range(n_pairs):
        node = frontier.nodes[frontier.pairs[p].build]
        n_rows += node.end - node.begin
    size = n_rows + 1
    if n_threads > 1:
        size = max(SMALLEST_PIECE, n_rows // (PIECES_PER_THREAD * n_threads) + 1)
    n_pieces = n_partials = 0
    for p in range(n_pairs):
        node = frontier.nodes[frontier.pairs[p].build]
        work.partial_range[p, 0] = n_partials
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
def _histograms(table, frontier, work):
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
        into[:] = 0
        records = table.records[node.depth & 1]
        add_rows(table.layout.words, n_columns, records, piece.begin, piece.end, into)


@inner
def _evaluate(thread, table, frontier, params, work):
    n_words = work.best.shape[1]
    n_tasks = frontier.state[fr.N_PAIRS] * n_words
    while True:
        task = atomic_add(work.counts, EVALUATE, 1)
        if task >= n_tasks:
            break
        p = task // n_words
        word = task - p * n_words
        first = word * WORD_ENTRIES
        pair = frontier.pairs[p]
        built = work.histograms[frontier.nodes[pair.build].slot, first : first + WORD_ENTRIES]
        for q in range(work.partial_range[p, 0], work.partial_range[p, 1]):
            for i in range(WORD_ENTRIES):
                built[i] += work.partials[q, first + i]
        best = work.best[p, word]
        _best_of_word(thread, table, frontier, params, work, pair.build, built, word, best[0])
        if pair.sibling >= 0:
            slot = frontier.nodes[pair.sibling].slot
            rest = work.histograms[slot, first : first + WORD_ENTRIES]
            for i in range(WORD_ENTRIES):
                rest[i] -= built[i]
            _best_of_word(thread, table, frontier, params, work, pair.sibling, rest, word, best[1])


@inner
def _best_of_word(thread, table, frontier, params, work, x, histogram, word, best):
    """Best split of a node among eight features, without counting rows."""
    best.score = fr.NO_GAIN
    if not fr.can_split(frontier, params, x):
        return
    allowed = work.allowed[thread]
    fr.allow_features(frontier, params, x, work.features[thread], work.hashes[thread], allowed)
    no_counts = work.row_counts[thread, :0]
    limits = (fr.least_h(frontier, params, x), fr.l2_of(frontier, params, x))
    is_plain = frontier.rules.size == 0 and limits[1] <= LARGEST_L2
    total = (frontier.nodes[x].g << i64(32)) + frontier.nodes[x].h
    layout = table.layout
    last = min(8 * word + 8, layout.column_begin.size - 1)
    for k in range(layout.column_begin[8 * word], layout.column_begin[last]):
        f = layout.column_features[k]
        if allowed[f] == 1:
            feature = layout.features[f]
            o = (feature.column - 8 * word) * STRIDE
            bins = histogram[o : o + N_SLOTS]
            if feature.stride != 0:
                expand(bins, feature, work.expanded[thread])
                bins = work.expanded[thread]
            if is_plain:
                _best_of_plain(
                    bins, feature.n_bins, f, total, limits,
                    work.prefix[thread], work.approximate[thread], best,
                )  # fmt: skip
                continue
            found = work.found[thread]
            _best_of_feature(
                thread, table, frontier, params, work, x, limits, bins, f, no_counts, found
            )
            if _is_better(found, best):
                _copy_best(found, best)


@inner
def _best_of_plain(bins, n_bins, f, total, limits, prefix, scores, best):
    """Make a feature's best split ``best`` if it is better, or as good and of a lower feature."""
    score, bin_, missing_left, left = best_of_plain(
        bins, n_bins, total, limits[0], limits[1], best.score, prefix, scores
    )
    if score > best.score or (score == best.score and score > fr.NO_GAIN and f < best.feature):
        best.score = score
        best.feature = f
        best.bin = bin_
        best.missing_left = missing_left
        best.left = left


@inner
def _is_better(found, best):
    """Ties go to the lowest feature, whatever the order of the columns."""
    if found.score == best.score:
        return found.score > fr.NO_GAIN and found.feature < best.feature
    return found.score > best.score


@inner
def _best_of_feature(thread, table, frontier, params, work, x, limits, bins, f, row_counts, best):
    """Best split of a node by one feature; ``limits`` are the node's least_h and l2,
    ``row_counts`` is empty or has counts by code."""
    node = frontier.nodes[x]
    n_bins = table.layout.features[f].n_bins
    total = (node.g << i64(32)) + node.h
    least_h, l2 = limits
    kind = fr.kind_of(frontier, f)
    lines = work.arranged[thread]
    n_used = n_bins
    if kind != NUMERIC:
        least, smoothing = (
            fr.category_least_h(frontier, params, x),
            fr.category_smoothing(frontier, params, x),
        )
        n_used = arrange(
            bins, n_bins, total, kind == ALONE, least, smoothing, row_counts,
            work.scores[thread], lines,
        )  # fmt: skip
        bins = lines[SUMS]
        row_counts = lines[COUNTS, : row_counts.size]
        if kind == ORDERED:
            l2 = fr.category_l2(frontier, params, x)
    best.feature = f
    best.score, best.bin, best.missing_left, best.left = best_of_feature(
        bins,
        n_used,
        kind == ALONE,
        total,
        (
            least_h,
            l2,
            node.low,
            node.high,
            fr.direction_of(frontier, f),
        ),
        row_counts,
        node.end - node.begin,
        params.min_samples_leaf,
        work.prefix[thread],
        work.scores[thread],
    )
    if kind != NUMERIC and best.bin >= 0:
        fill_left_codes(
            lines[PLACES], n_bins, best.bin, best.missing_left, kind == ALONE, best.codes
        )
        best.bin = -1


@inner
def _copy_best(source, target):
    target.score = source.score
    target.feature = source.feature
    target.bin = source.bin
    target.missing_left = source.missing_left
    target.left = source.left
    if source.bin < 0:
        for w in range(CODE_WORDS):
            target.codes[w] = source.codes[w]


@inner
def _count_rows(column, records, node, row_counts):
    row_counts[:] = 0
    for i in range(node.begin, node.end):
        row_counts[column[records[i] & u64(0xFFFFFFFF)]] += 1


@inner
def _recheck(thread, table, frontier, params, work):
    """Find splits that leave enough rows (see ``Frontier.recheck``)."""
    n_features = table.layout.features.size
    n_columns = table.layout.column_begin.size - 1
    by_feature, counted = work.by_feature[thread], work.counted[thread]
    allowed, row_counts = work.allowed[thread], work.row_counts[thread]
    while True:
        k = atomic_add(work.counts, RECHECK, 1)
        if k >= frontier.state[fr.N_RECHECK]:
            break
        x = frontier.recheck[k]
        node = frontier.nodes[x]
        records = table.records[node.depth & 1]
        limits = (fr.least_h(frontier, params, x), fr.l2_of(frontier, params, x))
        is_plain = frontier.rules.size == 0 and limits[1] <= LARGEST_L2
        total = (node.g << i64(32)) + node.h
        histogram = work.spare[thread]
        if node.slot >= 0:
            histogram = work.histograms[node.slot]
        else:
            histogram[:] = 0
            add_rows(table.layout.words, n_columns, records, node.begin, node.end, histogram)
        fr.allow_features(frontier, params, x, work.features[thread], work.hashes[thread], allowed)
        f = i64(0)
        counting = False
        while True:
            first, last = (f, f + 1) if counting else (i64(0), n_features)
            for f in range(first, last):
                counted[f] = 1 if counting or allowed[f] == 0 else 0
                by_feature[f].score = fr.NO_GAIN
                if allowed[f] == 1:
                    feature = table.layout.features[f]
                    o = feature.column * STRIDE
                    bins = histogram[o : o + N_SLOTS]
                    if feature.stride != 0:
                        expand(bins, feature, work.expanded[thread])
                        bins = work.expanded[thread]
                    counts = row_counts if counting else row_counts[:0]
                    best = by_feature[f]
                    if is_plain and not counting:
                        _best_of_plain(
                            bins, feature.n_bins, f, total, limits,
                            work.prefix[thread], work.approximate[thread], best,
                        )  # fmt: skip
                        continue
                    _best_of_feature(
                        thread, table, frontier, params, work, x, limits, bins, f, counts, best
                    )
            f = i64(0)
            for other in range(1, n_features):
                if by_feature[other].score > by_feature[f].score:
                    f = i64(other)
            if counted[f] == 1 or by_feature[f].score == fr.NO_GAIN:
                break
            _count_rows(table.columns[f], records, node, row_counts)
            counting = True
        _copy_best(by_feature[f], work.rechecked[k])


@inner
def _settle(frontier, params, x, best):
    node = frontier.nodes[x]
    node.feature = best.feature
    node.bin = best.bin
    node.missing_left = best.missing_left
    node.left_g = best.left >> i64(32)
    node.left_h = best.left & LOW
    if best.bin < 0 and best.score > fr.NO_GAIN:
        for w in range(CODE_WORDS):
            frontier.left_codes[x, w] = best.codes[w]
    fr.settle(frontier, params, x, best.score)


@inner
def _settle_nodes(frontier, params, work):
    """Settle the new nodes on the best of their words, which stand in the order of features,
    then the rechecked ones."""
    n_words = work.best.shape[1]
    for p in range(frontier.state[fr.N_PAIRS]):
        pair = frontier.pairs[p]
        for child in range(2):
            x = pair.build if child == 0 else pair.sibling
            if x < 0:
                continue
            word = 0
            for w in range(1, n_words):
                if _is_better(work.best[p, w, child], work.best[p, word, child]):
                    word = w
            _settle(frontier, params, x, work.best[p, word, child])
    for k in range(frontier.state[fr.N_RECHECK]):
        _settle(frontier, params, frontier.recheck[k], work.rechecked[k])
    frontier.state[fr.N_RECHECK] = 0


@inner
def _scatter_leaves(table, frontier, work, leaf):
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


@kernel_without_allocation
def _grow_worker(
    thread, n_threads, barrier, table, frontier, params, work, order, tree_offset, leaf
):
    _sum_roots(table, frontier, work)
    wait(barrier, n_threads)
    if thread == 0:
        _start(frontier, params, work)
    while True:
        if thread == 0:
            _plan_histograms(frontier, work, n_threads)
        wait(barrier, n_threads)
        _histograms(table, frontier, work)
        wait(barrier, n_threads)
        _evaluate(thread, table, frontier, params, work)
        _recheck(thread, table, frontier, params, work)
        wait(barrier, n_threads)
        if thread == 0:
            _settle_nodes(frontier, params, work)
            fr.choose(frontier, params)
            _plan_partition(frontier, work, n_threads)
        wait(barrier, n_threads)
        if frontier.state[fr.N_EXPAND] == 0:
            break
        _partition(thread, table, frontier, work)
        wait(barrier, n_threads)
        if thread == 0:
            for k in range(frontier.state[fr.N_EXPAND]):
                frontier.expand[k].n_left = work.filled[2 * k]
            fr.commit(frontier, params)
    if thread == 0:
        fr.finish(frontier, params, order, tree_offset)
    wait(barrier, n_threads)
    _scatter_leaves(table, frontier, work, leaf)


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
    rules: FeatureRules = NO_RULES,
) -> GrownTrees:
    n_features, n_rows = codes.columns.shape
    frontier = _frontier(codes, tree_begin, tree_end, keys, scale_g, scale_h, params, n_bins, rules)
    n_threads = max(1, min(get_threads(), records.size * n_features // MIN_CELLS_PER_THREAD))
    table, work = _workspace(codes, n_bins, records, frontier, n_threads)
    work.counts[:] = 0
    work.filled[:] = 0
    leaf = np.full((tree_begin.size, n_rows), -1, np.int32)
    order = np.empty(frontier.nodes.size, np.int64)
    offset = np.empty(tree_begin.size + 1, np.int64)
    run(_grow_worker, n_threads, table, frontier, params, work, order, offset, leaf)
    return emitted(frontier, order, offset, leaf)


def _frontier(
    codes: Codes,
    tree_begin: np.ndarray,
    tree_end: np.ndarray,
    keys: np.ndarray,
    scale_g: np.ndarray,
    scale_h: np.ndarray,
    params: GrowthParams,
    n_bins: np.ndarray,
    rules: FeatureRules,
) -> Frontier:
    """The tables of the trees, kept from round to round while all but the statistics lasts."""
    kept = derived(codes.rows, "frontier", dict)
    n_records = (tree_end - tree_begin).tobytes()
    if not (
        kept.get("params") == params and kept["rules"] is rules and kept["n_records"] == n_records
    ):
        tables = fr.allocate(tree_begin, tree_end, keys, scale_g, scale_h, params, n_bins, rules)
        kept.update(params=params, rules=rules, n_records=n_records, tables=tables)
    trees = kept["tables"].trees
    columns = (tree_begin, tree_end, keys, scale_g, scale_h)
    for name, column in zip(("begin", "end", "key", "scale_g", "scale_h"), columns, strict=True):
        trees[name] = column
    return kept["tables"]


def _workspace(
    codes: Codes, n_bins: np.ndarray, records: np.ndarray, frontier: Frontier, n_threads: int
) -> tuple[Table, Work]:
    """The tables of a growth; large ones are kept from tree to tree, while their sizes last."""
    kept = derived(codes.rows, "workspace", dict)
    sizes = (records.size, frontier.nodes.size, n_threads)
    if kept.get("sizes") != sizes:
        kept.clear()
        kept["sizes"] = sizes
        kept["spare"] = np.empty_like(records)
        kept["work"] = _allocate_work(layout(codes, n_bins), records.size, frontier, n_threads)
    table = Table(codes.columns, layout(codes, n_bins), (records, kept["spare"]))
    return table, kept["work"]


def _allocate_work(layout: Layout, n_records: int, frontier: Frontier, n_threads: int) -> Work:
    n_features = layout.features.size
    n_words = (layout.column_begin.size + 6) // 8
    capacity = frontier.nodes.size
    n_slots = frontier.free_slots.size
    n_partials = PIECES_PER_THREAD * n_threads + 1
    return Work(
        counts=np.zeros(8 * CACHE_LINE, np.int64),
        tasks=np.empty(capacity + n_records // PIECE + 1, TASK),
        filled=np.zeros(2 * capacity, np.int64),
        pieces=np.empty(capacity + n_partials, PIECE_OF_ROWS),
        partial_range=np.empty((capacity, 2), np.int64),
        histograms=np.empty((n_slots, n_words * WORD_ENTRIES), np.int64),
        partials=np.empty((n_partials, n_words * WORD_ENTRIES), np.int64),
        best=np.empty((capacity, n_words, 2), BEST),
        rechecked=np.empty(capacity, BEST),
        spare=np.empty((n_threads, n_words * WORD_ENTRIES), np.int64),
        found=np.empty(n_threads, BEST),
        by_feature=np.empty((n_threads, n_features), BEST),
        counted=np.empty((n_threads, n_features), np.uint8),
        allowed=np.empty((n_threads, n_features), np.uint8),
        features=np.empty((n_threads, n_features), np.int64),
        hashes=np.empty((n_threads, n_features), np.uint64),
        side=np.empty((n_threads, 2, RUN), np.uint64),
        expanded=np.empty((n_threads, N_SLOTS), np.int64),
        prefix=np.empty((n_threads, N_SLOTS), np.int64),
        scores=np.empty((n_threads, N_SLOTS), np.float64),
        approximate=np.empty((n_threads, N_CANDIDATES), np.float32),
        row_counts=np.empty((n_threads, N_SLOTS), np.int64),
        arranged=np.empty((n_threads, N_LINES, N_SLOTS), np.int64),
    )
