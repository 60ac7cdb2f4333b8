"""Growth on a sparse table (contract: ``kernels.growth.grow``): by phases where several workers
share its rows, otherwise in one call, as returns to Python made small fits a third slower.

A histogram adds up the entries of its node's rows and leaves out the zeros: their bin of a feature
holds what is left of the node. So a row costs as many additions as it has entries, however wide the
table is. Rows are counted beside the sums, so that the splits found keep ``min_samples_leaf`` and
no node is searched again; and a feature with fewer entries than that in a node is not looked at
there, because the side without its zeros would have too few rows.

    sums, counts   | bins of feature 0, missing | bins of feature 1, missing | ...    line of a node

A round has one task for each pair of nodes to build, each share of the features of a pair to
search, and each node to partition. Workers have the nodes in the two tables of ``worker_phases``.
What a node's zeros hold follows from its sums and its rows, which are those of all workers:
messages leave out the zeros, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...runtime.arrays import derived
from ...runtime.collective import ONE_WORKER, Workers
from ...runtime.compilation import inner, kernel_without_allocation
from ...runtime.cpu.team import CACHE_LINE, atomic_add, get_threads, run, wait
from ...runtime.dtypes import N_SLOTS, TreeRecords
from .. import control
from .. import frontier as fr
from ..by_phases import run_rounds, start
from ..frontier import Frontier
from ..grow import GrownTrees, emitted
from ..limits import allow_features, can_split, direction_of, l2_of, least_h
from ..params import NO_RULES, FeatureRules, GrowthParams
from ..sparse_codes import SparseCodes
from .histogram import unpack_record
from .levels.search import NO_LEVELS, LevelWork, allocate_levels
from .levels.sparse import fill_bins, find_levels, settle
from .partition import cut_of, partition_alone
from .quick_split import LARGEST_L2, N_CANDIDATES, best_of_plain
from .split import best_of_feature
from .tables import BEST
from .worker_phases import begin_round, number_leaves, route

u32, u64, i64 = np.uint32, np.uint64, np.int64

BUILD, SEARCH, PARTITION, LEAVES = (k * CACHE_LINE for k in range(4))
"""Queues that tasks are taken from, each on a cache line of its own."""
FEWEST_OF_SHARE = 256
MOST_SHARES = 64
"""Features that a task searches, and the shares of the features that there are at most."""
MIN_ENTRIES_PER_THREAD = 50_000
"""Entries of the table below which another thread costs more than it saves."""


class SparseRows(NamedTuple):
    """The rows: their entries by rows and by columns, and both buffers of records."""

    codes: SparseCodes
    n_bins: np.ndarray
    records: tuple[np.ndarray, np.ndarray]


class SparseWork(NamedTuple):
    """Histograms, the best splits of a round, and scratch, of which each thread has a line.

    sums : int64, (histograms, places)
        Packed as in ``histogram``.
    row_counts : int32, (histograms, places)
    best : BEST, (pairs, shares, 2)
        For the pair's two nodes, among a share of the features.
    rechecked : BEST
        Without splits: nothing is searched again.
    column : uint8, (threads, n_rows)
        The codes of the feature that a node is divided by.
    allowed, allowed_of : (threads, 2, n_features), (threads, 2)
        The features that the two nodes of a pair may use, and the numbers of these nodes.
    """

    queues: np.ndarray
    sums: np.ndarray
    row_counts: np.ndarray
    best: np.ndarray
    rechecked: np.ndarray
    column: np.ndarray
    allowed: np.ndarray
    allowed_of: np.ndarray
    features: np.ndarray
    hashes: np.ndarray
    bins: np.ndarray
    bin_counts: np.ndarray
    prefix: np.ndarray
    lefts: np.ndarray
    scores: np.ndarray
    approximate: np.ndarray
    levels: LevelWork


class SparseSums(NamedTuple):
    """Arrays that workers add up in a round.

    pairs : int64, (pairs, 2, places)
        The histograms that are built in a round: packed sums, and rows. Empty for one worker.
    n_left : int64, (expansions,)
        Rows that go left.
    """

    pairs: np.ndarray
    n_left: np.ndarray


class SparseGrowth(NamedTuple):
    """A batch of trees that grows; ``own`` is the frontier of this worker's rows."""

    table: SparseRows
    frontier: Frontier
    own: Frontier
    params: GrowthParams
    work: SparseWork


