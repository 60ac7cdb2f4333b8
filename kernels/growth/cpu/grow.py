"""Growth (contract: ``kernels.growth.grow``): all threads run one loop over the rounds.

A round has five steps with a barrier after each. Thread 0 decides alone (cheap, a few hundred
nodes), the rest is shared, in tasks that the threads take from a counter:

    decide      thread 0    which nodes to open
    partition   all         a small node is one task, a large one many pieces, which are
                            counted first and, after a barrier, placed
    commit      thread 0    children, pairs, pieces of the rows to add up
    histogram   all         pieces of equal size over all the rows of the round
    evaluate    all         (pair, eight features): collect pieces, subtract, compare splits
"""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import derived
from ...runtime.compilation import fused, inner, kernel_without_allocation
from ...runtime.cpu.team import atomic_add, get_threads, run, wait
from ...runtime.dtypes import Codes, TreeRecords
from .. import control
from .. import frontier as fr
from ..frontier import Frontier
from ..grow import GrownTrees, emitted
from ..in_order import choose_first
from ..params import NO_RULES, FeatureRules, GrowthParams
from .few_rows import FEW_ROWS
from .histogram import add_rows, clear_used, subtract_rows
from .layout import layout
from .levels.dense import find_levels, settle
from .partition import (
    FEWEST_ROWS,
    MOST_ROWS,
    count_left,
    count_left_by_set,
    cut_of,
    partition_alone,
    partition_alone_by_set,
    place_marked,
)
from .search import evaluate, is_taken_from_sibling, needs_histograms, recheck
from .tables import (
    EVALUATE,
    FROM_SIBLING,
    HISTOGRAM,
    IN_PLACE,
    LEAVES,
    N_CUT,
    N_PIECES,
    N_TASKS,
    PARTITION,
    PIECES_PER_THREAD,
    RECHECK,
    Table,
    Work,
    allocate_work,
)

u64, i64 = np.uint64, np.int64

SMALLEST_PIECE = 2048


