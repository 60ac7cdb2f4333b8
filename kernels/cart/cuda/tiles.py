"""Huge nodes, which several blocks share: their tiles, and the statistics of their bins.

Every tile of a huge node adds the rows of a feature up in shared memory, and then to the line that
the node and the feature have in ``summed``, bin by bin. The additions are of integers, so that
their order does not matter. The search, and the kernels that write its splits, read the line where
they read the rows of other nodes. Lines are cleared once the node has been opened.

Behind the bins a line has one more entry: whether some row differs from the node's first one. Of a
feature with many bins it has the sums of the sides of a random cut (see ``cut_tiles``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.loops import rolled
from ...runtime.cuda.target import (
    block_size,
    blocks_for,
    cuda,
    device_function,
    kernel,
    launch,
    zeros,
)
from ...scalars.rng import PURPOSE_FEATURES, subkey
from ..problem import SUMMED_BYTES, CartParams, CartTable, CartTarget, has_many_bins
from .candidates import feature_after, is_classification
from .cuts import N_LINE_SLOTS
from .rows import MULTIPLICITY_SHIFT, ONE_ROW, ROW_MASK, add_row, differ, part_of
from .tables import (
    IS_FULL,
    LIST,
    N_BINS,
    N_HUGE,
    N_TILES,
    NODE_OF,
    TILE_MASK,
    TILE_SHIFT,
    Bins,
    CartNodes,
    Growing,
)

i64, u32, u64 = np.int64, np.uint32, np.uint64
BLOCK = block_size(256)
HELD = 2**12
"""Entries that a block adds up in shared memory; a feature with more is added up in global
memory."""
N_HALVES = 2 * HELD
HALF = i64(32)
LOW = i64(0xFFFFFFFF)


@device_function
def add_halves(held, entry, value):
    """Add an int64 to an entry of the block's shared memory, modulo 2**64.

    Shared memory adds 32 bits natively, 64 only in a loop that begins again when another thread
    was faster. So the low halves of all entries are in one plane and the high ones in another. The
    addition whose result is less than what it adds has carried, in whatever order threads come, and
    its thread adds that to the high half: both planes are exact once all threads have added.
    """
    low = u32(value & LOW)
    before = cuda.atomic.add(held, entry, low)
    carried = (i64(before) + i64(low)) >> HALF
    cuda.atomic.add(held, entry + HELD, u32((value >> HALF) + carried))


@device_function
def joined(held, entry):
    """Return the int64 whose halves are at an entry."""
    return (i64(held[entry + HELD]) << HALF) + i64(held[entry])


@device_function
def add_row_to_block(classes, values, weight, record, first, held):
    """Add a row to the statistics that begin at an entry of the block's shared memory."""
    row = record & ROW_MASK
    own_weight = weight[row] * (record >> MULTIPLICITY_SHIFT)
    packed = ONE_ROW + own_weight
    n_classes = i64(classes.shape[0])
    # Classes add the packed weight once for each output; regression adds it once, then the sums.
    for s in rolled(range(n_classes if n_classes > 0 else 1 + i64(values.shape[0]))):
        entry, value = first + s, packed
        if n_classes > 0:
            entry = first + classes[s, row]
        elif s > 0:
            value = values[s - 1, row] * own_weight
        add_halves(held, entry, value)


@device_function
def note_mixed(values, records, part, other, summed, at, t):
    """Note at a line whether a row of a tile differs from another row."""
    i = part[0] + t
    while i < part[1]:
        if differ(values, i64(records[i]) & ROW_MASK, other):
            cuda.atomic.max(summed, (at, summed.shape[1] - 1, 0), 1)
            # One row that differs is enough.
            break
        i += BLOCK