@inner
def _add_entries(codes, records, begin, end, sums, row_counts):
    """Add the entries of ``records[begin:end]`` to a histogram."""
    for i in range(u64(begin), u64(end)):
        record = records[i]
        row = u64(u32(record))
        v = unpack_record(record)
        for e in range(u64(codes.row_begin[row]), u64(codes.row_begin[row + u64(1)])):
            place = u64(codes.row_places[e])
            sums[place] += v
            row_counts[place] += np.int32(1)


@inner
def _add_pairs(table, frontier, work):
    while True:
        p = atomic_add(work.queues, BUILD, 1)
        if p >= frontier.state[fr.N_PAIRS]:
            break
        node = frontier.nodes[frontier.pairs[p].build]
        sums, row_counts = work.sums[node.slot], work.row_counts[node.slot]
        sums[:] = 0
        row_counts[:] = 0
        records = table.records[node.depth & 1]
        _add_entries(table.codes, records, node.begin, node.end, sums, row_counts)


@inner
def _search(thread, n_threads, table, frontier, params, work):
    """Find the best splits of the new nodes, in tasks of a pair of nodes and a share of the
    features. A single thread carries the best split of a pair from share to share."""
    n_features = table.n_bins.size
    n_shares = work.best.shape[1]
    n_tasks = frontier.state[fr.N_PAIRS] * n_shares
    while True:
        task = atomic_add(work.queues, SEARCH, 1)
        if task >= n_tasks:
            break
        p = task // n_shares
        share = task - p * n_shares
        first, last = share * n_features // n_shares, (share + 1) * n_features // n_shares
        pair = frontier.pairs[p]
        best = work.best[p, share]
        # Where a single thread carries the best split on, the other shares stay without one.
        best[0].score = best[1].score = fr.NO_GAIN
        if n_threads == 1:
            best = work.best[p, 0]
        built = frontier.nodes[pair.build].slot
        _search_share(thread, table, frontier, params, work, pair.build, 0, first, last, best[0])
        if pair.sibling >= 0:
            rest = frontier.nodes[pair.sibling].slot
            begin, end = table.codes.place_begin[first], table.codes.place_begin[last]
            # The slot of the sibling holds the histogram of the parent, of which this task
            # subtracts the places of its features.
            for k in range(u64(begin), u64(end)):
                work.sums[rest, k] -= work.sums[built, k]
                work.row_counts[rest, k] -= work.row_counts[built, k]
            _search_share(
                thread, table, frontier, params, work, pair.sibling, 1, first, last, best[1]
            )


@inner
def _search_share(thread, table, frontier, params, work, x, child, first, last, best):
    """Replace ``best`` by the node's best split by features ``first`` to ``last - 1``, if that is
    better."""
    if not can_split(frontier, params, x):
        return
    node = frontier.nodes[x]
    allowed = work.allowed[thread, child]
    # Drawn once for a node, which has many shares of the features.
    if work.allowed_of[thread, child] != x:
        allow_features(frontier, params, x, work.features[thread], work.hashes[thread], allowed)
        work.allowed_of[thread, child] = x
    least, l2 = least_h(frontier, params, x), l2_of(frontier, params, x)
    is_plain = frontier.rules.size == 0 and l2 <= LARGEST_L2
    total = (node.g << i64(32)) + node.h
    n_rows = node.end - node.begin
    sums, row_counts = work.sums[node.slot], work.row_counts[node.slot]
    bins, counts = work.bins[thread], work.bin_counts[thread]
    for f in range(first, last):
        if allowed[f] == 0:
            continue
        n_bins = i64(table.n_bins[f])
        own = slice(table.codes.place_begin[f], table.codes.place_begin[f + 1])
        # Whatever the cut, one child has entries of the feature alone, and these are too few.
        if _total_of(row_counts[own]) < params.min_samples_leaf:
            continue
        zero = i64(table.codes.zeros[f])
        fill_bins(sums[own], row_counts[own], n_bins, zero, total, n_rows, bins, counts)
        if is_plain:
            bound, _, _, _ = best_of_plain(
                bins, n_bins, total, least, l2, best.score,
                work.lefts[thread], work.approximate[thread],
            )  # fmt: skip
            # Without counts the score is a bound: most features are done here.
            if bound <= best.score:  # the first of equal splits is that of the lowest feature
                continue
        score, bin_, missing_left, left = best_of_feature(
            bins, n_bins, False, total,
            (least, l2, node.low, node.high, direction_of(frontier, f)),
            counts, n_rows, params.min_samples_leaf, work.prefix[thread], work.scores[thread],
        )  # fmt: skip
        if bin_ >= 0 and score > best.score:
            best.score = score
            best.feature = f
            best.bin = bin_
            best.missing_left = missing_left
            best.left = left