@fused
def plan_partition(frontier, work, n_threads):
    """Make tasks of the nodes to expand, several of one that is large beside the others."""
    n_rows = i64(0)
    for k in range(frontier.state[fr.N_EXPAND]):
        node = frontier.nodes[frontier.expand[k].node]
        n_rows += node.end - node.begin
        work.n_left[k] = 0
    # Several pieces a thread, so that one that is late leaves some of its own to the others.
    piece = min(max(n_rows // (PIECES_PER_THREAD * n_threads), FEWEST_ROWS), MOST_ROWS)
    # One thread cuts nothing. Several take a node whole, without counting it first, unless it
    # is so large that the others would wait for the thread that takes it.
    uncut = n_rows
    if n_threads > 1:
        uncut = max(2 * piece, n_rows // (2 * n_threads))
    n_tasks = n_cut = 0
    for k in range(frontier.state[fr.N_EXPAND]):
        node = frontier.nodes[frontier.expand[k].node]
        begin, end = node.begin, node.end
        # A node has no rows where another worker has all of them: no task, and a step above 0.
        step = piece if end - begin > uncut else max(end - begin, 1)
        n_cut += end - begin > uncut
        for low in range(begin, end, step):
            task = work.tasks[n_tasks]
            task.expansion = k
            task.begin = low
            task.end = min(low + step, end)
            n_tasks += 1
    work.counts[N_TASKS] = n_tasks
    work.counts[N_CUT] = n_cut
    work.counts[PARTITION] = 0


@fused
def partition(thread, n_threads, barrier, table, frontier, work):
    """Bring the rows of the nodes to expand to their sides."""
    while True:
        t = atomic_add(work.counts, PARTITION, 1)
        if t >= work.counts[N_TASKS]:
            break
        # Who counts a piece also places it, whose rows and marks are in its cache.
        work.tasks[t].thread = thread
        _take_task(table, frontier, work, work.tasks[t])
    # Where a piece belongs depends on the counts of those before it. All threads read the same
    # number, so that all of them wait or none.
    if work.counts[N_CUT] > 0:
        wait(barrier, n_threads)
        _place_pieces(thread, table, frontier, work)


@inner
def _take_task(table, frontier, work, task):
    """Partition a node, or count the rows of a piece that go left."""
    k = task.expansion
    x = frontier.expand[k].node
    node = frontier.nodes[x]
    # Children are a level deeper, and the records of a level are in the same buffer.
    source, target = table.records[node.depth & 1], table.records[1 - (node.depth & 1)]
    column = table.columns[node.feature]
    begin, end = task.begin, task.end
    is_whole = end - begin == node.end - node.begin
    if node.bin >= 0:
        cut = cut_of(node.bin, node.missing_left)
        if is_whole:
            task.n_left = partition_alone(column, source, target, begin, end, cut)
        else:
            task.n_left = count_left(column, source, begin, end, cut, work.marks)
    else:
        codes = frontier.left_codes[x]
        if is_whole:
            task.n_left = partition_alone_by_set(column, source, target, begin, end, codes)
        else:
            task.n_left = count_left_by_set(column, source, begin, end, codes, work.marks)
    # Pieces of one node are counted by several threads.
    atomic_add(work.n_left, k, task.n_left)


@inner
def _place_pieces(thread, table, frontier, work):
    """Place the rows of the pieces that a thread has counted."""
    # Each thread adds up the counts of all tasks for itself, which spares a barrier. Pieces of a
    # node follow each other, so that the sums begin again at its first one.
    left = right = i64(0)
    for t in range(work.counts[N_TASKS]):
        task = work.tasks[t]
        node = frontier.nodes[frontier.expand[task.expansion].node]
        if task.begin == node.begin:
            left, right = node.begin, node.begin + work.n_left[task.expansion]
        is_whole = task.end - task.begin == node.end - node.begin
        if task.thread == thread and not is_whole:
            source, target = table.records[node.depth & 1], table.records[1 - (node.depth & 1)]
            place_marked(source, target, task.begin, task.end, work.marks, left, right)
        left += task.n_left
        right += task.end - task.begin - task.n_left


@fused
def plan_histograms(table, frontier, params, work, n_threads):
    """Cut the rows of all pairs that take histograms into pieces of about the same size."""
    n_pairs = frontier.state[fr.N_PAIRS]
    n_rows = i64(0)
    for p in range(n_pairs):
        if not needs_histograms(table, frontier, params, frontier.pairs[p]):
            continue
        node = frontier.nodes[frontier.pairs[p].build]
        n_rows += node.end - node.begin
    # One thread cuts nothing: then each node is a single piece.
    size = n_rows + 1
    if n_threads > 1:
        size = max(SMALLEST_PIECE, n_rows // (PIECES_PER_THREAD * n_threads) + 1)
    n_pieces = n_partials = 0
    for p in range(n_pairs):
        work.partial_range[p, 0] = work.partial_range[p, 1] = n_partials
        if not needs_histograms(table, frontier, params, frontier.pairs[p]):
            continue
        node = frontier.nodes[frontier.pairs[p].build]
        for low in range(node.begin, node.end, size):
            piece = work.pieces[n_pieces]
            piece.pair = p
            piece.begin = low
            piece.end = min(low + size, node.end)
            # The first piece goes to the slot of the node itself, each of the others to a line of
            # partial sums, which the search adds to it. Nodes with FROM_SIBLING have one piece.
            piece.partial = IN_PLACE
            if is_taken_from_sibling(table, frontier, params, frontier.pairs[p]):
                piece.partial = FROM_SIBLING
            if low > node.begin:
                piece.partial = n_partials
                n_partials += 1
            n_pieces += 1
        work.partial_range[p, 1] = n_partials
    work.counts[N_PIECES] = n_pieces
    work.counts[HISTOGRAM] = work.counts[EVALUATE] = work.counts[RECHECK] = 0


@fused
def histograms(table, frontier, work):
    n_columns = table.layout.column_begin.size - 1
    while True:
        k = atomic_add(work.counts, HISTOGRAM, 1)
        if k >= work.counts[N_PIECES]:
            break
        piece = work.pieces[k]
        pair = frontier.pairs[piece.pair]
        node = frontier.nodes[pair.build]
        records = table.records[node.depth & 1]
        if piece.partial == FROM_SIBLING:
            # The slot of the sibling holds the histogram of the parent.
            rest = work.histograms[frontier.nodes[pair.sibling].slot]
            subtract_rows(table.layout.words, n_columns, records, piece.begin, piece.end, rest)
            continue
        into = work.histograms[node.slot]
        if piece.partial >= 0:
            into = work.partials[piece.partial]
        # Slots and lines hold the sums of nodes before.
        clear_used(table.layout.column_slots, 0, n_columns, into, into)
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
        # Below a leaf that was opened too early, nodes have the number of that leaf.
        records = table.records[node.depth & 1]
        number = np.int32(node.leaf)
        for i in range(node.begin, node.end):
            leaf[node.tree, records[i] & u64(0xFFFFFFFF)] = number


MIN_CELLS_PER_THREAD = 150_000
"""Cells of the table below which another thread costs more than it saves."""


@inner
def grow_together(
    thread, n_threads, barrier, table, frontier, params, work, order, tree_offset, leaf
):
    """Grow the trees of a frontier; when this returns, all threads may read them."""
    # Thread 0 goes on to plan without a barrier: the others wait for that.
    if thread == 0:
        work.counts[:] = 0
        control.start(frontier, params)
    while True:
        # Histograms: the rows of the new nodes, in pieces.
        if thread == 0:
            plan_histograms(table, frontier, params, work, n_threads)
        wait(barrier, n_threads)  # the pieces are cut
        histograms(table, frontier, work)
        wait(barrier, n_threads)  # all are added up: any thread may join those of a node
        # Search: the two share no node, so that a thread goes on to the second without waiting.
        if params.is_symmetric == 1:
            find_levels(thread, n_threads, barrier, table, frontier, params, work)
        else:
            evaluate(thread, n_threads, table, frontier, params, work)
            recheck(thread, table, frontier, params, work, ())
        wait(barrier, n_threads)  # the best split of every feature is known
        # Decision.
        if thread == 0:
            settle(table, frontier, params, work)
            if n_threads == 1:
                choose_first(frontier, params)
            else:
                control.choose(frontier, params, i64(control.QUARTER))
            plan_partition(frontier, work, n_threads)
        wait(barrier, n_threads)  # the nodes to open are chosen, all threads see whether any are
        if frontier.state[fr.N_EXPAND] == 0:
            break
        # Partition.
        partition(thread, n_threads, barrier, table, frontier, work)
        wait(barrier, n_threads)  # the rows have moved, and are counted
        # Children.
        if thread == 0:
            for k in range(frontier.state[fr.N_EXPAND]):
                frontier.expand[k].n_left = work.n_left[k]
            control.commit(frontier, params)
    if thread == 0:
        control.finish(frontier, params, order, tree_offset)
    wait(barrier, n_threads)  # the leaves have their numbers
    scatter_leaves(table, frontier, work, leaf)
    wait(barrier, n_threads)  # all leaves of rows are written: the caller reads those of others


@kernel_without_allocation
def _grow_worker(
    thread, n_threads, barrier, table, frontier, params, work, order, tree_offset, leaf
):
    grow_together(
        thread, n_threads, barrier, table, frontier, params, work, order, tree_offset, leaf
    )


def grow(
    codes: Codes,
    n_bins: np.ndarray,
    records: TreeRecords,
    keys: np.ndarray,
    params: GrowthParams,
    rules: FeatureRules = NO_RULES,
) -> GrownTrees:
    n_trees, n_records = records.words.shape
    words = records.words.reshape(-1)
    frontier = frontier_of(codes, n_trees, n_records, params, n_bins, rules)
    frontier.trees["key"] = keys
    fr.set_statistics(frontier, records.sums, records.scales)
    n_threads = threads_of(codes, words.size)
    table, work = workspace_of(codes, n_bins, words, frontier, n_threads, params.is_symmetric)
    leaf = np.empty((n_trees, codes.columns.shape[1]), np.int32)
    leaf.fill(-1)
    order = np.empty(frontier.nodes.size, np.int64)
    offset = np.empty(n_trees + 1, np.int64)
    run(_grow_worker, n_threads, table, frontier, params, work, order, offset, leaf)
    return emitted(frontier, order, offset, leaf)


def threads_of(codes: Codes, n_records: int) -> int:
    """Return how many threads grow trees on some records."""
    return max(1, min(get_threads(), n_records * len(codes.columns) // MIN_CELLS_PER_THREAD))


def frontier_of(
    codes: Codes,
    n_trees: int,
    n_records: int,
    params: GrowthParams,
    n_bins: np.ndarray,
    rules: FeatureRules,
) -> Frontier:
    """Return the tables of a batch of trees, kept from round to round as long as they suffice. A
    smaller batch, as the last one of a round, is a part of them, and samples of rows differ in
    size."""
    kept = derived(codes.rows, "frontier", dict)
    is_kept = kept.get("params") == params and kept["rules"] is rules
    if not (is_kept and n_trees <= kept["tables"].trees.size and n_records <= kept["n_records"]):
        keys = np.zeros(n_trees, np.uint64)
        tables = fr.allocate([n_records] * n_trees, keys, params, n_bins, rules)
        kept.update(params=params, n_records=n_records, rules=rules, tables=tables)
    found: Frontier = kept["tables"]
    # A copy: what grew on another sample, or will again, keeps where its own records are.
    trees = found.trees[:n_trees].copy()
    trees["begin"] = n_records * np.arange(n_trees)
    trees["end"] = trees["begin"] + n_records
    return found._replace(trees=trees)


def workspace_of(
    codes: Codes, n_bins: np.ndarray, records: np.ndarray, frontier: Frontier, n_threads: int,
    is_symmetric: int = 0,
) -> tuple[Table, Work]:  # fmt: skip
    """Return the tables of a growth; large ones are kept from tree to tree as long as their
    sizes last."""
    kept = derived(codes.rows, "workspace", dict)
    sizes = (frontier.nodes.size, n_threads, is_symmetric)
    if kept.get("sizes") != sizes or records.size > kept["table"].records[1].size:
        kept.clear()
        kept["sizes"] = sizes
        own = layout(codes, n_bins)
        # No byte is shared, and no node of a level does without a histogram.
        is_few = own.column_slots.size == n_bins.size and not is_symmetric
        few_rows = FEW_ROWS if is_few else 0
        spare = np.empty_like(records)
        kept["table"] = Table(codes.columns, own, (spare, spare), few_rows)
        kept["work"] = allocate_work(own, records.size, frontier, n_threads, is_symmetric)
    columns, own, (_, spare), few_rows = kept["table"]
    return Table(columns, own, (records, spare[: records.size]), few_rows), kept["work"]
