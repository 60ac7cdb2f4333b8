"""Growth (contract: ``kernels.growth.grow``), all of it on the device.

The host launches rounds ahead of the device and reads the trees only when they are needed. A
round has a fixed number of launches with fixed grids; the amount of work is read from the tables
(``tables``), and a round after the last one finds nothing to do::

    open_roots            one block    in the first round: the roots; plan of the histograms
                          the others   clear these
    open_nodes                         later: children of partitioned nodes; plan of histograms
    add_tiles             all          histograms of the smaller children
    draw_allowed          all          where features are sampled or may not interact
    best_of_features      all          the other children's histograms; best splits
    choose_nodes          one block    which nodes to open; plan of the partition
    move_apart            all          partition

Behind the last round ``number_leaves``, one block, finds out whether growth is done.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from ...runtime.arrays import Array, derived
from ...runtime.cuda.target import (
    blocks_for,
    blocks_for_rows,
    empty,
    is_simulated,
    launch,
    multiprocessors,
    upload,
)
from ...runtime.dtypes import CODE_WORDS, N_SLOTS, NO_LEAF, NUMERIC, Codes, TreeRecords
from ...scalars.lazy_jit import lazy_property
from ...statistics.cuda.totals import on_device
from .. import frontier as fr
from ..frontier import Frontier
from ..grow import GrownTrees, finished
from ..params import NO_RULES, UNLIMITED, FeatureRules, GrowthParams
from . import candidates, partition
from .block import BLOCK
from .by_phases import grow_levels
from .choosing import choosing_kernel
from .control import draw_allowed, number_leaves, open_nodes, open_roots
from .histogram import LEAST_TILE, add_histograms, fair_share, most_blocks
from .partition import move_tiles, scatter_tiles
from .search import search_kernel
from .streamed import ReadyTrees
from .tables import Arena, Tables

LEAST_COUNTED = 64 if is_simulated() else 2**14
"""Rows of a node to recheck from which blocks share them; fewer are counted by a block a feature,
64 threads, in some hundred steps."""
COUNTED_SHARES = 64
"""Large nodes to recheck that a round can have, at most: their histograms take memory."""
DRAWING_THREADS = 8 if is_simulated() else 1024
"""Nodes whose features are drawn at the same time."""
MORE_ROUNDS = 2
"""Rounds to launch if those launched were not enough."""


def grow(
    codes: Codes,
    n_bins: np.ndarray,
    records: TreeRecords,
    keys: np.ndarray,
    params: GrowthParams,
    rules: FeatureRules = NO_RULES,
) -> GrowingTrees | ReadyTrees:
    if params.is_symmetric:
        return grow_levels(codes, n_bins, records, keys, params, rules)
    n_trees, n_records = records.words.shape
    frontier = fr.allocate([n_records] * n_trees, keys, params, n_bins, rules)
    owner = threading.get_ident()
    return start(codes, n_bins, records, frontier, [params] * n_trees, owner)


def start(
    codes: Codes,
    n_bins: np.ndarray,
    records: TreeRecords,
    frontier: Frontier,
    params: Sequence[GrowthParams],
    owner: Hashable,
    own_trees: Array | None = None,
    n_rows: int | None = None,
) -> GrowingTrees:
    """Start to grow trees, each with settings of its own; all have a limit of leaves or none. Of an
    owner one batch grows on the table at a time. Trees of several models have ``own_trees``, see
    ``quantise_models``, and ``n_rows`` leaves a line."""
    workspace = workspace_of(codes, n_bins, records.words.size, frontier, params, owner)
    n_rows = codes.columns.shape[1] if n_rows is None else n_rows
    return GrowingTrees(workspace, codes, records, frontier, params, own_trees, n_rows)


class GrowingTrees:
    """The ``GrownTrees`` of a batch that may still be growing; to be read before the next batch.

    ``leaf`` waits for the growth; the arrays of the nodes are then put in order by the host.

    Attributes
    ----------
    early_leaf : int32 or uint16, shape (n_trees, n_rows)
        What ``leaf`` will be, for ``launch_behind``.
    own_trees : int64, shape (n_trees, N_OF_TREE), on the device, or None
    """

    def __init__(
        self,
        workspace: Workspace,
        codes: Codes,
        records: TreeRecords,
        frontier: Frontier,
        params: Sequence[GrowthParams],
        own_trees: Array | None,
        n_rows: int,
    ) -> None:
        self._frontier = frontier
        self._params = params
        # A bound of the nodes of each tree, known before it has grown.
        self.most_nodes = most_nodes(frontier, params)
        self._behind: list[Callable[[], None]] = []
        self.own_trees = own_trees
        self.early_leaf, self._wait = workspace.start(
            codes, records, frontier, params, own_trees, n_rows, self.most_nodes
        )

    def launch_behind(self, start: Callable[[], None]) -> None:
        """Call ``start``, which launches kernels that read ``early_leaf``.

        The rounds that were launched before may rarely be too few, which the wait finds out. Then
        any numbers are in ``early_leaf`` until the others are done, and ``start`` is called again.
        """
        start()
        if "leaf" not in self.__dict__:
            self._behind.append(start)

    @lazy_property
    def leaf(self) -> Array:
        if not self._wait():
            for start in self._behind:
                start()
        del self._wait, self._behind  # and the records with them
        return self.early_leaf

    def settle(self) -> None:
        """Wait for the growth."""
        _ = self.leaf

    @lazy_property
    def _grown(self) -> GrownTrees:
        leaf = self.leaf
        # Of the settings only the limit of leaves decides which nodes trees have in the end.
        limits = {own.max_leaves: own for own in self._params}
        found = {n: finished(self._frontier, own) for n, own in limits.items()}
        trees = next(iter(found.values()))
        if len(found) > 1:
            trees = _joined([found[own.max_leaves] for own in self._params])
        trees = trees._replace(leaf=leaf)
        del self._frontier  # which is large; last, so that it is there again after Ctrl-C
        return trees

    def __getattr__(self, name: str) -> Any:
        if name not in GrownTrees._fields:
            raise AttributeError(name)
        return getattr(self._grown, name)


def most_nodes(frontier: Frontier, params: Sequence[GrowthParams]) -> int:
    """Return the most nodes that one of the finished trees has."""
    sizes = (frontier.trees["end"] - frontier.trees["begin"]).tolist()
    limits = {
        (own.max_leaves, own.max_depth, own.min_samples_leaf, n): own
        for own, n in zip(params, sizes, strict=True)
    }
    return max(fr.most_nodes(own, n) for (*_, n), own in limits.items())


def _joined(batches: Sequence[GrownTrees]) -> GrownTrees:
    """Return tree i of batch i for every i."""
    nodes = [slice(*batch.offset[i : i + 2]) for i, batch in enumerate(batches)]
    sizes = [own.stop - own.start for own in nodes]
    arrays = {
        name: np.concatenate(
            [getattr(batch, name)[own] for batch, own in zip(batches, nodes, strict=True)]
        )
        for name in GrownTrees._fields[1:-1]
    }
    return GrownTrees(np.cumsum([0, *sizes]), **arrays, leaf=None)


def workspace_of(
    codes: Codes,
    n_bins: np.ndarray,
    n_records: int,
    frontier: Frontier,
    params: Sequence[GrowthParams],
    owner: Hashable,
) -> Workspace:
    """Return the workspace of the owner's last batch on the table if the shape is the same, or a
    new one."""
    n_records = rounded_up(n_records)
    key = (
        n_records, *(table.size for table in frontier), has_categories(frontier.rules),
        are_features_drawn(params, frontier), are_rows_counted(params),
    )  # fmt: skip
    kept = derived(codes.rows, ("growth", owner), dict)
    if key not in kept:
        kept.clear()
        kept[key] = Workspace(codes, n_bins, n_records, frontier, params)
    return kept[key]


def rounded_up(n: int) -> int:
    """Round up to one of sixteen sizes between two powers of two: samples of rows differ a
    little."""
    step = 2 ** max(0, n.bit_length() - 5)
    return -(-n // step) * step


def likely_rounds(params: GrowthParams) -> int:
    """Return how many rounds most trees need: one for each level, and nearly two for each doubling
    of the leaves where the best leaf is opened first (31 leaves: 8, 64: 11 or 12, 255: 14)."""
    if params.max_leaves == UNLIMITED:
        return max(1, params.max_depth if params.max_depth < 64 else 16)
    by_leaves = 2 * math.ceil(math.log2(max(2, params.max_leaves))) - 1
    return max(1, min(params.max_depth, by_leaves))


def least_counted(n_records: int) -> int:
    """Return the rows from which a node to recheck is large."""
    return max(LEAST_COUNTED, n_records // COUNTED_SHARES)


def most_counted(n_records: int, params: Sequence[GrowthParams]) -> int:
    """Return how many large nodes, which have no rows in common, a round can recheck: none where
    every child has enough rows."""
    return n_records // least_counted(n_records) if are_rows_counted(params) else 0


def are_rows_counted(params: Sequence[GrowthParams]) -> bool:
    """Return whether a child may have too few rows."""
    return any(own.min_samples_leaf > 1 for own in params)


class Workspace:
    """The memory that batches of one shape grow in: tables, a buffer of records, and histograms.

    A workspace is kept as long as the table of codes, and therefore holds no reference to it.
    """

    def __init__(
        self,
        codes: Codes,
        n_bins: np.ndarray,
        n_records: int,
        frontier: Frontier,
        params: Sequence[GrowthParams],
    ) -> None:
        n_features = n_bins.size
        self.n_rounds = max(map(likely_rounds, params))
        n_counted = 2 * most_counted(n_records, params)
        n_tiles = max(most_blocks(), n_records // partition.TILE) + 1
        self.arena = Arena(frontier, n_tiles, n_counted)
        self.tables: Tables = self.arena.tables
        (self.n_bins,) = upload(np.asarray(n_bins, np.int32))
        self.spare = empty(n_records, np.uint64)
        n_histograms = frontier.free_slots.size + n_counted
        self.histograms = empty((n_histograms, 2, n_features, N_SLOTS), np.int32)
        self.entries = self.histograms.reshape(n_histograms, -1).view(np.int64)
        self.least_counted = least_counted(n_records)
        self.search_kernel = search_kernel(frontier.rules.size > 0)
        n_looked = self.tables.looked.shape[0]
        n_items = n_looked * n_features
        self.found = (
            empty(n_items, np.float64),
            empty(n_items, np.int32),
            empty(n_items, np.int64),
            empty((n_items if has_categories(frontier.rules) else 0, CODE_WORDS), np.uint32),
        )
        self.samples = are_features_drawn(params, frontier)
        lines = DRAWING_THREADS if self.samples else 0
        self.allowed = empty((n_looked if self.samples else 0, n_features), np.uint8)
        self.scratch = empty((lines, n_features), np.int64), empty((lines, n_features), np.uint64)
        # The blocks that open nodes, and those that search for splits; each costs the host as much
        # as a part of a launch.
        self.n_opening = blocks_for(1 + multiprocessors())
        self.n_searching = blocks_for(n_items, 32)
        self.share = fair_share()
        self.n_grown = 0

    def start(
        self,
        codes: Codes,
        records: TreeRecords,
        frontier: Frontier,
        params: Sequence[GrowthParams],
        own_trees: Array | None,
        n_rows: int,
        most_nodes: int,
    ) -> tuple[Array, Callable[[], bool]]:
        """Launch the growth of a batch, of trees with at most so many nodes.

        Returns
        -------
        leaf : int32 or uint16, shape (n_trees, n_rows)
            The leaf of every row, once the trees have grown.
        wait : callable
            Waits for the growth and fills the host's ``frontier``. Returns whether the rounds that
            were launched have been enough; the others are then launched behind them.
        """
        self.arena.write(frontier, params)
        choosing = choosing_kernel(params[0].max_leaves != UNLIMITED)
        buffers = records.words.reshape(-1), self.spare
        roots = records.sums.reshape(-1), on_device(records.scales).reshape(-1)
        sizes = frontier.trees["end"] - frontier.trees["begin"]
        leaf = empty((sizes.size, n_rows), np.uint16 if most_nodes <= fr.NO_LEAF else np.int32)
        if sizes.sum() < leaf.size:  # of samples, or of models with fewer rows than others
            leaf.fill(NO_LEAF if leaf.dtype == np.uint16 else -1)
        for k in range(self.n_rounds):
            self._round(codes, buffers, roots, choosing, k == 0)
        self.number()
        self.scatter(buffers, leaf, own_trees)
        self.n_grown += 1
        number, fetched = self.n_grown, self.arena.fetch()

        def wait() -> bool:
            if self.n_grown != number:
                raise RuntimeError("The trees of a batch were asked for after the next began.")
            arrived, enough = fetched, True
            while not self.arena.read(frontier, arrived):
                enough = False
                for _ in range(MORE_ROUNDS):
                    self._round(codes, buffers, roots, choosing, False)
                self.number()
                self.scatter(buffers, leaf, own_trees)
                self.n_rounds += MORE_ROUNDS
                arrived = self.arena.fetch()
            return enough

        return leaf, wait

    def _round(
        self,
        codes: Codes,
        buffers: tuple[Array, Array],
        roots: tuple[Array, Array],
        choosing: Any,
        is_first: bool,
    ) -> None:
        """Launch one round. ``roots`` are the sums and scales of the trees."""
        self.open_nodes(roots if is_first else None)
        self.add_histograms(codes, buffers)
        self.search(codes, buffers)
        self.choose(choosing)
        self.partition(codes, buffers)

    # The phases of a round, each of which the device orders behind the one before.

    def open_nodes(self, roots: tuple[Array, Array] | None) -> None:
        """Make children of the partitioned nodes, or the roots, and plan their histograms."""
        # One block opens nodes, the others clear the histograms that are added up next.
        if roots is None:
            launch(
                open_nodes, self.n_opening, BLOCK,
                *self.tables, self.entries, LEAST_TILE, self.share, self.least_counted,
            )  # fmt: skip
        else:
            launch(
                open_roots, self.n_opening, BLOCK,
                *self.tables, *roots, self.entries, LEAST_TILE, self.share, self.least_counted,
            )  # fmt: skip

    def add_histograms(self, codes: Codes, buffers: tuple[Array, Array]) -> None:
        """Add up the histograms of the pairs' first nodes, and of large nodes to recheck."""
        x = self.tables
        add_histograms(codes, *buffers, x.tiles, x.counts, self.histograms)

    def search(self, codes: Codes, buffers: tuple[Array, Array]) -> None:
        """Find the best split of each new node, and of each to recheck, by each feature."""
        x = self.tables
        if self.samples:
            launch(
                draw_allowed, blocks_for_rows(DRAWING_THREADS, BLOCK), BLOCK, *x[:12], x.params,
                x.looked, x.counts, *self.scratch, self.allowed,
            )  # fmt: skip
        launch(
            self.search_kernel, self.n_searching, candidates.BLOCK,
            codes.columns, *buffers, self.n_bins, self.histograms, x.nodes, x.pairs, x.rules,
            x.state, x.looked, x.limits, self.allowed, *self.found,
        )  # fmt: skip

    def choose(self, choosing: Any) -> None:
        """Note the best split of each node, choose the nodes to open, and plan their partition."""
        launch(
            choosing, 1, BLOCK,
            *self.tables, *self.found, self.n_bins.shape[0], self.least_counted,
        )  # fmt: skip

    def partition(self, codes: Codes, buffers: tuple[Array, Array]) -> None:
        """Move the rows of the nodes to open to the sides of their splits."""
        x = self.tables
        move_tiles(
            codes, *buffers, x.nodes, x.left_codes, x.expand, x.tiles, x.counts, x.filled
        )  # fmt: skip

    def number(self) -> None:
        """Number the leaves and plan their tiles, if growth is done."""
        launch(number_leaves, 1, BLOCK, *self.tables, LEAST_TILE, self.share)

    def scatter(
        self, buffers: tuple[Array, Array], leaf: Array, own_trees: Array | None = None
    ) -> None:
        """Write the leaf of every row, if growth is done."""
        x = self.tables
        scatter_tiles(*buffers, x.nodes, x.recheck, x.tiles, x.counts, leaf, own_trees)


def are_features_drawn(params: Sequence[GrowthParams], frontier: Frontier) -> bool:
    """Return whether nodes may be limited to some of the features."""
    return frontier.members.size > 0 or any(
        own.colsample_bytree * own.colsample_bylevel * own.colsample_bynode != 1.0
        or own.max_path_features != UNLIMITED
        for own in params
    )


def has_categories(rules: np.ndarray) -> bool:
    """Return whether a feature of the host's ``rules`` is split by categories."""
    return bool((rules["kind"] != NUMERIC).any())
