"""Statistics of the nodes of classification and regression trees, and of their bins."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime.cuda.target import (
    block_size,
    blocks_for,
    cuda,
    device_function,
    download,
    kernel,
    launch,
    zeros,
)
from ...runtime.cuda.tiles import cut, upload_tiles
from ..problem import COUNT_SHIFT, CartTable, CartTarget

i64 = np.int64

BLOCK = block_size(128)
TILE = 2**12
"""Rows that a block adds up at a time."""
ROW_MASK = i64(0xFFFFFFFF)
MULTIPLICITY_SHIFT = i64(32)
ONE_ROW = i64(2**COUNT_SHIFT)


@device_function
def add_row(classes, values, weight, record, k, place, sums):
    """Add a row to the statistics ``sums[k, place]``."""
    row = record & ROW_MASK
    own_weight = weight[row] * (record >> MULTIPLICITY_SHIFT)
    packed = ONE_ROW + own_weight
    if classes.shape[0] == 0:
        cuda.atomic.add(sums, (k, place, 0), packed)
    for output in range(classes.shape[0]):
        cuda.atomic.add(sums, (k, place, classes[output, row]), packed)
    for output in range(values.shape[0]):
        cuda.atomic.add(sums, (k, place, output + 1), values[output, row] * own_weight)


@device_function
def differ(of_rows, row, other):
    """Whether two rows have another class or value in some output."""
    for output in range(of_rows.shape[0]):
        if of_rows[output, row] != of_rows[output, other]:
            return True
    return False


@kernel
def add_up_nodes(classes, values, weight, records, tiles, first, sums, mixed):
    """One tile a block at a time.

    ``sums`` (n_nodes, 1, n_statistics) and ``mixed`` (n_nodes,), which is set where a row
    differs from the node's first one, at ``first`` of the records, are the results.
    """
    tile = cuda.blockIdx.x
    while tile < tiles.shape[0]:
        k = tiles[tile].of
        other = i64(records[first[k]]) & ROW_MASK
        i = tiles[tile].begin + cuda.threadIdx.x
        end = tiles[tile].end
        while i < end:
            record = i64(records[i])
            add_row(classes, values, weight, record, k, 0, sums)
            row = record & ROW_MASK
            if differ(classes, row, other) or differ(values, row, other):
                mixed[k] = 1
            i += BLOCK
        tile += cuda.gridDim.x


def add_up(
    target: CartTarget, records: Any, begin: np.ndarray, end: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Statistics of nodes, and whether each is pure."""
    tiles = cut(begin, end, TILE)
    sums = zeros((begin.size, 1, target.n_statistics), np.int64)
    mixed = zeros(begin.size, np.uint8)
    of_rows = (target.classes, target.values, target.weight)
    small = upload_tiles(tiles, begin)
    launch(add_up_nodes, blocks_for(tiles.size), BLOCK, *of_rows, records, *small, sums, mixed)
    return download(sums)[:, 0], download(mixed) == 0


@kernel
def add_up_bins(codes, classes, values, weight, records, tiles, feature, sums):
    """One tile of an item, which is a node with a feature, a block at a time.

    ``sums`` (n_items, n_slots, n_statistics) is the result; few rows of a node meet in a bin,
    so the additions go to global memory at once.
    """
    tile = cuda.blockIdx.x
    while tile < tiles.shape[0]:
        k = tiles[tile].of
        i = tiles[tile].begin + cuda.threadIdx.x
        end = tiles[tile].end
        while i < end:
            record = i64(records[i])
            code = codes[feature[k], record & ROW_MASK]
            add_row(classes, values, weight, record, k, code, sums)
            i += BLOCK
        tile += cuda.gridDim.x


def histograms(
    table: CartTable,
    target: CartTarget,
    records: Any,
    begin: np.ndarray,
    end: np.ndarray,
    feature: np.ndarray,
) -> Any:
    """Statistics of the bins of items, shape (n_items, n_slots, n_statistics), on the device.

    The missing rows stand in the slot of their code, ``n_bins`` of the feature.
    """
    tiles = cut(begin, end, TILE)
    sums = zeros((begin.size, n_slots(table), target.n_statistics), np.int64)
    of_rows = (table.codes, target.classes, target.values, target.weight)
    small = upload_tiles(tiles, feature)
    launch(add_up_bins, blocks_for(tiles.size), BLOCK, *of_rows, records, *small, sums)
    return sums


def n_slots(table: CartTable) -> int:
    """Histogram entries of one feature."""
    return int(np.max(table.n_bins, initial=0)) + 1