@kernel
def sum_tiles(
    codes, lists, classes, values, weight, features, entry_begin, nodes, state, line, n_first,
    shuffle, huge, tiles, tile_rows, summed,
):  # fmt: skip
    """One tile of a huge node, by one of the node's first features, a block at a time.

    A feature with few bins is added up in ``held``, whose entries are (bin, statistic) as in a line
    of ``summed``: so the flush has neighbouring threads add to neighbouring entries.
    """
    held = cuda.shared.array(N_HALVES, np.uint32)
    t = cuda.threadIdx.x
    records = lists[0]
    n_statistics = summed.shape[2]
    n_tiles = state[line, N_TILES] if state[line, IS_FULL] == 0 else i64(0)
    item = i64(cuda.blockIdx.x)
    while item < n_tiles * n_first:
        tile = tiles[item // n_first]
        j = item % n_first
        item += cuda.gridDim.x
        x, at = huge[tile >> TILE_SHIFT, NODE_OF], (tile >> TILE_SHIFT) * n_first + j
        node = nodes[x]
        part = part_of(node.begin, node.end, tile & TILE_MASK, tile_rows)
        # One of the features' blocks also finds out whether all targets of the node are equal.
        if j == 0 and not is_classification(entry_begin):
            other = i64(records[node.begin]) & ROW_MASK
            note_mixed(values, records, part, other, summed, at, t)
        stream = subkey(node.key, PURPOSE_FEATURES, u64(0))
        f = feature_after(stream, j, i64(features.shape[0]), shuffle)
        # Searched along a list instead. All threads of the block go on, so that none waits for
        # these.
        if features[f, LIST] != 0:
            continue
        # Clear the block's table.
        n_entries = (features[f, N_BINS] + 1) * n_statistics
        in_shared = n_entries <= HELD
        if in_shared:
            for entry in rolled(range(t, n_entries, BLOCK)):
                held[entry] = held[entry + HELD] = u32(0)
        cuda.syncthreads()  # all entries are zero
        # Add the rows of the tile.
        i = part[0] + t
        while i < part[1]:
            record = i64(records[i])
            code = i64(codes[f, record & ROW_MASK])
            if in_shared:
                add_row_to_block(classes, values, weight, record, code * n_statistics, held)
            else:
                add_row(classes, values, weight, record, at, code, summed)
            i += BLOCK
        cuda.syncthreads()  # all rows of the tile are added, and all carries
        if in_shared:
            for entry in rolled(range(t, n_entries, BLOCK)):
                # Add the table to the node's line: only what it has, as most tiles see few of the
                # bins.
                own = joined(held, entry)
                if own != 0:
                    cuda.atomic.add(summed, (at, entry // n_statistics, entry % n_statistics), own)
        cuda.syncthreads()  # the entries are free for the next tile


@kernel
def clear_lines(state, line, n_first, huge, summed):
    """Clear the lines of this round, an entry a thread."""
    n_lines = min(state[line, N_HUGE], huge.shape[0]) * n_first
    width = summed.shape[1] * summed.shape[2]
    at = i64(cuda.grid(1))
    while at < n_lines * width:
        entry = at % width
        summed[at // width, entry // summed.shape[2], entry % summed.shape[2]] = 0
        at += cuda.gridsize(1)


class Summed(NamedTuple):
    """The lines in which huge nodes are added up.

    lines : int64, shape (n_lines, n_slots, n_statistics)
        One for each huge node and feature, zeros between the rounds.
    n_huge : int
        Nodes that there are lines for.
    """

    lines: Array
    n_huge: int


def allocate_summed(
    table: CartTable, target: CartTarget, params: CartParams, most_huge: int
) -> Summed:
    """Allocate the lines of at most so many nodes, as far as there is memory for them."""
    n_first = min(params.max_features, table.n_bins.size)
    n_slots = int(np.max(table.n_bins * ~has_many_bins(table), initial=0)) + 2
    if params.random_splits:
        n_slots = max(n_slots, N_LINE_SLOTS + 1)
    width = target.n_statistics
    n_huge = min(most_huge, SUMMED_BYTES // (8 * n_slots * width * n_first))
    return Summed(zeros((n_huge * n_first, n_slots, width), np.int64), n_huge)


def add_up_huge(
    rows: tuple[Array, ...],
    bins: Bins,
    nodes: CartNodes,
    growing: Growing,
    line: int,
    steps: tuple[int, int],
    tile_rows: int,
    summed: Array,
) -> None:
    """Add up the huge nodes of a round; ``steps`` are how many features each looks at, and whether
    it draws them."""
    n_items = growing.tiles.shape[0] * steps[0]
    launch(
        sum_tiles, blocks_for(n_items), BLOCK,
        *rows, bins.features, bins.entry_begin, nodes.table, growing.state, line, *steps,
        growing.huge, growing.tiles, tile_rows, summed,
    )  # fmt: skip


def clear(growing: Growing, line: int, n_first: int, summed: Array) -> None:
    """Clear the lines of a round."""
    launch(
        clear_lines, blocks_for(-(-summed.size // BLOCK)), BLOCK,
        growing.state, line, n_first, growing.huge, summed,
    )  # fmt: skip