@inner
def _total_of(counts):
    total = np.int32(0)
    for k in range(counts.size):
        total += counts[k]
    return total


@inner
def _partition(thread, table, frontier, work):
    codes = table.codes
    column = work.column[thread]
    while True:
        k = atomic_add(work.queues, PARTITION, 1)
        if k >= frontier.state[fr.N_EXPAND]:
            break
        node = frontier.nodes[frontier.expand[k].node]
        # The feature as a dense column, so that rows are routed as those of dense tables.
        column[:] = codes.zeros[node.feature]
        begin, end = codes.column_begin[node.feature], codes.column_begin[node.feature + 1]
        for e in range(begin, end):
            column[codes.column_rows[e]] = codes.column_codes[e]
        source, target = table.records[node.depth & 1], table.records[1 - (node.depth & 1)]
        cut = cut_of(node.bin, node.missing_left)
        frontier.expand[k].n_left = partition_alone(
            column, source, target, node.begin, node.end, cut
        )


@inner
def _scatter_leaves(table, frontier, work, leaf):
    """Write the leaf of every row; the nodes without children cover all segments."""
    while True:
        x = atomic_add(work.queues, LEAVES, 1)
        if x >= frontier.state[fr.N_NODES]:
            break
        node = frontier.nodes[x]
        if node.child >= 0:
            continue
        records = table.records[node.depth & 1]
        for i in range(node.begin, node.end):
            leaf[node.tree, records[i] & u64(0xFFFFFFFF)] = np.int32(node.leaf)


@kernel_without_allocation
def _grow_alone(
    thread, n_threads, barrier, table, frontier, params, work, order, tree_offset, leaf
):
    """Grow the trees of one worker, which needs no second table of nodes."""
    # Nodes of trees before had the same numbers.
    work.allowed_of[thread, 0] = work.allowed_of[thread, 1] = -1
    if thread == 0:
        control.start(frontier, params)
        work.queues[:] = 0
    while True:
        wait(barrier, n_threads)  # the pairs are listed, and the queues begin again
        _add_pairs(table, frontier, work)
        wait(barrier, n_threads)  # the histograms are complete
        if params.is_symmetric == 1:
            find_levels(thread, n_threads, barrier, table, frontier, params, work)
        else:
            _search(thread, n_threads, table, frontier, params, work)
        wait(barrier, n_threads)  # each share of the features has its best split
        if thread == 0:
            settle(table, frontier, params, work)
            control.choose(frontier, params, i64(control.QUARTER))
        wait(barrier, n_threads)  # the nodes to open are chosen
        if frontier.state[fr.N_EXPAND] == 0:
            break
        _partition(thread, table, frontier, work)
        wait(barrier, n_threads)  # the rows have moved
        if thread == 0:
            control.commit(frontier, params)
            work.queues[:] = 0
    if thread == 0:
        control.finish(frontier, params, order, tree_offset)
    wait(barrier, n_threads)  # the leaves have their numbers
    _scatter_leaves(table, frontier, work, leaf)


