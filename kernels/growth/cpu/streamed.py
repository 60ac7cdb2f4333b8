"""Growth by phases on a table that is larger than memory (contract: ``kernels.growth.grow``): those
of ``passes``, slab by slab.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from contextlib import closing
from itertools import chain
from typing import Any

import numpy as np

from ...runtime.arrays import derived
from ...runtime.cpu.team import get_threads, run
from ...runtime.dtypes import CODE_WORDS, N_SLOTS, NO_LEAF, Codes, RowStatistics, TreeRecords
from .. import frontier as fr
from .. import streamed_codes
from ..by_phases import run_rounds
from ..frontier import Frontier
from ..grow import GrownTrees, emitted
from ..params import NO_RULES, FeatureRules, GrowthParams
from ..streamed_codes import GROUP_ROWS, ROUTE, StreamedCodes, most_numbers
from . import groups as of_rows
from . import passes
from .groups import BLOCK, N_FREE, Groups, Source
from .histogram import WORD_ENTRIES
from .layout import plain_layout
from .passes import QUEUE, Growth, Walk
from .search import NOTHING_KNOWN
from .tables import Table, Work, allocate_work

SUMS_BYTES = 1 << 26
"""Most memory of the histograms that the threads add up in a pass."""
MIN_ROWS_PER_THREAD = 1 << 12


class Passes:
    """The passes over the rows of a tree, in slabs."""

    def __init__(
        self, codes: StreamedCodes, source: Source, n_nodes: int, n_threads: int, leaf: np.ndarray
    ) -> None:
        self._codes, self._source, self._n_threads = codes, source, n_threads
        n_rows, n_slab = len(codes.rows), streamed_codes.SLAB_ROWS
        slabs = [(row, min(row + n_slab, n_rows)) for row in range(0, n_rows, n_slab)]
        row = [*chain.from_iterable(range(*slab, GROUP_ROWS) for slab in slabs), n_rows]
        begin = row
        if source.records.size:
            begin = [bisect_left(source.records, each, key=_row_of) for each in row]
        self._group_of = {first: number for number, first in enumerate(row)}
        self._slabs = [
            (first, last)
            for first, last in slabs
            if begin[self._group_of[first]] < begin[self._group_of[last]]
        ]
        self._groups = _allocate_groups(row, begin, n_nodes, n_threads, leaf)

    def _each_slab(self, work: Callable[[np.ndarray, int, int, int], None]) -> None:
        """Call ``work`` with the codes of slabs, the number of their first row, and their first and
        last group, exclusive."""
        with closing(self._codes.slabs(self._slabs)) as read:
            for first, last, rows in read:
                work(rows, first, self._group_of[first], self._group_of[last])

    def walk(self, growth: Growth, is_first: bool, leaf: np.ndarray) -> None:
        """Route the rows of the nodes to open, and add up rows."""
        run(of_rows.place_nodes, 1, growth.frontier, self._groups, is_first)
        n_opened = 0 if is_first else int(growth.frontier.state[fr.N_EXPAND])

        def work(*slab: Any) -> None:
            growth.walk.state[QUEUE] = 0
            run(
                of_rows.walk_groups, self._n_threads,
                growth.table, self._source, growth.walk, self._groups, *slab, n_opened,
            )  # fmt: skip

        self._each_slab(work)

    def count(self, growth: Growth, leaf: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the histograms and counts of rows of the nodes to recheck."""
        frontier = growth.frontier
        n = int(frontier.state[fr.N_RECHECK])
        counts = np.zeros((n, len(growth.table.columns), N_SLOTS), np.int64)
        packed = np.zeros((n, growth.work.spare.shape[1]), np.int64)
        k_of = np.full(frontier.nodes.size, -1, np.int64)
        k_of[frontier.recheck[:n]] = np.arange(n)

        def work(*slab: Any) -> None:
            run(
                of_rows.count_rows, self._n_threads,
                growth.table, frontier, self._source, self._groups, k_of, *slab, packed, counts,
            )  # fmt: skip

        self._each_slab(work)
        return packed, counts

    def name_leaves(self, growth: Growth, leaf: np.ndarray) -> None:
        """Write the leaf of every row."""
        run(of_rows.place_nodes, 1, growth.frontier, self._groups, False)
        run(
            of_rows.write_leaves, self._n_threads, growth.frontier, self._source, self._groups, leaf
        )


