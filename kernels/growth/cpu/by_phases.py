"""Growth by phases (contract: ``kernels.growth.grow``) of dense tables whose rows several workers
share: the trees of all rows, and the leaves of this worker's.

A round has one message, unless nodes are to recheck:

    open_nodes   each worker finds the same splits, opens the same nodes, partitions its rows, and
                 adds up histograms of theirs
    (add)        the histograms of all rows, and the rows of all workers that went left
    commit       each worker turns the opened nodes into parents
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...runtime.arrays import derived
from ...runtime.collective import ONE_WORKER, Workers
from ...runtime.cpu.team import get_threads, run
from ...runtime.dtypes import N_SLOTS, Codes, RowStatistics, TreeRecords
from .. import frontier as fr
from ..by_phases import run_rounds, start
from ..frontier import Frontier
from ..grow import GrownTrees, emitted
from ..params import NO_RULES, FeatureRules, GrowthParams
from ..sparse_codes import SparseCodes
from ..streamed_codes import StreamedCodes
from . import sparse, streamed
from . import worker_phases as phases
from .grow import MIN_CELLS_PER_THREAD
from .layout import layout
from .search import NOTHING_KNOWN
from .tables import Table, Work, allocate_work
from .worker_phases import Sums


class Growth(NamedTuple):
    """A batch of trees that grows; ``own`` is the frontier of this worker's rows, ``children`` that
    of the children whose histograms are added up (see ``worker_phases``)."""

    table: Table
    frontier: Frontier
    own: Frontier
    children: Frontier
    params: GrowthParams
    work: Work


def grow(
    codes: Codes | SparseCodes | StreamedCodes,
    n_bins: np.ndarray,
    records: TreeRecords | RowStatistics,
    keys: np.ndarray,
    params: GrowthParams,
    rules: FeatureRules = NO_RULES,
    workers: Workers = ONE_WORKER,
) -> GrownTrees:
    if isinstance(codes, StreamedCodes):
        return streamed.grow(codes, n_bins, records, keys, params, rules)
    assert isinstance(records, TreeRecords)
    if isinstance(codes, SparseCodes):
        return sparse.grow(codes, n_bins, records, keys, params, rules, workers)
    leaf = np.empty((len(records.words), codes.columns.shape[1]), np.int32)
    return grow_in(leaf, codes, n_bins, records, keys, params, rules, workers)


def grow_in(
    leaf: np.ndarray,
    codes: Codes,
    n_bins: np.ndarray,
    records: TreeRecords,
    keys: np.ndarray,
    params: GrowthParams,
    rules: FeatureRules,
    workers: Workers,
) -> GrownTrees:
    """Grow trees on dense codes, and write the leaves of the rows into ``leaf``."""
    frontier, own_begin, _ = start(n_bins, records, keys, params, rules, workers)
    words = records.words.reshape(-1)
    n_threads = max(1, min(get_threads(), words.size * len(n_bins) // MIN_CELLS_PER_THREAD))
    growth, sums = _workspace(codes, n_bins, words, frontier, params, n_threads, workers)
    run_rounds(_DenseBatch(growth, sums, own_begin, workers, n_threads))
    order = np.empty(frontier.nodes.size, np.int64)
    offset = np.empty(len(own_begin), np.int64)
    if records.words.shape[1] < leaf.shape[1]:
        leaf.fill(-1)
    run(phases.finish, n_threads, *growth, order, offset, leaf)
    return emitted(frontier, order, offset, leaf)


class _DenseBatch:
    """See ``growth.by_phases.Batch``."""

    def __init__(
        self, growth: Growth, sums: Sums, own_begin: np.ndarray, workers: Workers, n_threads: int
    ) -> None:
        self._growth, self._sums, self._own_begin = growth, sums, own_begin
        self._workers, self._n_threads = workers, n_threads
        self._known = NOTHING_KNOWN
        self.frontier = growth.frontier

    def plant(self) -> None:
        run(phases.plant, self._n_threads, *self._growth, self._sums, self._own_begin)
        self._add_up()

    def open_nodes(self) -> None:
        run(phases.open_nodes, self._n_threads, *self._growth, self._sums, *self._known)
        self._add_up()

    def make_children(self) -> None:
        run(phases.commit, 1, *self._growth[1:5], self._sums)
        is_known = self.frontier.state[fr.N_RECHECK] == 0
        self._known = NOTHING_KNOWN if is_known else self._recount()

    def _add_up(self) -> None:
        """Add up the messages of all workers."""
        n_entries = self._growth.children.state[fr.N_PAIRS] * self._sums.lines.shape[1]
        n = n_entries + self.frontier.state[fr.N_EXPAND]
        if n > 0:
            self._workers.collective.add(self._sums.message[:n])

    def _recount(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the histograms and counts of rows of the nodes to recheck, over all workers."""
        table, frontier, own = self._growth[:3]
        n = int(frontier.state[fr.N_RECHECK])
        counts = np.zeros((n, table.columns.shape[0], N_SLOTS), np.int64)
        packed = np.zeros((n, self._growth.work.spare.shape[1]), np.int64)
        run(phases.count_rechecked, self._n_threads, table, frontier, own, packed, counts)
        self._workers.collective.add(counts)
        if (frontier.nodes["slot"][frontier.recheck[:n]] < 0).any():
            self._workers.collective.add(packed)
        return packed, counts


def _workspace(
    codes: Codes,
    n_bins: np.ndarray,
    records: np.ndarray,
    frontier: Frontier,
    params: GrowthParams,
    n_threads: int,
    workers: Workers,
) -> tuple[Growth, Sums]:
    """Return the tables of a growth; large ones are kept from tree to tree as long as their
    sizes last."""
    kept = derived(codes.rows, "shared workspace", dict)
    own_layout = layout(codes, n_bins, workers)
    capacity = frontier.nodes.size
    sizes = (records.size, capacity, frontier.free_slots.size, n_threads, params.is_symmetric)
    if kept.get("sizes") != sizes:
        kept.clear()
        kept["sizes"] = sizes
        kept["spare"] = np.empty_like(records)
        kept["work"] = allocate_work(
            own_layout, records.size, frontier, n_threads, params.is_symmetric
        )
        kept["own"] = np.zeros_like(frontier.nodes), np.zeros_like(frontier.expand)
        n_lines = frontier.free_slots.size
        state = np.zeros_like(frontier.state)
        kept["children"] = np.zeros(2 * capacity, fr.NODE), np.zeros(n_lines, fr.PAIR), state
        n_used = own_layout.column_slots + (own_layout.column_slots < N_SLOTS)
        begin = np.cumsum([0, *n_used])
        message = np.empty(n_lines * begin[-1] + capacity, np.int64)
        lines = message[: n_lines * begin[-1]].reshape(n_lines, begin[-1])
        kept["sums"] = Sums(begin, message, lines, np.empty(capacity, np.int64))
    nodes, expand = kept["own"]
    own = frontier._replace(nodes=nodes, expand=expand)
    nodes, pairs, state = kept["children"]
    children = frontier._replace(nodes=nodes, pairs=pairs, state=state)
    table = Table(codes.columns, own_layout, (records, kept["spare"]), few_rows=0)
    return Growth(table, frontier, own, children, params, kept["work"]), kept["sums"]