@inner
def _copy_pairs(thread, n_threads, frontier, work, sums, is_back):
    """Copy the histograms that were built to the message, or back."""
    for p in range(thread, frontier.state[fr.N_PAIRS], n_threads):
        slot = frontier.nodes[frontier.pairs[p].build].slot
        packed, row_counts = work.sums[slot], work.row_counts[slot]
        line = sums.pairs[p]
        for k in range(packed.size):
            if is_back:
                packed[k] = line[0, k]
                row_counts[k] = np.int32(line[1, k])
            else:
                line[0, k] = packed[k]
                line[1, k] = row_counts[k]


@kernel_without_allocation
def _build(
    thread, n_threads, barrier, table, frontier, own, params, work, sums, own_begin, is_first
):
    """Turn the partitioned nodes into parents and add up the entries of the new pairs."""
    if is_first:
        work.allowed_of[thread, 0] = work.allowed_of[thread, 1] = -1
    if thread == 0:
        begin_round(frontier, own, params, sums.n_left, own_begin, is_first)
        for p in range(frontier.state[fr.N_PAIRS]):
            x = frontier.pairs[p].build
            # The rows are this worker's, the set of histograms is common.
            own.nodes[x].slot = frontier.nodes[x].slot
        work.queues[:] = 0
    wait(barrier, n_threads)  # the pairs are those of this round
    _add_pairs(table, own, work)
    wait(barrier, n_threads)  # this worker's histograms are complete
    _copy_pairs(thread, n_threads, frontier, work, sums, False)


@kernel_without_allocation
def _open_nodes(thread, n_threads, barrier, table, frontier, own, params, work, sums):
    """Find the splits of the new nodes in the sums of all workers, choose the nodes to expand, and
    partition this worker's rows of them."""
    _copy_pairs(thread, n_threads, frontier, work, sums, True)
    wait(barrier, n_threads)  # those of all workers have taken their place
    if params.is_symmetric == 1:
        find_levels(thread, n_threads, barrier, table, frontier, params, work)
    else:
        _search(thread, n_threads, table, frontier, params, work)
    wait(barrier, n_threads)  # each share of the features has its best split
    if thread == 0:
        settle(table, frontier, params, work)
        control.choose(frontier, params, i64(control.HALF))
        route(frontier, own)
    wait(barrier, n_threads)  # the nodes to open are chosen
    _partition(thread, table, own, work)
    wait(barrier, n_threads)  # the rows have moved
    if thread == 0:
        for k in range(frontier.state[fr.N_EXPAND]):
            sums.n_left[k] = own.expand[k].n_left


@kernel_without_allocation
def _finish(
    thread, n_threads, barrier, table, frontier, own, params, work, order, tree_offset, leaf
):
    """Number the nodes of the final trees and write the leaf of every row of this worker."""
    if thread == 0:
        number_leaves(frontier, own, params, order, tree_offset)
        work.queues[:] = 0
    wait(barrier, n_threads)  # the leaves have their numbers
    _scatter_leaves(table, own, work, leaf)


class _SparseBatch:
    """See ``growth.by_phases.Batch``."""

    def __init__(
        self,
        growth: SparseGrowth,
        sums: SparseSums,
        own_begin: np.ndarray,
        workers: Workers,
        n_threads: int,
    ) -> None:
        self._growth, self._sums, self._own_begin = growth, sums, own_begin
        self._workers, self._n_threads = workers, n_threads
        self.frontier = growth.frontier

    def plant(self) -> None:
        self._add_up(True)

    def make_children(self) -> None:
        self._add_up(False)

    def _add_up(self, is_first: bool) -> None:
        run(_build, self._n_threads, *self._growth, self._sums, self._own_begin, is_first)
        if self.frontier.state[fr.N_PAIRS] > 0:
            self._workers.collective.add(self._sums.pairs[: self.frontier.state[fr.N_PAIRS]])

    def open_nodes(self) -> None:
        run(_open_nodes, self._n_threads, *self._growth, self._sums)
        if self.frontier.state[fr.N_EXPAND] > 0:
            self._workers.collective.add(self._sums.n_left[: self.frontier.state[fr.N_EXPAND]])


