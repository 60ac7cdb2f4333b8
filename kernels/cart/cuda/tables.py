"""The tables of growing trees on the device.

Nodes are numbered in the order in which they are made: the roots, then generation after generation
the children of the nodes that were opened last. The young nodes are those of the last generation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...growth.params import UNLIMITED
from ...runtime.arrays import Array
from ...runtime.cuda.target import empty, is_simulated, records_in, upload, zeros
from ..problem import NODE, CartParams, CartTable, CartTarget, has_many_bins

MOST_SMALL = 8 if is_simulated() else 64
"""Rows of a node that a single warp looks at."""
MOST_TILES = 512
"""Tiles of a node."""
TILE_SHIFT, TILE_MASK = 32, 2**32 - 1
"""A tile is the number of its node above its own number in the node."""
SOUGHT, FOUND = -2, -3
"""``feature`` of a young node whose split is to be found by a block alone, and minus the number of
the feature, of a node whose split is noted: score in ``gain``, number of the candidate in
``last_left``, and of the order in ``missing_left``."""

FIRST, N_YOUNG, N_NODES, N_LARGE, N_OPENED, IS_FULL, N_HUGE, N_TILES, N_PARTS, N_COUNTS = range(10)
"""Columns of ``Growing.state``. ``IS_FULL``: the table of nodes has no room for the next
generation, and nothing goes on until it has. ``N_TILES`` are those of ``Growing.tiles``,
``N_PARTS`` those of ``Growing.parts``."""

NODE_OF, HUGE, SUMMED, N_LARGE_COLUMNS = range(4)
"""Columns of ``Growing.large``: the node, its number among the huge ones or -1, and where the
statistics of the feature are that it is split by (see ``tiles``), or -1."""

FIRST_TILE = 1
"""Column of ``Growing.huge``, behind ``NODE_OF``: the first of the node's tiles."""

N_LEAVES, N_WAITING, YOUNG, N_OWN_YOUNG, N_TREE_COUNTS = range(5)
"""Columns of ``Growing.trees``; ``YOUNG`` is the first young node of a tree. Only used where the
number of leaves is limited."""

LEAST_WEIGHT, LEAST_GAIN = range(2)
"""Columns of ``Growing.limits``: the least weight of a child, the least gain of a split."""

N_BINS, CATEGORICAL, MONOTONE, BEGIN, LIST = range(5)
"""Columns of ``Bins.features``. ``LIST``: 0, or of a feature with many bins the number, from 1 on,
of the list that has its records sorted (see ``cuts``)."""


class Bins(NamedTuple):
    """The features as the search reads them.

    features : int64, shape (n_features, 5)
    lower, upper : float64
        See ``CartTable``.
    entry_begin : int64, shape (n_outputs + 1,)
        Where the statistics of the outputs begin.
    """

    features: Array
    lower: Array
    upper: Array
    entry_begin: Array


def upload_bins(table: CartTable, target: CartTarget) -> Bins:
    """Copy the bins of a table to the device."""
    has_many = has_many_bins(table)
    # List 0 are the records; features with many bins have the lists from 1 on.
    lists = np.cumsum(has_many) * has_many
    columns = (table.n_bins, table.categorical, table.monotone, table.begin[:-1], lists)
    features = np.column_stack([column.astype(np.int64) for column in columns])
    # The entries of regression follow the packed weight, which is entry 0.
    entry_begin = target.output_begin + (0 if target.classes.shape[0] else 1)
    return Bins(*upload(features, table.lower, table.upper, entry_begin.astype(np.int64)))


