"""The rows of classification and regression trees: statistics of nodes and of their bins, and the
stable partition.

The tiles of a node count their rows that go left; the host adds the counts up, tile after tile,
so that each tile knows where its two sides go. Counting leaves a copy of the records behind,
from which they are moved back to their places.

    records  r0 r1 r2 | r3 r4 r5          tile 0: L R R (1 left)    tile 1: L R L (2 left)
    places   r0 r3 r5   r1 r2 r4          left from 0, 1            right from 3, 5
"""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.blocks import cut, inclusive_scan, upload_tiles
from ...runtime.cuda.target import (
    block_size,
    blocks_for,
    cuda,
    device_function,
    download,
    empty,
    kernel,
    launch,
    upload,
    zeros,
)
from ...runtime.dtypes import RECORD
from ...scalars.routing import is_left_category
from ..problem import COUNT_SHIFT, CartTable, CartTarget

i64 = np.int64

SUMS_BLOCK = block_size(128)
SUMS_TILE = 2**12
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
    """Return whether two rows have another class or value in some output."""
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
            i += SUMS_BLOCK
        tile += cuda.gridDim.x


def add_up(
    target: CartTarget, records: Array, begin: np.ndarray, end: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the statistics of nodes, and whether each is pure."""
    tiles = cut(begin, end, SUMS_TILE)
    sums = zeros((begin.size, 1, target.n_statistics), np.int64)
    mixed = zeros(begin.size, np.uint8)
    of_rows = (target.classes, target.values, target.weight)
    small = upload_tiles(tiles, begin)
    launch(add_up_nodes, blocks_for(tiles.size), SUMS_BLOCK, *of_rows, records, *small, sums, mixed)
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
            i += SUMS_BLOCK
        tile += cuda.gridDim.x


def histograms(
    table: CartTable,
    target: CartTarget,
    records: Array,
    begin: np.ndarray,
    end: np.ndarray,
    feature: np.ndarray,
) -> Array:
    """Return statistics of the bins of items, shape (n_items, n_slots, n_statistics), on the
    device.

    The missing rows are in the slot of their code, ``n_bins`` of the feature.
    """
    tiles = cut(begin, end, SUMS_TILE)
    sums = zeros((begin.size, n_slots(table), target.n_statistics), np.int64)
    of_rows = (table.codes, target.classes, target.values, target.weight)
    small = upload_tiles(tiles, feature)
    launch(add_up_bins, blocks_for(tiles.size), SUMS_BLOCK, *of_rows, records, *small, sums)
    return sums


def n_slots(table: CartTable) -> int:
    """Return the number of histogram entries of one feature."""
    return int(np.max(table.n_bins, initial=0)) + 1


PARTITION_BLOCK = block_size(256)
PARTITION_TILE = 8 * PARTITION_BLOCK


@device_function
def goes_left(codes, record, k, feature, n_bins, bin_, missing_left, categorical, categories):
    """Return the side of a row in node k, whose split is entry k of the arrays."""
    code = codes[feature[k], i64(record) & ROW_MASK]
    if code == n_bins[k]:
        return missing_left[k] != 0
    if categorical[k] != 0:
        return is_left_category(categories[k, code >> 5], code)
    return code <= bin_[k]


@kernel
def count_left(
    codes,
    records,
    tiles,
    feature,
    n_bins,
    bin_,
    missing_left,
    categorical,
    categories,
    copy,
    n_left,
):
    """One tile a block at a time; ``n_left`` (n_tiles,) starts with zeros."""
    tile = cuda.blockIdx.x
    while tile < tiles.shape[0]:
        k = tiles[tile].of
        own = 0
        i = tiles[tile].begin + cuda.threadIdx.x
        end = tiles[tile].end
        while i < end:
            record = records[i]
            copy[i] = record
            if goes_left(
                codes, record, k, feature, n_bins, bin_, missing_left, categorical, categories
            ):
                own += 1
            i += PARTITION_BLOCK
        if own > 0:
            cuda.atomic.add(n_left, tile, own)
        tile += cuda.gridDim.x


@kernel
def move_to_sides(
    codes,
    records,
    tiles,
    feature,
    n_bins,
    bin_,
    missing_left,
    categorical,
    categories,
    copy,
    left_begin,
    right_begin,
):
    """One tile a block at a time, a row a thread: the scan of the rows that go left gives each
    its place on its side."""
    left_up_to = cuda.shared.array(PARTITION_BLOCK, np.int32)
    t = cuda.threadIdx.x
    tile = cuda.blockIdx.x
    while tile < tiles.shape[0]:
        k = tiles[tile].of
        to_left = left_begin[tile]
        to_right = right_begin[tile]
        first = tiles[tile].begin
        end = tiles[tile].end
        while first < end:
            n = min(PARTITION_BLOCK, end - first)
            is_left = False
            if t < n:
                record = copy[first + t]
                is_left = goes_left(
                    codes, record, k, feature, n_bins, bin_, missing_left, categorical, categories
                )
            left_up_to[t] = 1 if is_left else 0
            inclusive_scan(left_up_to, t)
            if is_left:
                records[to_left + left_up_to[t] - 1] = record
            elif t < n:
                records[to_right + t - left_up_to[t]] = record
            to_left += left_up_to[PARTITION_BLOCK - 1]
            to_right += n - left_up_to[PARTITION_BLOCK - 1]
            first += PARTITION_BLOCK
            cuda.syncthreads()
        tile += cuda.gridDim.x


def partition(table: CartTable, records: Array, nodes: np.ndarray) -> np.ndarray:
    """Send the nodes' rows to their children and return how many went left."""
    if nodes.size == 0:
        return np.zeros(0, np.int64)
    tiles = cut(nodes["begin"], nodes["end"], PARTITION_TILE)
    feature = nodes["feature"]
    splits = (
        feature.astype(np.int32),
        table.n_bins[feature],
        nodes["bin"].astype(np.int32),
        nodes["missing_left"].astype(np.uint8),
        table.categorical[feature],
        nodes["categories"],
    )
    copy = empty(records.shape[0], RECORD)
    n_left = zeros(tiles.size, np.int64)
    args = (table.codes, records, *upload_tiles(tiles, *splits), copy)
    blocks = blocks_for(tiles.size)
    launch(count_left, blocks, PARTITION_BLOCK, *args, n_left)
    left = download(n_left)
    n_rows = tiles["end"] - tiles["begin"]
    of_node, left_begin, right_begin = places(tiles["of"], n_rows, left, nodes)
    launch(move_to_sides, blocks, PARTITION_BLOCK, *args, *upload(left_begin, right_begin))
    return of_node


def places(
    node: np.ndarray, n_rows: np.ndarray, n_left: np.ndarray, nodes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return how many rows of each node go left, and where each tile's rows begin on both sides."""
    is_first = np.diff(node, prepend=-1) > 0
    starts = np.flatnonzero(is_first)
    before_left, before = np.cumsum(n_left) - n_left, np.cumsum(n_rows) - n_rows
    in_left = before_left - before_left[starts][node]
    in_right = before - before[starts][node] - in_left
    of_node = np.add.reduceat(n_left, starts)
    begin = nodes["begin"]
    return of_node, begin[node] + in_left, (begin + of_node)[node] + in_right