def grow(
    codes: SparseCodes,
    n_bins: np.ndarray,
    records: TreeRecords,
    keys: np.ndarray,
    params: GrowthParams,
    rules: FeatureRules = NO_RULES,
    workers: Workers = ONE_WORKER,
) -> GrownTrees:
    frontier, own_begin, _ = start(n_bins, records, keys, params, rules, workers)
    n_trees, words = len(records.words), records.words.reshape(-1)
    n_entries = codes.row_places.size * n_trees
    n_threads = max(1, min(get_threads(), n_entries // MIN_ENTRIES_PER_THREAD))
    has_others = workers is not ONE_WORKER
    growth, sums = _workspace(codes, n_bins, words, frontier, params, n_threads, has_others)
    order = np.empty(frontier.nodes.size, np.int64)
    offset = np.empty(n_trees + 1, np.int64)
    leaf = np.full((n_trees, codes.row_begin.size - 1), -1, np.int32)
    if has_others:
        run_rounds(_SparseBatch(growth, sums, own_begin, workers, n_threads))
        run(_finish, n_threads, *growth, order, offset, leaf)
    else:
        run(
            _grow_alone, n_threads, growth.table, frontier, params, growth.work, order, offset, leaf
        )
    return emitted(frontier, order, offset, leaf)


def _workspace(
    codes: SparseCodes,
    n_bins: np.ndarray,
    records: np.ndarray,
    frontier: Frontier,
    params: GrowthParams,
    n_threads: int,
    has_others: bool,
) -> tuple[SparseGrowth, SparseSums]:
    """Return the tables of a growth; large ones are kept from tree to tree as long as their
    sizes last."""
    kept = derived(codes.row_places, "workspace", dict)
    capacity, n_slots = frontier.nodes.size, frontier.free_slots.size
    sizes = (capacity, n_slots, n_threads, has_others, params.is_symmetric)
    if kept.get("sizes") != sizes:
        kept.clear()
        kept["sizes"] = sizes
        kept["work"] = _allocate_work(codes, n_bins, frontier, n_threads, params.is_symmetric)
        kept["own"] = np.zeros_like(frontier.nodes), np.zeros_like(frontier.expand)
        shape = n_slots if has_others else 0, 2, int(codes.place_begin[-1])
        kept["sums"] = SparseSums(np.empty(shape, np.int64), np.empty(capacity, np.int64))
    nodes, expand = kept["own"]
    own = frontier._replace(nodes=nodes, expand=expand)
    table = SparseRows(codes, n_bins, (records, np.empty_like(records)))
    return SparseGrowth(table, frontier, own, params, kept["work"]), kept["sums"]


def _allocate_work(
    codes: SparseCodes, n_bins: np.ndarray, frontier: Frontier, n_threads: int, is_symmetric: int
) -> SparseWork:
    n_features, n_places = n_bins.size, int(codes.place_begin[-1])
    n_histograms = frontier.free_slots.size
    n_shares = max(1, min(MOST_SHARES, n_features // FEWEST_OF_SHARE))
    levels = NO_LEVELS
    if is_symmetric:
        levels = allocate_levels(n_features, frontier.nodes.size, n_threads)
    nothing = np.zeros(frontier.nodes.size, BEST)
    nothing["score"] = fr.NO_GAIN
    return SparseWork(
        queues=np.zeros(4 * CACHE_LINE, np.int64),
        sums=np.empty((n_histograms, n_places), np.int64),
        row_counts=np.empty((n_histograms, n_places), np.int32),
        best=np.zeros((frontier.nodes.size, n_shares, 2), BEST),
        rechecked=nothing,
        column=np.empty((n_threads, codes.row_begin.size - 1), np.uint8),
        allowed=np.empty((n_threads, 2, n_features), np.uint8),
        allowed_of=np.empty((n_threads, 2), np.int64),
        features=np.empty((n_threads, n_features), np.int64),
        hashes=np.empty((n_threads, n_features), np.uint64),
        bins=np.zeros((n_threads, N_SLOTS), np.int64),
        bin_counts=np.zeros((n_threads, N_SLOTS), np.int64),
        prefix=np.empty((n_threads, N_SLOTS), np.int64),
        lefts=np.empty((n_threads, 2, N_CANDIDATES), np.int32),
        scores=np.empty((n_threads, N_SLOTS), np.float64),
        approximate=np.empty((n_threads, N_CANDIDATES), np.float32),
        levels=levels,
    )
