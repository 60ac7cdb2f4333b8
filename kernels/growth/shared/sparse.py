"""Growth on a share of the rows of a sparse table (contract: ``kernels.growth.grow``).

The rounds are those of ``shared.grow``, and the nodes are in the two tables of ``shared.phases``;
histograms leave out the zeros, as those of ``cpu.sparse`` do. What a node's zeros hold follows from
its sums and its rows, which are those of all workers: messages leave out the zeros, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...runtime.arrays import derived
from ...runtime.collective import Collective
from ...runtime.compilation import inner, kernel_without_allocation
from ...runtime.cpu.team import get_threads, run, wait
from ...runtime.dtypes import TreeRecords
from .. import control
from .. import frontier as fr
from ..cpu.search import settle_nodes
from ..cpu.sparse import (
    MIN_ENTRIES_PER_THREAD,
    SparseRows,
    SparseWork,
    add_pairs,
    allocate_work,
    partition,
    scatter_leaves,
    search,
)
from ..frontier import Frontier
from ..grow import GrownTrees, emitted
from ..params import NO_RULES, FeatureRules, GrowthParams
from ..sparse_codes import SparseCodes
from .phases import begin_round, number_leaves, route
from .start import start


class SparseSums(NamedTuple):
    """What workers add up.

    pairs : int64, (pairs, 2, places)
        The histograms that are built in a round: packed sums, and rows.
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
    add_pairs(table, own, work)
    wait(barrier, n_threads)  # this worker's histograms are complete
    _copy_pairs(thread, n_threads, frontier, work, sums, False)


@kernel_without_allocation
def _open_nodes(thread, n_threads, barrier, table, frontier, own, params, work, sums):
    """Find the splits of the new nodes in the sums of all workers, choose the nodes to expand, and
    partition this worker's rows of them."""
    _copy_pairs(thread, n_threads, frontier, work, sums, True)
    wait(barrier, n_threads)  # those of all workers have taken their place
    search(thread, n_threads, table, frontier, params, work)
    wait(barrier, n_threads)  # each share of the features has its best split
    if thread == 0:
        settle_nodes(frontier, params, work)
        control.choose(frontier, params, np.int64(control.HALF))
        route(frontier, own)
    wait(barrier, n_threads)  # the nodes to open are chosen
    partition(thread, table, own, work)
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
    scatter_leaves(table, own, work, leaf)


def grow(
    codes: SparseCodes,
    n_bins: np.ndarray,
    records: TreeRecords,
    keys: np.ndarray,
    params: GrowthParams,
    rules: FeatureRules = NO_RULES,
) -> GrownTrees:
    collective, frontier, own_begin, _ = start(n_bins, records, keys, params, rules)
    n_trees, words = len(records.words), records.words.reshape(-1)
    n_threads = max(
        1, min(get_threads(), codes.row_places.size * n_trees // MIN_ENTRIES_PER_THREAD)
    )
    growth, sums = _workspace(codes, n_bins, words, frontier, params, n_threads)
    _run_rounds(growth, sums, own_begin, collective, n_threads)
    order = np.empty(frontier.nodes.size, np.int64)
    offset = np.empty(n_trees + 1, np.int64)
    leaf = np.full((n_trees, codes.row_begin.size - 1), -1, np.int32)
    run(_finish, n_threads, *growth, order, offset, leaf)
    return emitted(frontier, order, offset, leaf)


def _run_rounds(
    growth: SparseGrowth,
    sums: SparseSums,
    own_begin: np.ndarray,
    collective: Collective,
    n_threads: int,
) -> None:
    state = growth.frontier.state
    is_first = True
    while is_first or state[fr.N_EXPAND] > 0:
        run(_build, n_threads, *growth, sums, own_begin, is_first)
        if state[fr.N_PAIRS] > 0:
            collective.add(sums.pairs[: state[fr.N_PAIRS]])
        run(_open_nodes, n_threads, *growth, sums)
        if state[fr.N_EXPAND] > 0:
            collective.add(sums.n_left[: state[fr.N_EXPAND]])
        is_first = False


def _workspace(
    codes: SparseCodes,
    n_bins: np.ndarray,
    records: np.ndarray,
    frontier: Frontier,
    params: GrowthParams,
    n_threads: int,
) -> tuple[SparseGrowth, SparseSums]:
    """Return the tables of a growth; large ones are kept from tree to tree as long as their
    sizes last."""
    kept = derived(codes.row_places, "shared workspace", dict)
    capacity, n_slots = frontier.nodes.size, frontier.free_slots.size
    sizes = (capacity, n_slots, n_threads)
    if kept.get("sizes") != sizes:
        kept.clear()
        kept["sizes"] = sizes
        kept["work"] = allocate_work(codes, n_bins, frontier, n_threads)
        kept["own"] = np.zeros_like(frontier.nodes), np.zeros_like(frontier.expand)
        pairs = np.empty((n_slots, 2, int(codes.place_begin[-1])), np.int64)
        kept["sums"] = SparseSums(pairs, np.empty(capacity, np.int64))
    nodes, expand = kept["own"]
    own = frontier._replace(nodes=nodes, expand=expand)
    table = SparseRows(codes, n_bins, (records, np.empty_like(records)))
    return SparseGrowth(table, frontier, own, params, kept["work"]), kept["sums"]
