"""Growth (contract: ``kernels.grow``), all of it on the device.

The host launches rounds ahead of the device and asks once, at the end, what has grown. A round has
a fixed number of launches with fixed grids; how much there is to do stands in the tables
(``growth_tables``), and a round behind the last one finds nothing::

    open_nodes            one block    children of partitioned nodes; plan of the histograms
    clear_histograms      all
    add_tiles             all          histograms of the smaller children
    draw_allowed          all          where features are sampled or may not interact
    best_of_features      all          the other children's histograms; best splits
    best_of_nodes         all
    choose_nodes          one block    which nodes to open; plan of the partition
    move_apart            all          partition
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

from .. import frontier as fr
from ..derived import derived
from ..dtypes import CODE_WORDS, N_SLOTS, Codes
from ..frontier import NO_RULES, UNLIMITED, FeatureRules, Frontier, GrowthParams
from ..grow import GrownTrees, finished
from . import candidates, graphs, partition
from .growth_control import (
    BLOCK,
    ROWS_BLOCK,
    add_up_roots,
    choose_nodes,
    draw_allowed,
    has_categories,
    number_leaves,
    open_nodes,
)
from .growth_splits import best_of_nodes, clear_histograms, search_kernel
from .growth_tables import Arena, Tables
from .histogram import LEAST_TILE, add_histograms, most_blocks
from .partition import move_tiles
from .scatter_leaves import scatter_tiles
from .target import (
    blocks_for,
    blocks_for_rows,
    empty,
    is_simulated,
    launch,
    upload,
)

DRAWING_THREADS = 8 if is_simulated() else 1024
"""Nodes whose features are drawn at the same time."""
MORE_ROUNDS = 2
"""Rounds to launch if those launched were not enough."""


def grow(
    codes: Codes,
    n_bins: np.ndarray,
    records: Any,
    tree_begin: np.ndarray,
    tree_end: np.ndarray,
    keys: np.ndarray,
    scale_g: np.ndarray,
    scale_h: np.ndarray,
    params: GrowthParams,
    rules: FeatureRules = NO_RULES,
) -> GrownTrees:
    frontier = fr.allocate(tree_begin, tree_end, keys, scale_g, scale_h, params, n_bins, rules)
    workspace = workspace_of(codes, n_bins, records, frontier, params)
    leaf = workspace.grow(codes, records, frontier, params)
    return finished(frontier, params)._replace(leaf=leaf)


def workspace_of(
    codes: Codes, n_bins: np.ndarray, records: Any, frontier: Frontier, params: GrowthParams
) -> Workspace:
    """That of the last batch of this thread on the table, if it has the same shape."""
    n_records = rounded_up(records.shape[0])
    key = (
        n_records, *(table.size for table in frontier), has_categories(frontier.rules),
        are_features_drawn(params, frontier), params.min_samples_leaf, graphs.wanted(),
    )  # fmt: skip
    kept = derived(codes.rows, ("growth", threading.get_ident()), dict)
    if key not in kept:
        kept.clear()
        kept[key] = Workspace(codes, n_bins, n_records, frontier, params)
    return kept[key]


def rounded_up(n: int) -> int:
    """To one of sixteen sizes between two powers of two: samples of rows differ a little."""
    step = 2 ** max(0, n.bit_length() - 5)
    return -(-n // step) * step


def likely_rounds(params: GrowthParams) -> int:
    """Rounds that most trees need: one for each level, some more where the best leaf is opened
    first, and one that finds that all is done."""
    if params.max_leaves == UNLIMITED:
        return (params.max_depth if params.max_depth < 64 else 16) + 1
    return min(params.max_depth, math.ceil(math.log2(max(2, params.max_leaves))) + 4) + 1


class Workspace:
    """What batches of one shape grow in: tables, buffers of records, and histograms, all of which
    stay where they are, so that the launches of a batch can be repeated as a graph.

    It is kept as long as the table of codes, and therefore holds nothing of it.
    """

    def __init__(
        self,
        codes: Codes,
        n_bins: np.ndarray,
        n_records: int,
        frontier: Frontier,
        params: GrowthParams,
    ) -> None:
        n_features = n_bins.size
        self.min_samples_leaf = params.min_samples_leaf
        self.n_rounds = likely_rounds(params)
        self.arena = Arena(frontier, max(most_blocks(), n_records // partition.TILE) + 1)
        self.tables: Tables = self.arena.tables
        self.of_control = self.tables[:12]
        (self.n_bins,) = upload(np.asarray(n_bins, np.int32))
        self.records, self.spare = (empty(n_records, np.uint64) for _ in range(2))
        self.histograms = empty((frontier.free_slots.size, 2, n_features, N_SLOTS), np.int32)
        self.leaf = empty((frontier.trees.size, codes.columns.shape[1]), np.int32)
        self.search = search_kernel(frontier.rules.size > 0)
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
        self.graph: graphs.Graph | None = None
        self.n_grown = 0

    def grow(self, codes: Codes, records: Any, frontier: Frontier, params: GrowthParams) -> Any:
        """Grow a batch; fills the host's ``frontier`` and returns the leaf of every row."""
        self.records[: records.shape[0]] = records
        self.arena.write(frontier, params)
        if graphs.wanted() and self.graph is None and self.n_grown > 0:  # all is compiled
            self.graph = graphs.Graph(lambda: self._launch(codes))
        if self.graph is not None:
            self.graph.launch()
        else:
            self._launch(codes)
        self.n_grown += 1
        while not self.arena.read(frontier):
            for _ in range(MORE_ROUNDS):
                self._round(codes, 0)
            self._leaves()
            self.n_rounds += MORE_ROUNDS
            self.graph = None
        return self.leaf.copy()

    def _launch(self, codes: Codes) -> None:
        """All that most batches of this shape need."""
        n = self.records.shape[0]
        args = (self.records, self.tables.trees, self.tables.totals)
        launch(add_up_roots, blocks_for_rows(n, ROWS_BLOCK), ROWS_BLOCK, *args)
        for k in range(self.n_rounds):
            self._round(codes, int(k == 0))
        self._leaves()

    def _round(self, codes: Codes, is_first: int) -> None:
        """Histograms and splits of new nodes, choice and partition of the next to be opened."""
        x, of = self.tables, self.of_control
        buffers = self.records, self.spare
        plan = (x.tiles, x.first_tile, x.filled, x.looked)
        sizes = (is_first, LEAST_TILE, most_blocks())
        args = (*of, x.params, x.totals, *plan, x.limits, x.counts, *sizes)
        launch(open_nodes, blocks_for(1), BLOCK, *args)
        blocks = blocks_for_rows(self.histograms.size, ROWS_BLOCK)
        launch(clear_histograms, blocks, ROWS_BLOCK, x.nodes, x.pairs, x.state, self.histograms)
        add_histograms(codes, *buffers, x.tiles, x.counts, self.histograms)
        if self.samples:
            drawing = (x.looked, x.counts, *self.scratch, self.allowed)
            blocks = blocks_for_rows(DRAWING_THREADS, BLOCK)
            launch(draw_allowed, blocks, BLOCK, *of, x.params, *drawing)
        args = (codes.columns, *buffers, self.n_bins, self.histograms, x.nodes, x.pairs, x.rules)
        args += (x.state, x.looked, x.limits, self.allowed, self.min_samples_leaf)
        blocks = blocks_for(self.found[0].shape[0], 32)
        launch(self.search, blocks, candidates.BLOCK, *args, *self.found)
        args = (*self.found, self.n_bins, x.nodes, x.rules, x.looked, x.counts, x.scores)
        blocks = blocks_for(x.looked.shape[0])
        launch(best_of_nodes, blocks, candidates.BLOCK, *args, x.left_codes)
        launch(choose_nodes, blocks_for(1), BLOCK, *of, x.params, *plan, x.scores, x.counts)
        tables = (x.nodes, x.left_codes, x.expand, x.tiles, x.counts, x.filled)
        move_tiles(codes, *buffers, *tables)

    def _leaves(self) -> None:
        """The leaf of every row, if growth is done."""
        x = self.tables
        plan = (x.tiles, x.first_tile, x.counts, LEAST_TILE, most_blocks())
        launch(number_leaves, blocks_for(1), BLOCK, *self.of_control, x.params, *plan)
        tables = (x.nodes, x.recheck, x.tiles, x.counts)
        scatter_tiles(self.records, self.spare, *tables, self.leaf)


def are_features_drawn(params: GrowthParams, frontier: Frontier) -> bool:
    """Whether nodes may use some of the features only."""
    shares = params.colsample_bytree * params.colsample_bylevel * params.colsample_bynode
    return shares != 1.0 or frontier.members.size > 0 or params.max_path_features != UNLIMITED
