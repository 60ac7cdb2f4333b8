"""Growth of classification and regression trees on the device (contract:
``kernels.cart.grow_cart``).

The host launches rounds ahead of the device and reads the state after many of them. A round has a
fixed number of launches with fixed grids; the amount of work is read from the tables (``tables``),
and a round after the last one finds nothing to do::

    sum_tiles                     huge young nodes: statistics of the bins (*)
    sum_cuts, search_cuts         by features with many bins: best splits of tiles (*)
    find_ranges, sum_sides        instead of these where splits are random (*)
    search_items, settle_items    large young nodes: best splits
    search_nodes, twice           what is left of large ones, and small ones
    write_splits, twice           of large and of small nodes
    count_splits, list_splits     which nodes are opened; where leaves are limited: choose_best
    make_children
    move_rows, twice              partition of large and of small nodes
    split_tiles, join_tiles       partition of huge nodes (*)
    clear_lines                   (*)

(*) only where a tree has so many rows that its nodes may be huge.

ABSOLUTE_ERROR, whose scores do not follow from statistics, and tables with more categories than
``grows_on_device`` allows are grown by the host's threads on copies of the arrays: the trees are
the same.
"""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cpu.team import get_threads
from ...runtime.cuda.fetch import Fetched, download_in_pieces
from ...runtime.cuda.target import (
    blocks_for,
    download,
    empty,
    is_simulated,
    on_device,
    upload,
)
from ..cpu import grow_cart as host
from ..cpu.finishing import finished
from ..problem import (
    LIKELY_NODES,
    MOST_LARGE,
    NODE,
    TILE,
    CartParams,
    CartTable,
    CartTarget,
    GrownCart,
    grows_on_device,
    most_nodes,
)
from .control import CartLimits, limits_of, open_nodes, plant_roots
from .cuts import sorted_lists
from .rows import add_up, partition
from .search import allocate_search, find_splits
from .tables import (
    IS_FULL,
    N_NODES,
    N_YOUNG,
    Sizes,
    TableSizes,
    allocate_growing,
    allocate_nodes,
    upload_bins,
    with_room,
    words_of,
)
from .tiles import clear
from .writing import write_splits

LEAST_ROOM = 8 if is_simulated() else 2**12
ROUNDS_AHEAD = 2 if is_simulated() else 48
"""Most rounds that are launched before the first look at the state. Then there are twice as many,
and so on."""


def grow_cart(
    table: CartTable,
    target: CartTarget,
    records: Array,
    tree_begin: np.ndarray,
    tree_end: np.ndarray,
    keys: np.ndarray,
    params: CartParams,
) -> GrownCart:
    if not grows_on_device(table, params):
        return _grow_on_host(table, target, records, tree_begin, tree_end, keys, params)
    return CartBatch(table, target, records, tree_begin, tree_end, keys, params).grow()


def _grow_on_host(table: CartTable, target: CartTarget, records: Array, *trees: Array) -> GrownCart:
    table = table._replace(codes=download(table.codes))
    arrays = (download(a) for a in (target.classes, target.values, target.weight))
    on_host = CartTarget(*arrays, target.output_begin)
    moved = download(records).copy()
    grown = host.grow_cart(table, on_host, moved, *trees)
    records[...] = on_device(moved)
    return grown


def likely_rounds(limits: CartLimits, most_rows: int) -> int:
    """Return how many rounds most trees on so many rows need: deep ones have some times the levels
    of a tree that is balanced."""
    if limits.is_limited:
        return min(limits.max_leaves, ROUNDS_AHEAD)
    # A round opens a generation: a balanced tree needs as many as its rows have binary digits.
    return min(limits.max_depth + 1, 2 * most_rows.bit_length() + 4, ROUNDS_AHEAD)


