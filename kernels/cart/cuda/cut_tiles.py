"""The cuts of huge nodes by features with many bins, which several blocks share (see ``cuts``).

The tiles of a node are parts of the feature's list, one behind the other. First each is added up;
then each is searched, from the sums of the tiles before it on, so that a cut has the sums, and the
score, that one block would find. Of cuts with equal scores the first one wins: the lowest in a
tile, and the lowest tile.

    list            r2 r0 r1 | r5 r3 r4 | r7 r6      missing values last
    sums of tiles      a          b         c
    searched from      0          a        a + b

Behind its tile's best cut are the sums on its left, from which the split is written.

A cut that is drawn at random needs the range of the codes, and then the sums of its two sides. Both
are found tile by tile in the node's records, and joined in a line of its own (see ``tiles``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.blocks import NOWHERE, best_to_front, inclusive_scan
from ...runtime.cuda.loops import rolled
from ...runtime.cuda.target import (
    blocks_for,
    cuda,
    device_function,
    empty,
    is_simulated,
    kernel,
    launch,
)
from ...scalars.rng import PURPOSE_FEATURES, subkey
from ..problem import SUMMED_BYTES, bytes_of_cuts
from .candidates import NO_SPLIT, feature_after, score_of_cut, sum_over_threads
from .cuts import (
    DOWN_TO,
    DOWN_TO_RIGHT,
    HIGHEST,
    LEFT,
    LOWEST,
    MISSING,
    MISSING_SEEN,
    NONE,
    UP_TO,
    UP_TO_LEFT,
    children_at,
    code_at,
    cut_at_random,
    first_missing,
    summed_range,
)
from .rows import ROW_MASK, add_row_alone, n_tiles_of, part_of
from .tables import (
    BEGIN,
    IS_FULL,
    LEAST_WEIGHT,
    LIST,
    MONOTONE,
    MOST_TILES,
    N_BINS,
    N_TILES,
    NODE_OF,
    TILE_MASK,
    TILE_SHIFT,
    Bins,
    CartNodes,
    Growing,
)

i32, i64, u64 = np.int32, np.int64, np.uint64

BLOCK = 8 if is_simulated() else 128
OWN = 2 if is_simulated() else 8
"""Neighbouring records of a thread."""
OWN_SLOTS = NONE + 1
"""The slots of a line from here on are the threads': the sums on the left of their best cuts."""


class CutTiles(NamedTuple):
    """The tiles of huge nodes by feature: those of a node and feature one behind the other.

    sums : int64, shape (n, n_statistics)
        Of the rows without missing values.
    scores : float64, shape (n,)
        The best one, NaN if the feature is constant in the node.
    marks : int64, shape (n,)
        The best cut (see ``cuts``).
    following : int64, shape (n,)
        The first code on its right, -1: none.
    lefts : int64, shape (n, n_statistics)
        On its left, missing rows included.
    """

    sums: Array
    scores: Array
    marks: Array
    following: Array
    lefts: Array


