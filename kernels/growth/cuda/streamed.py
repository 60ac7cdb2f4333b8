"""Growth by phases (contract: ``kernels.growth.grow``) of a table larger than the memory of a GPU.

What touches rows runs on the GPU, chunk by chunk (``passes``). Between two passes the host decides,
with the phases of ``kernels.growth.cpu.passes``. It has to wait there anyway: the host fills the
buffers of the next pass, and must know whether there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...runtime.arrays import Array, derived
from ...runtime.cpu.team import get_threads, run
from ...runtime.cuda.blocks import TILE
from ...runtime.cuda.chunks import Chunks
from ...runtime.cuda.target import download, empty, records_in, upload, zeros
from ...runtime.dtypes import N_SLOTS, NO_LEAF, RECORD, Codes, Scales, TreeRecords
from .. import frontier as fr
from ..cpu import passes as phases
from ..cpu.passes import N_NUMBERS, N_SUMS, Growth
from ..cpu.streamed import grow_by, joined, workspace
from ..frontier import NODE
from ..grow import GrownTrees
from ..params import NO_RULES, FeatureRules, GrowthParams
from ..streamed_codes import ROUTE, StreamedCodes, most_sums, number_type, rows_of_chunk
from . import passes
from .histogram import LEAST_TILE, add_histograms, fair_share, most_blocks

COPYING_THREADS = 4
"""Threads that fill a pinned buffer, at most: one alone is slower than PCIe 4 (estimated)."""
MIN_CELLS_PER_THREAD = 2**17
"""Entries of histograms below which another thread of the host costs more than it saves."""


def chunks_of(codes: StreamedCodes) -> Chunks:
    """Return the chunks of a table, which are kept with it; the first of them are on the device."""
    size, n_resident = rows_of_chunk(codes.rows.shape[1]), codes.n_resident
    n_threads = min(get_threads(), COPYING_THREADS)
    chunks: Chunks = derived(
        codes.rows,
        ("chunks", size, n_resident),
        lambda: Chunks(codes.rows, size, n_resident, n_threads),
    )
    return chunks


class ReadyTrees(GrownTrees):
    """``GrowingTrees`` that have grown."""

    @property
    def early_leaf(self) -> Array:
        return self.leaf

    @property
    def most_nodes(self) -> int:
        return int(np.diff(self.offset).max())

    def launch_behind(self, start: Callable[[], None]) -> None:
        start()

    def settle(self) -> None:
        pass


class Lines(NamedTuple):
    """Sums of a pass on the device, and scratch of a chunk.

    sums : int32, shape (lines, 2, n_features, 256)
    n_rows : int32, filled : int64, one a line
        Rows of the chunk, and where the next one is put among the gathered records.
    segments : NODE, one a line
    gathered : uint64
    first_tile : int64, tiles : TILE, n_tiles : int64
        As in ``Tables``.
    """

    sums: Array
    n_rows: Array
    filled: Array
    segments: Array
    gathered: Array
    first_tile: Array
    tiles: Array
    n_tiles: Array


def allocate_lines(n_lines: int, n_features: int, n_gathered: int) -> Lines:
    n_tiles = most_blocks() + n_lines

    def records(dtype: np.dtype, n: int) -> Any:
        return records_in(empty(n * dtype.itemsize, np.uint8), 0, dtype, n)

    return Lines(
        sums=empty((n_lines, 2, n_features, N_SLOTS), np.int32),
        n_rows=empty(n_lines, np.int32),
        filled=empty(n_lines, np.int64),
        segments=records(NODE, n_lines),
        gathered=empty(n_gathered, RECORD),
        first_tile=empty(n_lines + 1, np.int64),
        tiles=records(TILE, n_tiles),
        n_tiles=empty(1, np.int64),
    )


class Passes:
    """The passes over the records of a tree (see ``kernels.growth.cpu.streamed.Passes``)."""

    def __init__(self, codes: StreamedCodes, records: Array, chunks: Chunks, lines: Lines) -> None:
        self._codes, self._records = codes, records
        self._chunks, self._lines = chunks, lines
        begin = empty(chunks.n + 1, np.int64)
        passes.find(records, chunks.size, begin)
        self._begin: list[int] = download(begin).tolist()

    def walk(self, growth: Growth, is_first: bool, leaf: Array) -> None:
        """Route the rows of the nodes to open, and add up rows."""
        walk, state = growth.walk, growth.walk.state
        n_opened = 0 if is_first else int(growth.frontier.state[fr.N_EXPAND])
        routes = walk.routes[:n_opened]
        expansion_of = walk.expansion_of[: state[N_NUMBERS]].copy()
        line_of = np.full(expansion_of.size, -1, np.int32)
        if is_first:
            expansion_of[0], line_of[0] = -1, walk.routes[0]["left_sums"]
        line_of[routes["number"]] = routes["left_sums"]
        line_of[routes["number"] + 1] = routes["right_sums"]
        n_left = zeros(n_opened, np.int64)
        of = np.arange(state[N_SUMS])
        tables = expansion_of, line_of, routes, walk.sets[:n_opened]
        sums = self._add_up(tables, of, False, is_first, leaf, n_left)
        walk.n_left[0, :n_opened] = download(n_left)
        _pack(growth, sums, walk.sums[0])

    def count(self, growth: Growth, leaf: Array) -> tuple[np.ndarray, np.ndarray]:
        """Return the histograms and counts of rows of the nodes to recheck: of as many as there are
        two lines for in each pass."""
        frontier, walk = growth.frontier, growth.walk
        nodes = frontier.recheck[: frontier.state[fr.N_RECHECK]]
        counts = np.zeros((nodes.size, len(self._codes.columns), N_SLOTS), np.int64)
        packed = np.zeros((nodes.size, growth.work.spare.shape[1]), np.int64)
        step = max(1, walk.sums.shape[1] // 2)
        for first in range(0, nodes.size, step):
            some = nodes[first : first + step]
            line_of_node = np.full(frontier.nodes.size, -1, np.int32)
            line_of_node[some] = np.arange(some.size)
            line_of = line_of_node[walk.node_of[: walk.state[N_NUMBERS]]]
            of = np.repeat(np.arange(some.size), 2)
            of[::2][frontier.nodes["slot"][some] >= 0] = -1  # their sums are kept
            nothing = np.full(line_of.size, -1, np.int32), line_of, walk.routes[:0], walk.sets[:0]
            sums = self._add_up(nothing, of, True, False, leaf, zeros(0, np.int64))
            _pack(growth, np.ascontiguousarray(sums[::2]), packed[first:])
            counts[first : first + step] = sums[1::2, 0]
        return packed, counts

    def name_leaves(self, growth: Growth, leaf: Array) -> None:
        """Replace the number of every row by its leaf."""
        walk = growth.walk
        node_of = walk.node_of[: walk.state[N_NUMBERS]]
        (leaf_of,) = upload(growth.frontier.nodes["leaf"][node_of].astype(np.int32))
        passes.name(leaf, leaf_of)

    def _add_up(
        self, tables: tuple[np.ndarray, ...], of: np.ndarray, counts: bool, is_first: bool,
        leaf: Array, n_left: Array,
    ) -> np.ndarray:  # fmt: skip
        """Return the histograms of a pass: histogram k has the rows of line ``of[k]``.

        Parameters
        ----------
        tables : tuple
            Expansions and lines by number, routes and sets.
        of : int64
            -1: the histogram stays zero.
        counts : bool
            Whether the histograms of odd numbers count rows.
        is_first : bool
        leaf : array, shape (n_rows,)
            The numbers of the rows; changed.
        n_left : int64, one an expansion
            Rows that go left are added.
        """
        expansion_of, line_of, routes, sets = tables
        n_lines = int(line_of.max(initial=-1)) + 1
        memory, *small = upload(routes.view(np.uint8), expansion_of, line_of, sets, of)
        expansions, lines, sets_there, of_there = small
        there = expansions, lines, records_in(memory, 0, ROUTE, routes.size), sets_there
        own = self._lines
        n_rows, filled, sums = own.n_rows[:n_lines], own.filled[:n_lines], own.sums[: of.size]
        n_rows.fill(0)
        sums.fill(0)
        plan = own.segments, of_there, filled, own.first_tile, own.tiles, own.n_tiles
        for k, rows in self._chunks.walk(self._codes.rows, self._codes.will_need):
            part = self._records, self._begin[k], self._begin[k + 1], k * self._chunks.size
            if part[1] == part[2]:
                continue
            passes.route(rows, part, is_first, there, leaf, n_left, n_rows)
            if n_lines == 0:
                continue
            passes.plan(n_rows, plan, counts, LEAST_TILE, fair_share())
            passes.gather(part, lines, leaf, filled, own.gathered)
            chunk = Codes(rows, self._codes.columns)
            add_histograms(chunk, own.gathered, own.gathered, own.tiles, own.n_tiles, sums)
        return download(sums)


def _pack(growth: Growth, sums: np.ndarray, packed: np.ndarray) -> None:
    """Write histograms to the first lines of ``packed``, as the host takes them."""
    n_threads = max(1, min(get_threads(), sums.size // MIN_CELLS_PER_THREAD))
    run(phases.pack_sums, n_threads, growth.table, sums, packed)


def grow(
    codes: StreamedCodes,
    n_bins: np.ndarray,
    records: TreeRecords,
    keys: np.ndarray,
    params: GrowthParams,
    rules: FeatureRules = NO_RULES,
) -> ReadyTrees:
    """Grow the trees one after the other."""
    n_rows, (n_trees, n_records) = codes.rows.shape[0], records.words.shape
    chunks = chunks_of(codes)
    kept: dict[str, Any] = derived(codes.rows, "growth by chunks", dict)
    on_host = kept.setdefault("host", {})
    sums, leaf, grown = download(records.sums), None, []
    for t in range(n_trees):
        frontier = fr.allocate([n_records], keys[t : t + 1], params, n_bins, rules)
        own = records.scales[t]
        fr.set_statistics(frontier, sums[t : t + 1], [Scales(own.g, own.h)])
        growth = _workspace(on_host, n_bins, codes.rows.shape[1], frontier, params)
        n_lines = growth.walk.sums.shape[1]
        n_gathered = min(chunks.size, n_rows)
        if kept.get("sizes") != (n_lines, n_gathered):
            kept["lines"] = None  # whose memory the new ones may take
            kept["lines"] = allocate_lines(n_lines, n_bins.size, n_gathered)
            kept["sizes"] = n_lines, n_gathered
        if leaf is None:
            leaf = _numbers((n_trees, n_rows), n_records, frontier.nodes.size)
        walks = Passes(codes, records.words[t], chunks, kept["lines"])
        grown.append(grow_by(walks, growth, get_threads(), leaf[t]))
    return ReadyTrees(*joined(grown, leaf))


def _workspace(
    kept: dict[str, Any],
    n_bins: np.ndarray,
    stride: int,
    frontier: fr.Frontier,
    params: GrowthParams,
) -> Growth:
    """Return the tables of a growth on the host, which has no rows."""
    no_rows = Codes(np.empty((0, stride), np.uint8), np.empty((n_bins.size, 0), np.uint8))
    for array in no_rows:
        array.flags.writeable = False  # as of a mapped file, for which the phases are compiled
    lines = 1, most_sums(n_bins.size)
    return workspace(kept, no_rows, n_bins, frontier, params, get_threads(), lines)


def _numbers(shape: tuple[int, int], n_records: int, n_nodes: int) -> Array:
    """Return room for the numbers of rows, which become their leaves; those outside of the sample
    have none."""
    dtype = number_type(n_nodes)
    leaf = empty(shape, dtype)
    if n_records < shape[1]:
        leaf.fill(NO_LEAF if dtype == np.uint16 else -1)
    return leaf