class CartBatch:
    """A batch of trees that grow on the device."""

    def __init__(
        self,
        table: CartTable,
        target: CartTarget,
        records: Array,
        tree_begin: np.ndarray,
        tree_end: np.ndarray,
        keys: np.ndarray,
        params: CartParams,
    ) -> None:
        self.table = table
        self.records = records
        self.limits = limits_of(params)
        self.n_trees = tree_begin.size
        self.most_rows = int(np.max(tree_end - tree_begin))
        n_records, width = records.shape[0], target.n_statistics
        self.sizes = Sizes(MOST_LARGE, TILE)
        self.most_nodes = most_nodes(tree_end - tree_begin, params)
        likely = self.most_nodes
        # Most trees stay far below the most nodes that are possible: the table grows where they do
        # not.
        if not self.limits.is_limited:
            likely = min(likely, max(LEAST_ROOM, int(LIKELY_NODES * likely)))
        self.bins = upload_bins(table, target)
        self.nodes = allocate_nodes(likely, width, words_of(table))
        # The partition moves records into ``aside`` and back, in every list alike.
        self.lists = sorted_lists(table, records, tree_begin, tree_end, params)
        self.aside = empty(self.lists.shape, self.lists.dtype)
        # Young nodes are disjoint, so that no more of them can be huge at a time.
        huge = n_records // (MOST_LARGE + 1) if self.most_rows > MOST_LARGE else 0
        n_parts = n_records // TILE + huge if huge else 0
        self.search = allocate_search(table, target, self.lists, params, huge, n_parts)
        room = TableSizes(
            self.n_trees,
            n_records,
            self.lists.shape[0],
            n_blocks=blocks_for(-(-n_records // 2**10)),
            n_huge=self.search.summed.n_huge,
            n_parts=n_parts,
        )
        self.growing = allocate_growing(room, params)
        segments = upload(tree_begin, tree_end, keys)
        sums = add_up(target, records, tree_begin, tree_end)
        plant_roots(segments, sums, self.bins, self.nodes, self.growing, self.sizes, params)

    def grow(self) -> GrownCart:
        """Launch rounds until all trees are grown."""
        n_rounds, line = self._likely_rounds(), 0
        while True:
            for _ in range(n_rounds):
                self._round(line)
                line = 1 - line
            # Reading the state waits for the device. Rounds launched too many find nothing to do,
            # so that it is read seldom, and more seldom the longer a batch grows.
            n_rounds *= 2
            state = Fetched(self.growing.state[line]).wait()
            if state[IS_FULL]:
                # Rounds behind the one that filled the table did nothing: growth goes on where it
                # stopped.
                self.nodes = with_room(self.nodes, min(self.most_nodes, 2 * self.nodes.capacity))
                for each in self.growing.state:  # one entry at a time, which CuPy sets to zero
                    each[IS_FULL : IS_FULL + 1] = 0  # without a kernel of its own
            elif state[N_YOUNG] == 0:
                # The first list holds the records themselves, in the order of the nodes.
                self.records[...] = self.lists[0]
                return self._finished(int(state[N_NODES]))

    def _likely_rounds(self) -> int:
        return likely_rounds(self.limits, self.most_rows)

    def _round(self, line: int) -> None:
        bins, nodes, growing = self.bins, self.nodes, self.growing
        most = min(growing.opened.shape[0], self.records.shape[0])
        find_splits(self.search, bins, nodes, growing, line, self.sizes.tile_rows)
        write_splits(self.search, bins, nodes, growing, line)
        open_nodes(bins, nodes, growing, line, self.limits, self.sizes)
        partition(
            self.table.codes, self.lists, self.aside, bins, nodes, growing, line, most, self.sizes
        )
        if self.search.summed.n_huge:
            clear(growing, line, self.search.settings[4], self.search.summed.lines)

    def _finished(self, n_nodes: int) -> GrownCart:
        nodes, n_threads = self.nodes, get_threads()
        table = download_in_pieces(nodes.memory[: n_nodes * NODE.itemsize], n_threads).view(NODE)
        statistics = download_in_pieces(nodes.statistics[:n_nodes], n_threads)
        categories = np.empty((0, 0), np.uint32)
        if nodes.categories.shape[1]:
            categories = download_in_pieces(nodes.categories[:n_nodes], n_threads)
        return finished(self.table, table, statistics, categories, self.n_trees)