def within_memory(
    most_huge: int, most_tiles: int, n_first: int, n_statistics: int
) -> tuple[int, int]:
    """Return how many huge nodes, and tiles of them, there is memory for."""
    room = SUMMED_BYTES // (n_first * bytes_of_cuts(n_statistics))
    if most_tiles <= room:
        return most_huge, most_tiles
    # A node has at most ``MOST_TILES`` tiles: fewer nodes, so that each finds room for its own.
    return min(most_huge, room // MOST_TILES), room


def allocate_cut_tiles(n: int, n_statistics: int) -> CutTiles:
    """Allocate the results of so many tiles and features."""
    return CutTiles(
        sums=empty((n, n_statistics), np.int64),
        scores=empty(n, np.float64),
        marks=empty(n, np.int64),
        following=empty(n, np.int64),
        lefts=empty((n, n_statistics), np.int64),
    )


@device_function
def tile_of_item(item, n_first, nodes, huge, tiles, tile_rows):
    """Return the node of an item, the step of its feature, where the tile begins and ends, its
    number in the node, how many the node has, and where the first one's results are."""
    p, j = item // n_first, item % n_first
    i = tiles[p] & TILE_MASK
    x = huge[tiles[p] >> TILE_SHIFT, NODE_OF]
    begin, end = nodes[x].begin, nodes[x].end
    n = n_tiles_of(end - begin, tile_rows)
    return x, j, part_of(begin, end, i, tile_rows), i, n, (p - i) * n_first + j * n


@device_function
def end_of_values(codes, lists, place, begin, end, n_bins):
    """Return where the records with missing values begin in a part of a list."""
    if code_at(codes, lists, place, end - 1) < n_bins:
        return end
    return first_missing(codes, lists, place, begin, end, n_bins)


@kernel
def sum_cuts(
    codes, lists, classes, values, weight, features, nodes, state, line, n_first, shuffle, huge,
    tiles, tile_rows, own, sums,
):  # fmt: skip
    """Add up one tile of a huge node by one of its first features a block at a time. Every thread
    has a line of its own."""
    scan = cuda.shared.array(BLOCK, np.int64)
    t = cuda.threadIdx.x
    b = i64(cuda.blockIdx.x)
    n_items = state[line, N_TILES] * n_first if state[line, IS_FULL] == 0 else i64(0)
    item = b
    while item < n_items:
        x, j, part, i, _, first = tile_of_item(item, n_first, nodes, huge, tiles, tile_rows)
        item += cuda.gridDim.x
        stream = subkey(nodes[x].key, PURPOSE_FEATURES, u64(0))
        f = feature_after(stream, j, i64(features.shape[0]), shuffle)
        if features[f, LIST] == 0:
            continue
        # Values come first in the list: only they are added up here.
        place = (f, features[f, LIST])
        last = end_of_values(codes, lists, place, part[0], part[1], features[f, N_BINS])
        for s in rolled(range(sums.shape[1])):
            # A line a thread, so that no addition has to be atomic; the scan adds the lines up.
            own[b, t, s] = 0
        k = part[0] + t
        while k < last:
            add_row_alone(classes, values, weight, i64(lists[place[1], k]), b, t, own)
            k += BLOCK
        for s in rolled(range(sums.shape[1])):
            scan[t] = own[b, t, s]
            inclusive_scan(scan, t)
            if t == BLOCK - 1:
                sums[first + i, s] = scan[t]


@device_function
def begin_tile(sums_of_tiles, first, i, n, totals, x, lines, scan, t):
    """Fill the statistics of the rows before a tile, and of the missing rows."""
    sums, _, line = lines
    for s in rolled(range(sums_of_tiles.shape[1])):
        before, others = i64(0), i64(0)
        # Every block adds up the tiles before its own: these are few, and it saves a launch.
        for k in rolled(range(t, n, BLOCK)):
            if k < i:
                before += sums_of_tiles[first + k, s]
            else:
                others += sums_of_tiles[first + k, s]
        before = sum_over_threads(before, scan, t)
        others = sum_over_threads(others, scan, t)
        if t == 0:
            # What no tile has counted are the missing rows.
            sums[line, LEFT, s] = before
            sums[line, MISSING, s] = totals[x, s] - before - others
    cuda.syncthreads()


@device_function
def sums_before_own(of_rows, records, begin, end, lines, scan, t):
    """Write the statistics of the rows before each thread's records, and add all to those before
    them."""
    classes, values, weight = of_rows
    sums, up_to, line = lines
    for s in rolled(range(sums.shape[2])):
        # The thread's own records.
        up_to[line, t, s] = 0
    for i in rolled(range(begin, end)):
        add_row_alone(classes, values, weight, i64(records[i]), line, t, up_to)
    for s in rolled(range(sums.shape[2])):
        # All records before them: those of earlier pieces, and of the threads before.
        own = up_to[line, t, s]
        scan[t] = own
        inclusive_scan(scan, t)
        up_to[line, t, s] = sums[line, LEFT, s] + scan[t] - own
        cuda.syncthreads()  # all have read what the last thread adds to
        if t == BLOCK - 1:
            sums[line, LEFT, s] += scan[t]


@device_function
def keep_left(lines, missing, side, t):
    """Keep the statistics on the left of a thread's best cut."""
    sums, up_to, line = lines
    for s in rolled(range(sums.shape[2])):
        left = up_to[line, t, s]
        if missing and side == 1:
            left += sums[line, MISSING, s]
        sums[line, OWN_SLOTS + t, s] = left


@device_function
def walk_own(codes, of_rows, place, lists, part, x, limits, criterion, totals, lines, best, t):
    """Score the cuts behind a thread's records. Return the best one: its score, where it is, its
    number, and the code that follows."""
    classes, values, weight = of_rows
    begin, end, stop, n_bins, missing, entry_begin = part
    sums, up_to, line = lines
    data = (up_to, sums, totals, entry_begin)
    score, at, mark, following = best
    record = i64(0)
    code = i64(-1)
    # One record is read ahead: a cut needs the code that follows.
    if begin < end:
        record = i64(lists[place[1], begin])
        code = code_at(codes, lists, place, begin)
    for i in rolled(range(begin, end)):
        add_row_alone(classes, values, weight, record, line, t, up_to)
        upcoming = i64(-1)
        if i + 1 < stop:
            record = i64(lists[place[1], i + 1])
            upcoming = code_at(codes, lists, place, i + 1)
            if upcoming == n_bins:
                upcoming = i64(-1)
        # No cut between equal codes; behind the last value there is one if values are missing.
        n_sides = 2 if missing and upcoming >= 0 else 1
        if upcoming == code or upcoming < 0 and not missing:
            n_sides = 0
        for side in rolled(range(n_sides)):
            left, right = children_at(line, x, t, side, missing)
            own = score_of_cut(data, left, right, limits, criterion)
            if own > score:
                score, at, mark, following = own, i, code << 1 | side, upcoming
                # The sums move on with the walk, so that those of the best cut are set aside.
                keep_left(lines, missing, side, t)
        code = upcoming
    return score, at, mark, following


@kernel
def search_cuts(
    codes, lists, classes, values, weight, features, entry_begin, nodes, statistics, limits, state,
    line, criterion, least_rows, constrained, n_first, shuffle, huge, tiles, tile_rows, sums, up_to,
    sums_of_tiles, scores_of_tiles, marks_of_tiles, following_of_tiles, lefts_of_tiles,
):  # fmt: skip
    """Find the best cut of one tile of a huge node by one of its first features a block at a
    time."""
    scan = cuda.shared.array(BLOCK, np.int64)
    scores = cuda.shared.array(BLOCK, np.float64)
    marks = cuda.shared.array(BLOCK, np.int32)
    t = cuda.threadIdx.x
    b = i64(cuda.blockIdx.x)
    n_items = state[line, N_TILES] * n_first if state[line, IS_FULL] == 0 else i64(0)
    of_rows = (classes, values, weight)
    lines = (sums, up_to, b)
    item = b
    while item < n_items:
        x, j, part, i, n, first = tile_of_item(item, n_first, nodes, huge, tiles, tile_rows)
        item += cuda.gridDim.x
        node = nodes[x]
        stream = subkey(node.key, PURPOSE_FEATURES, u64(0))
        f = feature_after(stream, j, i64(features.shape[0]), shuffle)
        if features[f, LIST] == 0:
            continue
        place = (f, features[f, LIST])
        n_bins = features[f, N_BINS]
        # Is there anything to cut? The ends of the node's part of the list show it.
        highest = code_at(codes, lists, place, node.end - 1)
        if code_at(codes, lists, place, node.begin) == highest:
            if t == 0:
                scores_of_tiles[first + i] = np.nan
            continue
        missing = highest == n_bins
        own_limits = (
            least_rows, limits[node.tree, LEAST_WEIGHT], constrained, features[f, MONOTONE],
            node.low, node.high,
        )  # fmt: skip
        # The sums before the tile.
        begin_tile(sums_of_tiles, first, i, n, statistics, x, lines, scan, t)
        last = end_of_values(codes, lists, place, part[0], part[1], n_bins)
        best = (NO_SPLIT, i64(0), i64(0), i64(0))
        # Walk: a piece is a run of records for each thread; a thread keeps its best cut of all
        # pieces.
        piece = part[0]
        while piece < last:
            begin = min(piece + t * OWN, last)
            end = min(begin + OWN, last)
            sums_before_own(of_rows, lists[place[1]], begin, end, lines, scan, t)
            own = (begin, end, node.end, n_bins, missing, entry_begin)
            best = walk_own(
                codes, of_rows, place, lists, own, x, own_limits, criterion, statistics, lines,
                best, t,
            )  # fmt: skip
            piece += BLOCK * OWN
        # The best of the block. Equal scores go to the lower record, whichever thread found it.
        scores[t] = best[0]
        marks[t] = i32(best[1] - part[0]) if best[0] > NO_SPLIT else NOWHERE
        best_to_front(scores, marks, t)
        if marks[0] == NOWHERE:
            if t == 0:
                scores_of_tiles[first + i] = NO_SPLIT
        else:
            # The place of a record in its piece tells the thread it was given to.
            winner = marks[0] % (BLOCK * OWN) // OWN
            for s in rolled(range(t, sums.shape[2], BLOCK)):
                lefts_of_tiles[first + i, s] = sums[b, OWN_SLOTS + winner, s]
            if t == winner:
                scores_of_tiles[first + i] = best[0]
                marks_of_tiles[first + i] = best[2]
                following_of_tiles[first + i] = best[3]
        cuda.syncthreads()  # scratch and shared arrays are free for the next tile


@device_function
def note_ends(low, high, n_bins, summed, slots, found, t):
    """Note the lowest and the highest code that the threads have seen (none: ``n_bins``, -1)."""
    if t == 0:
        found[LOWEST] = n_bins
        found[HIGHEST] = -1
    cuda.syncthreads()
    # Behind the barrier the range is empty; behind the next one all threads have widened it.
    cuda.atomic.min(found, LOWEST, low)
    cuda.atomic.max(found, HIGHEST, high)
    cuda.syncthreads()
    lines, at = summed
    if t == 0:
        # Lines begin with zeros: both ends are noted as distances, whose maxima are right from
        # there.
        cuda.atomic.max(lines, (at, slots[0], 0), i64(n_bins - found[LOWEST]))
        cuda.atomic.max(lines, (at, slots[1], 0), i64(found[HIGHEST] + i32(1)))


@kernel
def find_ranges(
    codes, lists, classes, values, weight, features, nodes, state, line, n_first, shuffle, huge,
    tiles, tile_rows, summed,
):  # fmt: skip
    """Find the range of the codes of one tile of a huge node and feature a block at a time."""
    found = cuda.shared.array(2, np.int32)
    t = cuda.threadIdx.x
    n_items = state[line, N_TILES] * n_first if state[line, IS_FULL] == 0 else i64(0)
    item = i64(cuda.blockIdx.x)
    while item < n_items:
        x, j, part, _, _, _ = tile_of_item(item, n_first, nodes, huge, tiles, tile_rows)
        at = (tiles[item // n_first] >> TILE_SHIFT) * n_first + j
        item += cuda.gridDim.x
        stream = subkey(nodes[x].key, PURPOSE_FEATURES, u64(0))
        f = feature_after(stream, j, i64(features.shape[0]), shuffle)
        if features[f, LIST] == 0:
            continue
        n_bins = i32(features[f, N_BINS])
        low, high, missing = n_bins, i32(-1), i64(0)
        k = part[0] + t
        while k < part[1]:
            # A cut at random needs no order: the records themselves are read.
            code = i32(codes[f, i64(lists[0, k]) & ROW_MASK])
            k += BLOCK
            if code == n_bins:
                missing = i64(1)
            else:
                low, high = min(low, code), max(high, code)
        note_ends(low, high, n_bins, (summed, at), (DOWN_TO, UP_TO), found, t)
        if missing != 0:
            cuda.atomic.max(summed, (at, MISSING_SEEN, 0), missing)
        cuda.syncthreads()  # ``found`` is free for the next tile


@kernel
def sum_sides(
    codes, lists, classes, values, weight, features, lower, upper, nodes, state, line, n_first,
    shuffle, huge, tiles, tile_rows, of_missing, of_left, summed,
):  # fmt: skip
    """Add up the sides of the random cut of one tile of a huge node and feature a block at a time.
    Every thread has lines of its own."""
    found = cuda.shared.array(2, np.int32)
    scan = cuda.shared.array(BLOCK, np.int64)
    t = cuda.threadIdx.x
    b = i64(cuda.blockIdx.x)
    n_items = state[line, N_TILES] * n_first if state[line, IS_FULL] == 0 else i64(0)
    item = b
    while item < n_items:
        x, j, part, _, _, _ = tile_of_item(item, n_first, nodes, huge, tiles, tile_rows)
        at = (tiles[item // n_first] >> TILE_SHIFT) * n_first + j
        item += cuda.gridDim.x
        stream = subkey(nodes[x].key, PURPOSE_FEATURES, u64(0))
        f = feature_after(stream, j, i64(features.shape[0]), shuffle)
        n_bins = i32(features[f, N_BINS])
        # The cut follows from the range that the launch before has found, the same in every block.
        lowest, highest, _ = summed_range((summed, at), n_bins)
        if features[f, LIST] == 0 or highest < 0:
            continue
        _, last, _ = cut_at_random(
            nodes[x].key, f, lowest, highest, features[f, BEGIN], lower, upper
        )
        for s in rolled(range(summed.shape[2])):
            # Lines of the thread's own, without atomic additions.
            of_left[b, t, s] = 0
            of_missing[b, t, s] = 0
        low, high = n_bins, i32(-1)
        k = part[0] + t
        while k < part[1]:
            record = i64(lists[0, k])
            code = i32(codes[f, record & ROW_MASK])
            k += BLOCK
            if code == n_bins:
                add_row_alone(classes, values, weight, record, b, t, of_missing)
            elif code <= last:
                high = max(high, code)
                add_row_alone(classes, values, weight, record, b, t, of_left)
            else:
                low = min(low, code)
        note_ends(low, high, n_bins, (summed, at), (DOWN_TO_RIGHT, UP_TO_LEFT), found, t)
        for s in rolled(range(summed.shape[2])):
            # One atomic addition a statistic and block.
            left = sum_over_threads(of_left[b, t, s], scan, t)
            missing = sum_over_threads(of_missing[b, t, s], scan, t)
            if t == 0:
                cuda.atomic.add(summed, (at, LEFT, s), left)
                cuda.atomic.add(summed, (at, MISSING, s), missing)
        cuda.syncthreads()


def add_up_random_cuts(
    rows: tuple[Array, ...],
    bins: Bins,
    nodes: CartNodes,
    growing: Growing,
    line: int,
    steps: tuple[int, int],
    tile_rows: int,
    scratch: tuple[Array, Array],
    summed: Array,
) -> None:
    """Draw the cuts of the huge nodes of a round by features with many bins, and add up their
    sides."""
    blocks = blocks_for(min(scratch[0].shape[0], growing.tiles.shape[0] * steps[0]), 16)
    launch(
        find_ranges, blocks, BLOCK,
        *rows, bins.features, nodes.table,
        growing.state, line, *steps, growing.huge, growing.tiles, tile_rows, summed,
    )  # fmt: skip
    launch(
        sum_sides, blocks, BLOCK,
        *rows, bins.features, bins.lower, bins.upper, nodes.table,
        growing.state, line, *steps, growing.huge, growing.tiles, tile_rows, *scratch, summed,
    )  # fmt: skip


@device_function
def copy_left(lefts_of_tiles, tile, lines, n_threads, t):
    """Copy the statistics on the left of a tile's best cut to a line."""
    sums, _, line = lines
    for s in rolled(range(t, sums.shape[2], n_threads)):
        sums[line, LEFT, s] = lefts_of_tiles[tile, s]
        sums[line, NONE, s] = 0
    cuda.syncthreads()


def search_cut_tiles(
    rows: tuple[Array, ...],
    bins: Bins,
    nodes: CartNodes,
    growing: Growing,
    line: int,
    settings: tuple[int, ...],
    tile_rows: int,
    scratch: tuple[Array, Array],
    found: CutTiles,
) -> None:
    """Search the cuts of the huge nodes of a round, by features with lists; ``settings`` are those
    of the search."""
    criterion, least_rows, constrained, _, *steps = settings
    sums, up_to = scratch
    blocks = blocks_for(min(sums.shape[0], growing.tiles.shape[0] * steps[0]), 16)
    # Two launches, as a tile can only be searched when all tiles before it are added up.
    launch(
        sum_cuts, blocks, BLOCK,
        *rows, bins.features, nodes.table,
        growing.state, line, *steps, growing.huge, growing.tiles, tile_rows, up_to, found.sums,
    )  # fmt: skip
    launch(
        search_cuts, blocks, BLOCK,
        *rows, bins.features, bins.entry_begin, nodes.table, nodes.statistics, growing.limits,
        growing.state, line, criterion, least_rows, constrained,
        *steps, growing.huge, growing.tiles, tile_rows, sums, up_to, *found,
    )  # fmt: skip
