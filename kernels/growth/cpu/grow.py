"""Growth (contract: ``kernels.growth.grow``): all threads run one loop over the rounds.

A round has five steps with a barrier after each. Thread 0 decides alone (cheap, a few hundred
nodes), the rest is shared, in tasks that the threads take from a counter:

    decide      thread 0    which nodes to open
    partition   all         a small node is one task, a large one many pieces
    commit      thread 0    children, pairs, pieces of the rows to add up
    histogram   all         pieces of equal size over all the rows of the round
    evaluate    all         (pair, eight features): collect pieces, subtract, compare splits
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...runtime.compilation import kernel_without_allocation
from ...runtime.cpu.team import get_threads, run, wait
from ...runtime.derived import derived
from ...runtime.dtypes import Codes, TreeRecords
from .. import frontier as fr
from .. import nodes as growth_nodes
from .. import numbering as growth_numbering
from .. import order as growth_order
from ..frontier import Frontier
from ..grow import GrownTrees, emitted
from ..params import NO_RULES, FeatureRules, GrowthParams
from .bundles import layout
from .rows import histograms, partition, plan_histograms, plan_partition, scatter_leaves
from .splits import evaluate, recheck, settle_nodes
from .tables import Table, Work, allocate_work

MIN_CELLS_PER_THREAD = 100_000
"""Cells of the table below which another thread costs more than it saves."""


@kernel_without_allocation
def _grow_worker(
    thread, n_threads, barrier, table, frontier, params, work, order, tree_offset, leaf
):
    if thread == 0:
        growth_nodes.start(frontier, params)
    while True:
        if thread == 0:
            plan_histograms(frontier, params, work, n_threads)
        wait(barrier, n_threads)
        histograms(table, frontier, work)
        wait(barrier, n_threads)
        evaluate(thread, n_threads, table, frontier, params, work)
        recheck(thread, table, frontier, params, work)
        wait(barrier, n_threads)
        if thread == 0:
            settle_nodes(frontier, params, work)
            growth_order.choose(frontier, params)
            plan_partition(frontier, work, n_threads)
        wait(barrier, n_threads)
        if frontier.state[fr.N_EXPAND] == 0:
            break
        partition(thread, table, frontier, work)
        wait(barrier, n_threads)
        if thread == 0:
            for k in range(frontier.state[fr.N_EXPAND]):
                frontier.expand[k].n_left = work.filled[2 * k]
            growth_nodes.commit(frontier, params)
    if thread == 0:
        growth_numbering.finish(frontier, params, order, tree_offset)
    wait(barrier, n_threads)
    scatter_leaves(table, frontier, work, leaf)


def grow(
    codes: Codes,
    n_bins: Any,
    trees: Sequence[TreeRecords],
    keys: np.ndarray,
    params: GrowthParams,
    rules: FeatureRules = NO_RULES,
) -> GrownTrees:
    n_features, n_rows = codes.columns.shape
    words = [tree.words for tree in trees]
    records = words[0] if len(words) == 1 else np.concatenate(words)
    frontier = _frontier(codes, [own.size for own in words], keys, params, n_bins, rules)
    fr.set_statistics(frontier, [tree.sums for tree in trees], [tree.scales for tree in trees])
    n_threads = max(1, min(get_threads(), records.size * n_features // MIN_CELLS_PER_THREAD))
    table, work = _workspace(codes, n_bins, records, frontier, n_threads)
    work.counts[:] = 0
    leaf = np.full((len(trees), n_rows), -1, np.int32)
    order = np.empty(frontier.nodes.size, np.int64)
    offset = np.empty(len(trees) + 1, np.int64)
    run(_grow_worker, n_threads, table, frontier, params, work, order, offset, leaf)
    return emitted(frontier, order, offset, leaf)


def _frontier(
    codes: Codes,
    n_records: list[int],
    keys: np.ndarray,
    params: GrowthParams,
    n_bins: np.ndarray,
    rules: FeatureRules,
) -> Frontier:
    """The tables of the trees, kept from round to round while all but the statistics lasts."""
    kept = derived(codes.rows, "frontier", dict)
    if not (
        kept.get("params") == params and kept["rules"] is rules and kept["n_records"] == n_records
    ):
        tables = fr.allocate(n_records, keys, params, n_bins, rules)
        kept.update(params=params, rules=rules, n_records=n_records, tables=tables)
    kept["tables"].trees["key"] = keys
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
        kept["work"] = allocate_work(layout(codes, n_bins), records.size, frontier, n_threads)
    table = Table(codes.columns, layout(codes, n_bins), (records, kept["spare"]))
    return table, kept["work"]
