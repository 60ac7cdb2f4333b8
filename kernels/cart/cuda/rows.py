"""The rows of classification and regression trees: statistics of the roots, stable partition.

A block partitions a list of a node's rows, piece by piece from the front; a huge node's tiles are
partitioned side by side, and then joined. Those that go left move
up to the rows before them that did; those that go right are laid aside, and follow in the end.

    records  r0 r1 r2 | r3 r4 r5        r0, r4 go left
             r0 r1 r2 | r3 r4 r5        after the first piece; aside r1 r2
             r0 r4 r2 | r3 r4 r5        after the second piece; aside r1 r2 r3 r5
             r0 r4 r1   r2 r3 r5

    aside    r0 r2 r1 | r4 r5 r3        two tiles: the rows on the right backwards
    records  r0 r4 r1   r2 r3 r5        joined
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.blocks import cut, inclusive_scan, upload_tiles
from ...runtime.cuda.loops import rolled
from ...runtime.cuda.target import (
    block_size,
    blocks_for,
    cuda,
    device_function,
    is_simulated,
    kernel,
    launch,
    zeros,
)
from ...scalars.routing import is_left_category
from ..problem import COUNT_SHIFT, CartTarget
from .tables import (
    CATEGORICAL,
    MOST_SMALL,
    MOST_TILES,
    N_BINS,
    N_OPENED,
    N_PARTS,
    TILE_MASK,
    TILE_SHIFT,
    Bins,
    CartNodes,
    Growing,
    Sizes,
)

i64 = np.int64

SUMS_BLOCK = block_size(128)
SUMS_TILE = 2**12
"""Rows that a block adds up at a time."""
ROW_MASK = i64(0xFFFFFFFF)
MULTIPLICITY_SHIFT = i64(32)
ONE_ROW = i64(2**COUNT_SHIFT)


@device_function
def n_tiles_of(n_rows, tile_rows):
    """Return how many tiles a huge node has."""
    return min((n_rows + tile_rows - 1) // tile_rows, MOST_TILES)


@device_function
def part_of(begin, end, i, tile_rows):
    """Return where tile i of a huge node begins and ends."""
    n = n_tiles_of(end - begin, tile_rows)
    return begin + (end - begin) * i // n, begin + (end - begin) * (i + 1) // n


@device_function
def list_tiles(number, n_rows, tile_rows, state, line, counter, tiles):
    """Append the tiles of a huge node to a list. Return where they begin."""
    n = n_tiles_of(n_rows, tile_rows)
    # One addition for all tiles of a node, so that they lie one behind the other.
    first = cuda.atomic.add(state, (line, counter), n)
    for i in rolled(range(n)):
        tiles[first + i] = i64(number) << TILE_SHIFT | i
    return first


@device_function
def add_row(classes, values, weight, record, k, place, sums):
    """Add a row to the statistics ``sums[k, place]``."""
    row = record & ROW_MASK
    own_weight = weight[row] * (record >> MULTIPLICITY_SHIFT)
    # All sums are of integers: the order of the atomic additions does not matter.
    packed = ONE_ROW + own_weight
    if classes.shape[0] == 0:
        cuda.atomic.add(sums, (k, place, 0), packed)
    for output in rolled(range(classes.shape[0])):
        cuda.atomic.add(sums, (k, place, classes[output, row]), packed)
    for output in rolled(range(values.shape[0])):
        cuda.atomic.add(sums, (k, place, output + 1), values[output, row] * own_weight)


@device_function
def add_row_alone(classes, values, weight, record, k, place, sums):
    """Add a row to statistics that no other thread adds to."""
    row = record & ROW_MASK
    own_weight = weight[row] * (record >> MULTIPLICITY_SHIFT)
    packed = ONE_ROW + own_weight
    if classes.shape[0] == 0:
        sums[k, place, 0] += packed
    for output in rolled(range(classes.shape[0])):
        sums[k, place, classes[output, row]] += packed
    for output in rolled(range(values.shape[0])):
        sums[k, place, output + 1] += values[output, row] * own_weight


@device_function
def differ(of_rows, row, other):
    """Return whether two rows have another value in some output."""
    for output in range(of_rows.shape[0]):
        if of_rows[output, row] != of_rows[output, other]:
            return True
    return False


@kernel
def add_up_roots(classes, values, weight, records, tiles, sums):
    """One tile a block at a time; ``sums`` (n_trees, 1, n_statistics) starts with zeros."""
    tile = cuda.blockIdx.x
    # Tiles of all trees in one list: large and small samples keep the blocks equally busy.
    while tile < tiles.shape[0]:
        i = tiles[tile].begin + cuda.threadIdx.x
        end = tiles[tile].end
        while i < end:
            add_row(classes, values, weight, i64(records[i]), tiles[tile].of, 0, sums)
            i += SUMS_BLOCK
        tile += cuda.gridDim.x


def add_up(target: CartTarget, records: Array, begin: np.ndarray, end: np.ndarray) -> Array:
    """Return the statistics of segments, shape (n, 1, n_statistics), on the device."""
    tiles = cut(begin, end, SUMS_TILE)
    sums = zeros((begin.size, 1, target.n_statistics), np.int64)
    launch(
        add_up_roots, blocks_for(tiles.size), SUMS_BLOCK,
        target.classes, target.values, target.weight, records, *upload_tiles(tiles), sums,
    )  # fmt: skip
    return sums


@device_function
def goes_left(codes, record, split, x, categories):
    """Return the side of a row in node x."""
    feature, n_bins, last_left, missing_left, categorical = split
    code = codes[feature, i64(record) & ROW_MASK]
    if code == n_bins:
        return missing_left != 0
    if categorical != 0:
        return is_left_category(categories[x, code >> 5], code)
    return code <= last_left


@device_function
def split_of(nodes, x, features):
    """Return what decides about the rows of a node."""
    f = nodes[x].feature
    return (
        f, features[f, N_BINS], nodes[x].last_left, nodes[x].missing_left, features[f, CATEGORICAL]
    )  # fmt: skip


@device_function
def sides_of(codes, records, i, end, split, x, categories, held):
    """Read the rows of a thread from row i on. Return the bits of those that go left."""
    sides = 0
    for j in range(held.shape[0]):
        # Rows stay in registers: when they are written, others may have been written over them.
        if i + j < end:
            held[j] = records[i + j]
            if goes_left(codes, held[j], split, x, categories):
                sides |= 1 << j
    return sides


@device_function
def count_bits(bits):
    """Return how many bits of a small number are set."""
    n = 0
    while bits != 0:
        n += bits & 1
        bits >>= 1
    return n


SMALL, LARGE = ((4, 2), (4, 4)) if is_simulated() else ((32, 2), (256, 4))
"""Threads of a block for a node, and neighbouring rows of a thread."""
PARTITIONS = SMALL, LARGE
TILE_BLOCK, TILE_OWN = LARGE


@functools.cache
def partition_kernel(block: int, own: int) -> Any:
    """Return the kernel for blocks of so many threads, each with so many rows at a time."""

    @kernel
    def move_rows(
        codes, lists, laid, features, nodes, categories, opened, state, line, least, most
    ):
        """One list of an opened node with ``least`` to ``most`` rows a block at a time."""
        # A column of the grid is a list: every list of a node is parted by the same sides.
        scan = cuda.shared.array(block, np.int32)
        held = cuda.local.array(own, np.uint64)
        t = cuda.threadIdx.x
        records = lists[cuda.blockIdx.x]
        aside = laid[cuda.blockIdx.x]
        k = i64(cuda.blockIdx.y)
        while k < state[line, N_OPENED]:
            x = opened[k]
            k += cuda.gridDim.y
            begin = nodes[x].begin
            end = nodes[x].end
            # Nodes of another size have blocks of another size.
            if end - begin < least or end - begin > most:
                continue
            split = split_of(nodes, x, features)
            n_left = i64(0)
            n_right = i64(0)
            first = begin
            while first < end:
                i = first + t * own
                # Read a piece: each thread some neighbouring rows.
                sides = sides_of(codes, records, i, end, split, x, categories, held)
                n_own = count_bits(sides)
                # Count: rows that go left before this thread's. All have read their rows behind the
                # barriers of the scan, so that records may be written over.
                scan[t] = n_own
                inclusive_scan(scan, t)
                before = scan[t] - n_own
                # Write: to the front, or aside. A thread's rows are neighbours, which keeps their
                # order.
                to_left = begin + n_left + before
                to_right = begin + n_right + t * own - before
                for j in range(own):
                    if i + j < end:
                        if (sides >> j) & 1:
                            records[to_left] = held[j]
                            to_left += 1
                        else:
                            aside[to_right] = held[j]
                            to_right += 1
                n_left += scan[block - 1]
                n_right += min(i64(block * own), end - first) - scan[block - 1]
                first += block * own
                # All have read the totals of the scan, which the next piece writes.
                cuda.syncthreads()
            # The rows laid aside follow those on the left.
            i = i64(t)
            while i < n_right:
                records[begin + n_left + i] = aside[begin + i]
                i += block
            # The rows aside have been read before the next node's are laid there.
            cuda.syncthreads()

    return move_rows


@kernel
def split_tiles(
    codes, lists, laid, features, nodes, categories, parts, state, line, tile_rows, lefts
):
    """One list of a tile of an opened huge node a block at a time: the rows are laid aside, those
    that go left from the front on, the others from the back."""
    scan = cuda.shared.array(TILE_BLOCK, np.int32)
    held = cuda.local.array(TILE_OWN, np.uint64)
    t = cuda.threadIdx.x
    records = lists[cuda.blockIdx.x]
    aside = laid[cuda.blockIdx.x]
    p = i64(cuda.blockIdx.y)
    while p < state[line, N_PARTS]:
        x = parts[p] >> TILE_SHIFT
        begin, end = part_of(nodes[x].begin, nodes[x].end, parts[p] & TILE_MASK, tile_rows)
        split = split_of(nodes, x, features)
        first = begin
        to_left = begin
        to_right = end - 1
        while first < end:
            i = first + t * TILE_OWN
            # The same three steps as in ``move_rows``: read, count, write, here to both ends of the
            # tile.
            sides = sides_of(codes, records, i, end, split, x, categories, held)
            n_own = count_bits(sides)
            scan[t] = n_own
            inclusive_scan(scan, t)
            before = scan[t] - n_own
            own_left = to_left + before
            # Behind the rows on the right of the threads before.
            own_right = to_right - (t * TILE_OWN - before)
            for j in range(TILE_OWN):
                if i + j < end:
                    if (sides >> j) & 1:
                        aside[own_left] = held[j]
                        own_left += 1
                    else:
                        aside[own_right] = held[j]
                        own_right -= 1
            n_left = i64(scan[TILE_BLOCK - 1])
            to_left += n_left
            to_right -= min(i64(TILE_BLOCK * TILE_OWN), end - first) - n_left
            first += TILE_BLOCK * TILE_OWN
            cuda.syncthreads()  # all have read the totals of the scan, which the next piece writes
        if t == 0:
            # How many went left is known to all threads; ``join_tiles`` finds the places with it.
            lefts[cuda.blockIdx.x, p] = to_left - begin
        p += cuda.gridDim.y


@kernel
def join_tiles(lists, laid, nodes, parts, state, line, tile_rows, lefts):
    """One list of a tile a block at a time: its rows follow those of the tiles before it."""
    scan = cuda.shared.array(TILE_BLOCK, np.int64)
    t = cuda.threadIdx.x
    records = lists[cuda.blockIdx.x]
    aside = laid[cuda.blockIdx.x]
    p = i64(cuda.blockIdx.y)
    while p < state[line, N_PARTS]:
        x, i = parts[p] >> TILE_SHIFT, parts[p] & TILE_MASK
        begin, end = part_of(nodes[x].begin, nodes[x].end, i, tile_rows)
        own = i64(0)
        # Rows on the left in the node's tiles before this one: its tiles are neighbours in
        # ``parts``.
        for k in rolled(range(p - i + t, p, TILE_BLOCK)):
            own += lefts[cuda.blockIdx.x, k]
        scan[t] = own
        inclusive_scan(scan, t)
        before = scan[TILE_BLOCK - 1]
        n_left = lefts[cuda.blockIdx.x, p]
        to_left = nodes[x].begin + before
        # The right child begins where the left one ends. Of the rows before the tile, those that
        # did not go left come first.
        to_right = nodes[nodes[x].child].end + (begin - nodes[x].begin - before)
        k = i64(t)
        while k < end - begin:
            if k < n_left:
                records[to_left + k] = aside[begin + k]
            else:
                # Those on the right were laid aside from the back, and are turned round.
                records[to_right + k - n_left] = aside[end - 1 - (k - n_left)]
            k += TILE_BLOCK
        cuda.syncthreads()  # ``scan`` has been read by all
        p += cuda.gridDim.y


def partition(
    codes: Array,
    lists: Array,
    aside: Array,
    bins: Bins,
    nodes: CartNodes,
    growing: Growing,
    line: int,
    most_nodes: int,
    sizes: Sizes,
) -> None:
    """Send the rows of the opened nodes, at most so many, to their children in all lists (see
    ``cuts``)."""
    n_lists, n_records = lists.shape
    n_parts = growing.parts.shape[0]
    most_large = min(most_nodes, n_records // (MOST_SMALL + 1) + 1)
    # One block of a warp for a small node, a large block for a large one.
    small_blocks, large_blocks = (
        blocks_for(n_lists * most_nodes, 32),
        blocks_for(n_lists * most_large),
    )
    most_rows = sizes.most_large if n_parts else n_records
    for size, blocks, least, most in (
        (SMALL, small_blocks, 0, MOST_SMALL), (LARGE, large_blocks, MOST_SMALL + 1, most_rows),
    ):  # fmt: skip
        launch(
            partition_kernel(*size), (n_lists, -(-blocks // n_lists)), size[0],
            codes, lists, aside, bins.features, nodes.table, nodes.categories,
            growing.opened, growing.state, line, least, most,
        )  # fmt: skip
    if n_parts:
        # Huge nodes: tiles side by side into ``aside``, then back, since a tile does not know its
        # place before all of them have counted.
        blocks = -(-blocks_for(n_lists * n_parts) // n_lists)
        launch(
            split_tiles, (n_lists, blocks), TILE_BLOCK,
            codes, lists, aside, bins.features, nodes.table, nodes.categories,
            growing.parts, growing.state, line, sizes.tile_rows, growing.lefts,
        )  # fmt: skip
        launch(
            join_tiles, (n_lists, blocks), TILE_BLOCK,
            lists, aside, nodes.table,
            growing.parts, growing.state, line, sizes.tile_rows, growing.lefts,
        )  # fmt: skip