def _row_of(record: np.uint64) -> int:
    return int(record) & 0xFFFFFFFF


def _allocate_groups(
    row: list[int], begin: list[int], n_nodes: int, n_threads: int, leaf: np.ndarray
) -> Groups:
    """Return the groups of a tree; their orders are in the memory of its ``leaf``."""
    n_places = n_nodes + 1
    return Groups(
        row=np.array(row),
        begin=np.array(begin),
        order=leaf.view(np.uint16),
        stride=leaf.itemsize // 2,
        first=np.zeros((len(row) - 1, n_places), np.uint16),
        size=np.zeros((len(row) - 1, n_places), np.uint16),
        place_of=np.zeros(n_nodes, np.int64),
        pending=np.zeros((n_nodes, 3), np.int64),
        merged=np.zeros((n_nodes, 2), np.int64),
        free=np.zeros(n_places, np.int64),
        counts=np.zeros(N_FREE + 1, np.int64),
        rest=np.empty((n_threads, GROUP_ROWS), np.uint16),
        at=np.empty((n_threads, BLOCK), np.uint64),
        addends=np.empty((n_threads, BLOCK), np.int64),
    )


def grow(
    codes: StreamedCodes,
    n_bins: np.ndarray,
    records: TreeRecords | RowStatistics,
    keys: np.ndarray,
    params: GrowthParams,
    rules: FeatureRules = NO_RULES,
) -> GrownTrees:
    """Grow the trees one after the other."""
    shape = len(keys), codes.columns.shape[1]
    n_all = shape[1] if isinstance(records, RowStatistics) else records.words.shape[1]
    if isinstance(records, RowStatistics):
        is_narrow = fr.node_capacity(params, n_all) <= NO_LEAF
        leaf = np.empty(shape, records.leaf_type if is_narrow else np.int32)
    else:
        leaf = np.full(shape, -1, np.int32)
    grown = []
    for t in range(len(keys)):
        source = _source_of(records, t)
        frontier = fr.allocate([n_all], keys[t : t + 1], params, n_bins, rules)
        fr.set_statistics(frontier, records.sums[t : t + 1], records.scales[t : t + 1])
        grown.append(_grow_tree(codes, n_bins, source, frontier, params, leaf[t]))
    return joined(grown, leaf)


def _source_of(records: TreeRecords | RowStatistics, t: int) -> Source:
    if isinstance(records, RowStatistics):
        return Source(np.empty(0, np.uint64), records.words[t])
    return Source(records.words[t], np.empty(0, np.uint32))


