"""Growth by phases (contract: ``kernels.growth.grow``) of tables whose rows several workers share,
each on a GPU: the trees of all rows, and the leaves of this worker's.

What touches rows runs on the GPU, with the kernels of growth on one; what does not, on the host,
where the histograms of all workers meet anyway. A round::

    begin_round    host    commits the round before
    add_tiles      GPU     histograms of this worker's rows
    (sum)                  those of all rows, on the host
    open_nodes     host    each worker finds the same splits and opens the same nodes
    move_apart     GPU     partitions this worker's rows
    (add)                  the rows of all workers that went left

The tables of nodes are those of ``kernels.growth.cpu.worker_phases``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...runtime.arrays import Array, derived
from ...runtime.collective import ONE_WORKER, Workers
from ...runtime.compilation import callable_from_python
from ...runtime.cpu.team import get_threads, run
from ...runtime.cuda.blocks import cut, upload_tiles
from ...runtime.cuda.target import download, empty, upload, upload_records, zeros
from ...runtime.dtypes import N_SLOTS, NO_LEAF, NO_SETS, RECORD, Codes, Scales, TreeRecords
from ...runtime.fetch import fetch
from .. import frontier as fr
from ..by_phases import run_rounds, start
from ..cpu import worker_phases as phases
from ..cpu.layout import plain_layout
from ..cpu.tables import Table, Work, allocate_work
from ..frontier import EXPANSION, Frontier
from ..grow import GrownTrees, emitted
from ..params import NO_RULES, FeatureRules, GrowthParams
from ..streamed_codes import StreamedCodes
from . import streamed
from .histogram import LEAST_TILE, add_histograms, most_blocks
from .partition import TILE, move_tiles, scatter_tiles

_begin_round = callable_from_python(phases.begin_round)
_number_leaves = callable_from_python(phases.number_leaves)

NO_HISTOGRAMS = np.zeros((0, 2, 0, N_SLOTS), np.int32)
MIN_CELLS_PER_THREAD = 2**17
"""Entries of histograms below which another thread of the host costs more than it saves."""


class Rows(NamedTuple):
    """The rows of this worker, on its GPU: their codes, and both buffers of their records."""

    codes: Codes
    records: Array
    spare: Array


def grow(
    codes: Codes | StreamedCodes,
    n_bins: np.ndarray,
    records: TreeRecords,
    keys: np.ndarray,
    params: GrowthParams,
    rules: FeatureRules = NO_RULES,
    workers: Workers = ONE_WORKER,
) -> GrownTrees:
    if isinstance(codes, StreamedCodes):
        return streamed.grow(codes, n_bins, records, keys, params, rules)
    frontier, own_begin, n_all = start(n_bins, records, keys, params, rules, workers)
    words = records.words.reshape(-1)
    rows = Rows(codes, words, empty(words.shape[0], RECORD))
    growth = _DeviceBatch(rows, n_bins, frontier, own_begin, params, workers)
    run_rounds(growth)
    order = np.empty(frontier.nodes.size, np.int64)
    offset = np.empty(len(own_begin), np.int64)
    _number_leaves(frontier, growth.own, params, order, offset)
    leaf: Any = empty((len(records.words), codes.columns.shape[1]), fr.leaf_type(params, n_all))
    leaf.fill(NO_LEAF if leaf.dtype == np.uint16 else -1)
    growth.scatter_leaves(leaf)
    return emitted(frontier, order, offset, leaf)


def grow_levels(
    codes: Codes,
    n_bins: np.ndarray,
    records: TreeRecords,
    keys: np.ndarray,
    params: GrowthParams,
    rules: FeatureRules,
) -> streamed.ReadyTrees:
    """Grow symmetric trees of one worker: a level has a single split, which the host finds."""
    scales = [Scales(own.g, own.h) for own in records.scales]
    on_host = TreeRecords(records.words, download(records.sums), scales)
    return streamed.ReadyTrees(*grow(codes, n_bins, on_host, keys, params, rules))


class _DeviceBatch:
    """See ``growth.by_phases.Batch``; ``own`` is the frontier of this worker's rows. Tree t has the
    records ``own_begin[t]`` … ``own_begin[t + 1] - 1`` of them."""

    def __init__(
        self,
        rows: Rows,
        n_bins: np.ndarray,
        frontier: Frontier,
        own_begin: np.ndarray,
        params: GrowthParams,
        workers: Workers,
    ) -> None:
        self.rows, self.frontier, self.params, self.workers = rows, frontier, params, workers
        self.own_begin = own_begin
        self.n_features = n_bins.size
        self.own = frontier._replace(
            nodes=np.zeros_like(frontier.nodes), expand=np.zeros_like(frontier.expand)
        )
        self.table, self.work = _workspace(rows.codes, n_bins, frontier, params.is_symmetric)

    def plant(self) -> None:
        self._build(np.zeros(0, np.int64), True)

    def make_children(self) -> None:
        self._build(self.n_left, False)

    def _build(self, n_left: np.ndarray, is_first: bool) -> None:
        """Turn the partitioned nodes into parents, and add up what the search asks for."""
        frontier, state = self.frontier, self.frontier.state
        _begin_round(frontier, self.own, self.params, n_left, self.own_begin, is_first)
        self.known, self.built, self.rebuilt = self._known(), NO_HISTOGRAMS, NO_HISTOGRAMS
        if state[fr.N_PAIRS] > 0:
            self.built = self._histograms(frontier.pairs["build"][: state[fr.N_PAIRS]])
        nodes = frontier.recheck[: state[fr.N_RECHECK]]
        if (frontier.nodes["slot"][nodes] < 0).any():
            self.rebuilt = self._histograms(nodes)

    def open_nodes(self) -> None:
        frontier, own, built = self.frontier, self.own, self.built
        n_threads = max(1, min(get_threads(), built.size // MIN_CELLS_PER_THREAD))
        run(
            phases.open_summed_nodes, n_threads,
            self.table, frontier, own, self.params, self.work, built, self.rebuilt, *self.known,
        )  # fmt: skip
        if frontier.state[fr.N_EXPAND] > 0:
            self.n_left = self._partition()
            own.expand["n_left"][: self.n_left.size] = self.n_left
            self.workers.collective.add(self.n_left)

    def scatter_leaves(self, leaf: Array) -> None:
        """Write the leaf of every row of this worker."""
        nodes = self.own.nodes[: self.frontier.state[fr.N_NODES]]
        closed = nodes[nodes["child"] < 0]
        tiles = _tiles(closed, TILE)
        if tiles.size > 0:
            of = np.arange(closed.size)
            tiles_there, n_tiles, of_there = upload_tiles(tiles, np.array([tiles.size]), of)
            scatter_tiles(
                *self.rows[1:], upload_records(closed), of_there, tiles_there, n_tiles, leaf
            )

    def _known(self) -> tuple[np.ndarray, np.ndarray]:
        """Return room for the packed histograms of the nodes to recheck, and the numbers of rows of
        all workers, by node, feature and code."""
        n = int(self.frontier.state[fr.N_RECHECK])
        packed = np.zeros((n, self.work.spare.shape[1]), np.int64)
        if n == 0:
            return packed, np.zeros((0, self.n_features, N_SLOTS), np.int64)
        counts = self._histograms(self.frontier.recheck[:n], counts=True)
        return packed, counts[:, 0].astype(np.int64)

    def _histograms(self, numbers: np.ndarray, counts: bool = False) -> np.ndarray:
        """Return the histograms of nodes over the rows of all workers, or, in the first plane, the
        numbers of rows."""
        nodes = self.own.nodes[numbers]
        n_rows = int((nodes["end"] - nodes["begin"]).sum())
        tiles = _tiles(nodes, max(LEAST_TILE, -(-n_rows // most_blocks())))
        tiles["counts"] = counts
        out = zeros((len(nodes), 2, self.n_features, N_SLOTS), np.int32)
        if tiles.size > 0:
            tiles_there, n_tiles = upload_tiles(tiles, np.array([tiles.size]))
            add_histograms(*self.rows, tiles_there, n_tiles, out)
        return self.workers.collective.sum_to_host(out)

    def _partition(self) -> np.ndarray:
        """Partition this worker's rows of the nodes to expand; return how many went left."""
        n = int(self.frontier.state[fr.N_EXPAND])
        numbers = self.own.expand["node"][:n]
        nodes, sets = self.own.nodes[numbers], NO_SETS
        if len(self.frontier.left_codes):
            sets = self.frontier.left_codes[numbers]
        tiles = _tiles(nodes, TILE)
        if tiles.size == 0:
            return np.zeros(n, np.int64)
        expand = np.zeros(n, EXPANSION)
        expand["node"] = np.arange(n)
        filled = zeros(2 * n, np.int64)
        (sets_there,) = upload(sets)
        tiles_there, n_tiles = upload_tiles(tiles, np.array([tiles.size]))
        move_tiles(
            *self.rows, upload_records(nodes), sets_there, upload_records(expand),
            tiles_there, n_tiles, filled,
        )  # fmt: skip
        return fetch(filled)()[::2].copy()


