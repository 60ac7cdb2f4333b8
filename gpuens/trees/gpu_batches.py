"""How many trees grow together on a GPU, and the memory that they take there."""

from __future__ import annotations

import numpy as np

from ..devices.placement import Device
from ..kernels.cart.problem import (
    LIKELY_NODES,
    MOST_LARGE,
    NODE,
    SCRATCH_BYTES,
    SUMMED_BYTES,
    TILE,
    CartParams,
    CartTable,
    CartTarget,
    bytes_of_cuts,
    most_nodes,
    n_sorted_features,
)

BATCH_RECORDS = 2**26
"""Rows of all trees of a batch at which a card is busy; more would only take memory, and time until
growth can be watched or stopped."""
MOST_TREES = 256
BATCH_SHARE = 0.5
"""The share of the free memory that a batch may take."""
UNKNOWN_MEMORY = 2**31
"""Taken to be free where that is unknown."""
RECORD_BYTES = 3 * 8 + 4
"""A row of a sample: alone, joined with the others, and laid aside; and half a node to open."""
LIST_BYTES = 2 * 8
"""A row of a sample in the order of a feature, there and laid aside."""
SORTING_BYTES = 7 * 8
"""A row of a sample while it is sorted: row, tree, code, their key, order, and two of the sort."""
SCRATCH_LINES = 2**12
"""Blocks that search for splits, each with statistics of the bins of a feature."""


def bytes_of_tree(n_records: int, n_nodes: int, n_statistics: int, n_sorted: int) -> int:
    """Return the bytes in which a tree of so many nodes grows, on a sample of so many rows that are
    sorted by so many features."""
    of_record = RECORD_BYTES + (n_sorted * LIST_BYTES + SORTING_BYTES if n_sorted else 0)
    return of_record * n_records + n_nodes * (NODE.itemsize + 16 * n_statistics)


def most_trees(n_records: int, of_tree: int, free: int | None) -> int:
    """Return the number of trees of a batch, each on so many rows and of so many bytes, where so
    many bytes are free."""
    room = BATCH_SHARE * (UNKNOWN_MEMORY if free is None else free)
    return max(1, min(MOST_TREES, BATCH_RECORDS // n_records, int(room // of_tree)))


def trees_at_once(table: CartTable, target: CartTarget, params: CartParams, device: Device) -> int:
    """Return the number of trees of the next batch, each on all rows."""
    n_records = table.codes.shape[1]
    n_nodes = int(LIKELY_NODES * most_nodes(np.array([n_records]), params))
    n_sorted = n_sorted_features(table, params)
    of_tree = bytes_of_tree(n_records, n_nodes, target.n_statistics, n_sorted)
    return most_trees(n_records, of_tree, device.memory()[0])


def scratch_bytes(
    n_bins: int, n_statistics: int, n_records: int, n_features: int, n_sorted: int
) -> int:
    """Return the bytes of the statistics of bins, and of tiles of the rows that are sorted by so
    many features, of trees on so many rows together."""
    of_bin = 8 * n_statistics
    huge = n_records // MOST_LARGE * n_features * (n_bins + 2) * of_bin
    of_blocks = min(2 * SCRATCH_BYTES, 2 * of_bin * SCRATCH_LINES * (n_bins + 1))
    n_tiles = n_records // TILE + n_records // MOST_LARGE
    of_tiles = n_tiles * n_sorted * bytes_of_cuts(n_statistics)
    return of_blocks + min(SUMMED_BYTES, huge) + min(SUMMED_BYTES, of_tiles)