def _grow_tree(
    codes: StreamedCodes,
    n_bins: np.ndarray,
    source: Source,
    frontier: Frontier,
    params: GrowthParams,
    leaf: np.ndarray,
) -> GrownTrees:
    n_threads = max(1, min(get_threads(), source.n // MIN_ROWS_PER_THREAD))
    kept = derived(codes.rows, "streamed workspace", dict)
    on_host = Codes(codes.rows, codes.columns)
    n_sums = SUMS_BYTES // (8 * WORD_ENTRIES * -(-n_bins.size // 8) * n_threads)
    growth = workspace(kept, on_host, n_bins, frontier, params, n_threads, (n_threads, n_sums))
    walks = Passes(codes, source, frontier.nodes.size, n_threads, leaf)
    return grow_by(walks, growth, n_threads, leaf)


def grow_by(walks: Any, growth: Growth, n_threads: int, leaf: Any) -> GrownTrees:
    """Grow a tree, except for its ``leaf``.

    Parameters
    ----------
    walks : object
        With the methods of ``Passes``, whatever device it runs them on.
    growth : Growth
    n_threads : int
        Of the phases between the passes.
    leaf : array, shape (n_rows,)
        Of any kind that ``walks`` takes; the rows of the sample get their leaves.
    """
    frontier = growth.frontier
    run_rounds(_StreamedBatch(walks, growth, n_threads, leaf))
    order, offset = np.empty(frontier.nodes.size, np.int64), np.empty(2, np.int64)
    run(passes.number_leaves, 1, frontier, growth.params, order, offset)
    walks.name_leaves(growth, leaf)
    return emitted(frontier, order, offset, None)


class _StreamedBatch:
    """See ``growth.by_phases.Batch``: a tree whose rows are read in passes."""

    def __init__(self, walks: Any, growth: Growth, n_threads: int, leaf: Any) -> None:
        self._walks, self._growth, self._n_threads, self._leaf = walks, growth, n_threads, leaf
        self._known = NOTHING_KNOWN
        self.frontier = growth.frontier

    def plant(self) -> None:
        run(passes.begin, self._n_threads, *self._growth)
        self._walks.walk(self._growth, True, self._leaf)
        run(passes.close, self._n_threads, *self._growth, True)

    def open_nodes(self) -> None:
        run(passes.decide, self._n_threads, *self._growth, *self._known)
        if self.frontier.state[fr.N_EXPAND] > 0:
            self._walks.walk(self._growth, False, self._leaf)

    def make_children(self) -> None:
        run(passes.close, self._n_threads, *self._growth, False)
        is_known = self.frontier.state[fr.N_RECHECK] == 0
        self._known = NOTHING_KNOWN if is_known else self._walks.count(self._growth, self._leaf)


def workspace(
    kept: dict[str, Any],
    codes: Codes,
    n_bins: np.ndarray,
    frontier: Frontier,
    params: GrowthParams,
    n_threads: int,
    lines: tuple[int, int],
) -> Growth:
    """Return the tables of a growth; large ones are kept from tree to tree as long as their sizes
    last.

    Parameters
    ----------
    kept : dict
    codes : Codes
        Without rows where others read them.
    n_bins, frontier, params
    n_threads : int
        Of the phases between the passes.
    lines : tuple of int
        Threads of a pass that add up histograms of their own, and how many of these at most.
    """
    sizes = (
        frontier.nodes.size, frontier.free_slots.size, n_threads, lines, params.is_symmetric,
    )  # fmt: skip
    if kept.get("sizes") != sizes:
        kept.clear()
        own = plain_layout(codes, n_bins)
        none = np.empty(0, np.uint64)  # a view would keep the records of this tree in memory
        kept["table"] = Table(codes.columns, own, (none, none), few_rows=0)
        kept["work"] = allocate_work(own, 0, frontier, n_threads, params.is_symmetric)
        kept["walk"] = _allocate_walk(kept["work"], frontier.nodes.size, *lines)
        kept["sizes"] = sizes
    return Growth(kept["table"], frontier, params, kept["work"], kept["walk"])


def _allocate_walk(work: Work, capacity: int, n_threads: int, most_sums: int) -> Walk:
    n_sums = max(2, min(capacity, most_sums))
    sums = np.empty((n_threads, n_sums, work.spare.shape[1]), np.int64)
    n_numbers = most_numbers(capacity)
    return Walk(
        routes=np.zeros(capacity, ROUTE),
        sets=np.zeros((capacity, CODE_WORDS), np.uint32),
        expansion_of=np.zeros(n_numbers, np.int32),
        node_of=np.zeros(n_numbers, np.int32),
        opened=np.zeros(capacity, np.int64),
        sums_of=np.zeros(capacity, np.int64),
        n_left=np.zeros((n_threads, capacity), np.int64),
        sums=sums,
        state=np.zeros(QUEUE + 1, np.int64),
    )


def joined(grown: list[GrownTrees], leaf: Any) -> GrownTrees:
    """Return trees that were grown one after the other as a batch."""
    if len(grown) == 1:
        return grown[0]._replace(leaf=leaf)
    offset = np.cumsum([0, *(int(tree.offset[-1]) for tree in grown)])
    names = GrownTrees._fields[1:-1]
    arrays = {name: np.concatenate([getattr(tree, name) for tree in grown]) for name in names}
    return GrownTrees(offset=offset, **arrays, leaf=leaf)