def words_of(table: CartTable) -> int:
    """Return the number of words of the largest set of categories."""
    n_words = -(-table.n_bins // 32) * (table.categorical != 0)
    return int(np.max(n_words, initial=0))


class CartNodes(NamedTuple):
    """The nodes of a batch, with room for more.

    memory : uint8
        That of ``table``.
    table : NODE, shape (capacity,)
    statistics, of_left : int64, shape (capacity, n_statistics)
        Of the node, and of the left child of its best split.
    categories : uint32, shape (capacity, words)
        On the left of the split.
    """

    memory: Array
    table: Array
    statistics: Array
    of_left: Array
    categories: Array

    @property
    def capacity(self) -> int:
        return int(self.statistics.shape[0])


def allocate_nodes(capacity: int, n_statistics: int, n_words: int) -> CartNodes:
    """Allocate nodes."""
    memory = empty(capacity * NODE.itemsize, np.uint8)
    return CartNodes(
        memory=memory,
        table=records_in(memory, 0, NODE, capacity),
        statistics=empty((capacity, n_statistics), np.int64),
        of_left=empty((capacity, n_statistics), np.int64),
        categories=empty((capacity, n_words), np.uint32),
    )


def with_room(nodes: CartNodes, capacity: int) -> CartNodes:
    """Return a larger copy."""
    larger = allocate_nodes(capacity, nodes.statistics.shape[1], nodes.categories.shape[1])
    # ``table`` is a view of ``memory``.
    for name in ("memory", "statistics", "of_left", "categories"):
        kept = getattr(nodes, name)
        getattr(larger, name)[: kept.shape[0]] = kept
    return larger


class Growing(NamedTuple):
    """The other tables of a batch.

    state : int64, shape (2, N_COUNTS)
        Rounds read one line and prepare the other.
    trees : int64, shape (n_trees, N_TREE_COUNTS)
    limits : float64, shape (n_trees, 2)
    large : int64, shape (n, N_LARGE_COLUMNS)
        The young nodes of more than ``MOST_SMALL`` rows whose split is to be found, in any order.
    huge, tiles : int64, shape (n_huge, 2) and (n_tiles,)
        Those of them that are huge, as many as there is room for, and their tiles: those of a node
        one behind the other.
    parts, lefts : int64, shape (n_parts,) and (n_lists, n_parts)
        The tiles of huge nodes that are opened, and how many rows of each go left.
    found, marks : float64 and int64, shape (large nodes * features,)
        The best score for a feature, NaN if it has no candidate, and its candidate:
        ``order << 32 | number``.
    opened : int64
        The nodes that are opened, in ascending order.
    counts : int64
        Young nodes with a split by block.
    waiting : int64, shape (n_trees, max_leaves) or (n_trees, 0)
        Nodes with a split, in any order.
    """

    state: Array
    trees: Array
    limits: Array
    large: Array
    huge: Array
    tiles: Array
    parts: Array
    lefts: Array
    found: Array
    marks: Array
    opened: Array
    counts: Array
    waiting: Array


class Sizes(NamedTuple):
    """Rows from which nodes are shared by several blocks.

    most_large : int
        Of a node that is not huge.
    tile_rows : int
    """

    most_large: int
    tile_rows: int


class TableSizes(NamedTuple):
    """Sizes of the tables of a batch.

    n_trees, n_records, n_lists, n_blocks : int
    n_huge : int
        Huge nodes that there is room for; there may be more.
    n_parts : int
        Tiles of disjoint huge nodes, at most.
    """

    n_trees: int
    n_records: int
    n_lists: int
    n_blocks: int
    n_huge: int
    n_parts: int


def allocate_growing(room: TableSizes, params: CartParams) -> Growing:
    """Allocate the tables of a batch."""
    n_trees, n_records = room.n_trees, room.n_records
    is_limited = params.max_leaves < UNLIMITED
    # Young nodes are disjoint, and large ones have more rows than small ones may have.
    n_large = n_records // (MOST_SMALL + 1) + 1
    return Growing(
        state=zeros((2, N_COUNTS), np.int64),
        trees=empty((n_trees, N_TREE_COUNTS), np.int64),
        limits=empty((n_trees, 2), np.float64),
        large=empty((n_large, N_LARGE_COLUMNS), np.int64),
        huge=empty((room.n_huge, 2), np.int64),
        tiles=empty(room.n_parts if room.n_huge else 0, np.int64),
        parts=empty(room.n_parts, np.int64),
        lefts=empty((room.n_lists, room.n_parts), np.int64),
        found=empty(n_large * params.max_features, np.float64),
        marks=empty(n_large * params.max_features, np.int64),
        opened=empty(n_trees if is_limited else n_records // 2 + 1, np.int64),
        counts=empty(room.n_blocks, np.int64),
        waiting=empty((n_trees, params.max_leaves if is_limited else 0), np.int64),
    )