def _tiles(nodes: np.ndarray, size: int) -> np.ndarray:
    """Cut the rows of nodes into tiles, in the buffers that hold them."""
    tiles = cut(nodes["begin"], nodes["end"], size)
    tiles["buffer"] = nodes["depth"][tiles["of"]] & 1
    return tiles


def _workspace(
    codes: Codes, n_bins: np.ndarray, frontier: Frontier, is_symmetric: int
) -> tuple[Table, Work]:
    """Return what the host's search takes for a table, without rows, and its scratch, which is kept
    from tree to tree as long as its sizes last."""
    kept: dict[str, Any] = derived(codes.rows, "shared workspace", dict)
    n_threads = get_threads()
    sizes = frontier.nodes.size, frontier.free_slots.size, n_threads, is_symmetric
    if kept.get("sizes") != sizes:
        kept.clear()
        kept["sizes"] = sizes
        n_features, pitch = n_bins.size, int(codes.rows.shape[1])
        without_rows = Codes(np.empty((0, pitch), np.uint8), np.empty((n_features, 0), np.uint8))
        layout = plain_layout(without_rows, n_bins)
        no_records = np.empty(0, np.uint64)
        kept["table"] = Table(without_rows.columns, layout, (no_records, no_records), few_rows=0)
        kept["work"] = allocate_work(layout, 0, frontier, n_threads, is_symmetric)
    return kept["table"], kept["work"]
