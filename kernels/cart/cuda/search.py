"""The best splits of the young nodes.

A block looks at the features of a small node one after another. A larger node has a block for each
of the features that are looked at in any case, and a huge one is first added up by many blocks
(``tiles``); then it is settled which feature is the best. If those were all constant, a block goes
on with further ones. The search only notes the best candidate; what follows from it is written by
kernels of their own (``writing``): together they would need more registers than a thread has.

As in the reference, every candidate cuts an order of the bins with rows in two: the ascending
one, an order of the categories, or the two sides of a random split, one behind the other. There
may be any number of statistics and running sums: integers in global memory, a line a block.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.blocks import NOWHERE
from ...runtime.cuda.target import (
    blocks_for,
    cuda,
    device_function,
    empty,
    is_simulated,
    kernel,
    launch,
)
from ...scalars.rng import PURPOSE_FEATURES, PURPOSE_THRESHOLD, subkey
from ..problem import SCRATCH_BYTES, CartParams, CartTable, CartTarget, has_many_bins
from .candidates import (
    EVERY_CUT,
    MOST_BINS,
    NO_SPLIT,
    add_up_places,
    arrange,
    best_item,
    best_of_order,
    feature_after,
    find_slots,
    is_classification,
    only_cut,
    orders_of,
    rank_by_statistic,
)
from .cut_tiles import (
    OWN_SLOTS,
    CutTiles,
    add_up_random_cuts,
    allocate_cut_tiles,
    search_cut_tiles,
    within_memory,
)
from .cuts import begin_cuts, next_cuts
from .rows import ROW_MASK, differ, n_tiles_of
from .tables import (
    BEGIN,
    CATEGORICAL,
    FIRST,
    FIRST_TILE,
    FOUND,
    HUGE,
    IS_FULL,
    LEAST_WEIGHT,
    LIST,
    MONOTONE,
    MOST_SMALL,
    N_LARGE,
    N_YOUNG,
    NODE_OF,
    SOUGHT,
    SUMMED,
    Bins,
    CartNodes,
    Growing,
)
from .tiles import Summed, add_up_huge, allocate_summed

i32, i64, u64 = np.int32, np.int64, np.uint64

SMALL_BLOCK = 4 if is_simulated() else 32
LARGE_BLOCK = 8 if is_simulated() else 128
ITEMS_AT_ONCE = 3
"""Large nodes that a multiprocessor looks at side by side: the block waits for memory most of the
time, and a few registers less than the compiler would take let a third one run."""
ORDER_SHIFT, MARK_MASK = i64(32), i64(0xFFFFFFFF)
"""A candidate is its order above its number, or, where tiles were searched, its tile."""


@device_function
def is_mixed(values, records, begin, end, flag, n_threads, t):
    """Return whether some row differs from the node's first one."""
    if t == 0:
        flag[0] = 0
    cuda.syncthreads()
    # Behind the barrier the flag is clear for all.
    other = i64(records[begin]) & ROW_MASK
    i = begin + t
    while i < end:
        if differ(values, i64(records[i]) & ROW_MASK, other):
            cuda.atomic.max(flag, 0, 1)
            break
        i += n_threads
    cuda.syncthreads()
    # All rows have been compared.
    mixed = flag[0] != 0
    cuda.syncthreads()
    # All have read the flag before the next call clears it.
    return mixed


@device_function
def arrange_order(bins, settings, lines, shared, key, f, s, places):
    """Arrange the bins of a feature in order s and add them up. Return the number of a random
    split's one candidate, else ``EVERY_CUT``, and where it cuts the values."""
    features, lower, upper, entry_begin = bins
    sums, up_to, line = lines
    place_of, ascending, order, keys, scan = shared[:5]
    n, missing = places
    random_splits = settings[3]
    categorical = features[f, CATEGORICAL]
    t = cuda.threadIdx.x
    only = i32(EVERY_CUT)
    cut = np.nan
    # The keys that order the bins: sides of a random split, ratios of categories, or none.
    if random_splits != 0:
        stream = subkey(key, PURPOSE_THRESHOLD, u64(f))
        where = (categorical, features[f, BEGIN], lower, upper)
        only, cut = only_cut(stream, where, ascending, n, missing, keys, scan, t)
    elif categorical != 0:
        rank_by_statistic(sums, line, s, entry_begin, n, keys, scan, t)
    # From here on all orders are alike: places, and sums up to each.
    arrange(categorical, ascending, keys, n, order, place_of, scan, t)
    add_up_places(sums, line, order, n, up_to, scan, t)
    return only, cut


@device_function
def note_split(node, f, score, mark):
    """Note the best split of a node; ``writing`` writes what follows from it."""
    node.feature = FOUND - f
    node.gain = score
    node.last_left = mark & MARK_MASK
    node.missing_left = mark >> ORDER_SHIFT


class Searchers(NamedTuple):
    """Device functions: the search of one feature, and of one feature after another."""

    feature: Any
    node: Any


@functools.cache
def searchers(with_cuts: bool) -> Searchers:
    """Return the search on tables where some features may have many bins, or none."""

    @device_function
    def search_feature(table, of_rows, bins, found, settings, lines, summed, shared, x, f):
        """Search the splits of node x by feature f, in one order of its bins after another, or
        along its list. Return the best score, its candidate, and whether there is any."""
        # ``with_cuts`` is known when the kernel is compiled: tables of bytes do without that code.
        features, entry_begin = bins[0], bins[3]
        nodes, statistics, limits = found
        criterion, least_rows, constrained, random_splits = settings
        sums, up_to, line = lines
        scores, marks = shared[5], shared[6]
        t = cuda.threadIdx.x
        node = nodes[x]
        begin, end = node.begin, node.end
        least_weight, direction = limits[node.tree, LEAST_WEIGHT], features[f, MONOTONE]
        own_limits = (least_rows, least_weight, constrained, direction, node.low, node.high)
        many = with_cuts and features[f, LIST] != 0
        at, last = i64(0), i64(0)
        # Begin: how many steps there are, and the sums that all of them need.
        if many:
            of_node = (begin, end, node.key)
            n_steps, missing, at, last = begin_cuts(
                table, of_rows, bins, of_node, f, random_splits, lines, summed, shared
            )
            n = i32(0)
        else:
            n, missing = find_slots(table, of_rows, bins, f, begin, end, lines, summed, shared)
            at, n_steps = orders_of(features[f, CATEGORICAL], random_splits, entry_begin)
            # Constant: one bin and nothing missing.
            if n == 0 or n == 1 and missing < 0:
                n_steps = i64(0)
        # Score: an order of the bins, or the next records of a list, a step.
        best = NO_SPLIT
        best_mark = i64(NOWHERE)
        data = (up_to, sums, statistics, entry_begin)
        for step in range(n_steps):
            if many:
                n, only = next_cuts(
                    table, of_rows, bins, f, random_splits, at, last, step, lines, shared
                )
            else:
                own_places = (n, missing)
                only, _ = arrange_order(
                    bins, settings, lines, shared, node.key, f, at + step, own_places
                )
            places = (line, x, n, missing)
            best_of_order(data, places, only, own_limits, criterion, shared[1], scores, marks, t)
            # Strictly larger: of equal candidates the first step's stays.
            if scores[0] > best:
                best = scores[0]
                number = i64(marks[0])
                best_mark = (at + step) << ORDER_SHIFT | number
                if many:
                    # Places of a list mean nothing outside of their step: the mark takes the code
                    # instead.
                    best_mark = i64(shared[1][number >> 1]) << 1 | number & 1
            cuda.syncthreads()  # the winner has been read by all before the next step writes there
        return best, best_mark, n_steps > 0

    @device_function
    def search_node(
        table, of_rows, bins, found, settings, lines, summed, shared, upcoming, x, j, n_first,
        shuffle,
    ):  # fmt: skip
        """Search the features of node x from step j on: up to step ``n_first``, and further while
        all of them are constant."""
        # Only small nodes, and large ones whose first features were all constant, come here.
        n_features = i64(bins[0].shape[0])
        n_threads = upcoming.shape[0]
        t = cuda.threadIdx.x
        node = found[0][x]
        stream = subkey(node.key, PURPOSE_FEATURES, u64(0))
        best = NO_SPLIT
        varied = False
        drawn = j
        while j < n_features and (j < n_first or not varied):
            if j == drawn:
                cuda.syncthreads()
                # To find the feature of step j, a thread follows j swaps back: the threads of the
                # block do so for as many steps at once. The barrier before: the last ones have been
                # used.
                if drawn + t < n_features:
                    upcoming[t] = feature_after(stream, drawn + t, n_features, shuffle)
                cuda.syncthreads()
                drawn += n_threads
            # ``drawn`` is where the features that are ready end.
            f = upcoming[j + n_threads - drawn]
            score, mark, varies = search_feature(
                table, of_rows, bins, found, settings, lines, summed, shared, x, f
            )
            if score > best:
                best = score
                if t == 0:
                    note_split(node, f, score, mark)
            varied = varied or varies
            j += 1

    return Searchers(search_feature, search_node)


@functools.cache
def items_kernel(with_cuts: bool) -> Any:
    """Return the kernel for the first features of large nodes."""
    search_feature = searchers(with_cuts).feature

    @kernel(bounds=(LARGE_BLOCK, ITEMS_AT_ONCE))
    def search_items(
        codes, lists, classes, values, weight, features, lower, upper, entry_begin,
        nodes, statistics, limits, state, line, criterion, least_rows,
        constrained, random_splits, n_first, shuffle, sums, up_to, lines_of_huge, large,
        scores_of_items, marks_of_items, huge, tile_rows, scores_of_tiles, marks_of_tiles,
    ):  # fmt: skip
        """One large node with one of its first features a block at a time."""
        place_of = cuda.shared.array(MOST_BINS, np.int32)
        ascending = cuda.shared.array(MOST_BINS, np.int32)
        order = cuda.shared.array(MOST_BINS, np.int32)
        keys = cuda.shared.array(MOST_BINS, np.float64)
        scan = cuda.shared.array(LARGE_BLOCK, np.int64)
        scores = cuda.shared.array(LARGE_BLOCK, np.float64)
        marks = cuda.shared.array(LARGE_BLOCK, np.int32)
        t = cuda.threadIdx.x
        b = i64(cuda.blockIdx.x)
        n_workers = i64(sums.shape[0])
        # Nothing to do in a round behind one that filled the table of nodes, nor for blocks that
        # have no scratch.
        n_large = state[line, N_LARGE] if state[line, IS_FULL] == 0 and b < n_workers else i64(0)
        table = (codes, lists[0], lists)
        of_rows = (classes, values, weight)
        bins = (features, lower, upper, entry_begin)
        found = (nodes, statistics, limits)
        settings = (criterion, least_rows, constrained, random_splits)
        shared = (place_of, ascending, order, keys, scan, scores, marks)
        item = b
        while item < n_large * n_first:
            x = large[item // n_first, NODE_OF]
            number = large[item // n_first, HUGE]
            # A huge node has been added up already: the line of its sums, -1 for others.
            at = number * n_first + item % n_first if number >= 0 else i64(-1)
            stream = subkey(nodes[x].key, PURPOSE_FEATURES, u64(0))
            f = feature_after(stream, item % n_first, i64(features.shape[0]), shuffle)
            if with_cuts and at >= 0 and features[f, LIST] != 0 and random_splits == 0:
                # Its tiles have been searched already: the best of these, the first one if some
                # tie.
                n_tiles = n_tiles_of(nodes[x].end - nodes[x].begin, tile_rows)
                first = huge[number, FIRST_TILE] * n_first + item % n_first * n_tiles
                i, varies = best_item(scores_of_tiles, first, n_tiles, scan, scores, marks, t)
                best, mark = NO_SPLIT, i64(NOWHERE)
                if i >= 0:
                    best = scores_of_tiles[first + i]
                    mark = (first + i) << ORDER_SHIFT | marks_of_tiles[first + i]
            else:
                # Scratch is a line a block, whichever node it looks at.
                lines = (sums, up_to, b)
                best, mark, varies = search_feature(
                    table, of_rows, bins, found, settings, lines, (lines_of_huge, at), shared, x, f
                )
            if t == 0:
                # NaN: constant here, so that further features may have to be tried; -inf: no
                # candidate is allowed.
                scores_of_items[item] = best if varies else np.nan
                marks_of_items[item] = mark
            cuda.syncthreads()  # the shared arrays are free for the next item
            item += n_workers

    return search_items


@kernel
def settle_items(
    lists, values, features, entry_begin, nodes, state, line, n_first, shuffle, lines_of_huge,
    large, scores_of_items, marks_of_items,
):  # fmt: skip
    """Note the best split of a large node a block at a time; where the first features were all
    constant, the node is searched on."""
    scan = cuda.shared.array(LARGE_BLOCK, np.int64)
    scores = cuda.shared.array(LARGE_BLOCK, np.float64)
    marks = cuda.shared.array(LARGE_BLOCK, np.int32)
    flag = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    n_large = state[line, N_LARGE] if state[line, IS_FULL] == 0 else i64(0)
    records = lists[0]
    k = i64(cuda.blockIdx.x)
    while k < n_large:
        node = nodes[large[k, NODE_OF]]
        first = k * n_first
        # The first of the best features in the order in which they are tried.
        best, varied = best_item(scores_of_items, first, n_first, scan, scores, marks, t)
        at = large[k, HUGE] * n_first
        if t == 0:
            large[k, SUMMED] = at + best if at >= 0 and best >= 0 else i64(-1)
        k += cuda.gridDim.x
        if at >= 0:
            # Found out while its tiles were added up.
            mixed = lines_of_huge[at, lines_of_huge.shape[1] - 1, 0] != 0
        else:
            # Classes were looked at when the node was made; equal targets show here.
            mixed = is_classification(entry_begin) or is_mixed(
                values, records, node.begin, node.end, flag, LARGE_BLOCK, t
            )
        if not mixed and not is_classification(entry_begin):
            continue
        if t == 0 and best >= 0:
            # The feature is drawn once more: that is cheaper than keeping it for every item.
            stream = subkey(node.key, PURPOSE_FEATURES, u64(0))
            f = feature_after(stream, i64(best), i64(features.shape[0]), shuffle)
            note_split(node, f, scores_of_items[first + best], marks_of_items[first + best])
        elif t == 0 and not varied:
            # Constant so far: ``search_nodes`` goes on behind the first features.
            node.feature = SOUGHT


@functools.cache
def nodes_kernel(block: int, capacity: int, is_small: bool, with_cuts: bool) -> Any:
    """Return the kernel for the features of small nodes, which have fewer bins with rows than
    ``capacity``, or for the remaining features of large ones."""
    search_node = searchers(with_cuts).node

    @kernel
    def search_nodes(
        codes, lists, classes, values, weight, features, lower, upper, entry_begin,
        nodes, statistics, limits, state, line, criterion, least_rows,
        constrained, random_splits, n_first, shuffle, sums, up_to, lines_of_huge, large,
    ):  # fmt: skip
        """One young node whose split is to be found a block at a time."""
        # A small node has fewer bins with rows than ``capacity``, but their codes may be any.
        place_of = cuda.shared.array(MOST_BINS, np.int32)
        ascending = cuda.shared.array(capacity, np.int32)
        order = cuda.shared.array(capacity, np.int32)
        keys = cuda.shared.array(capacity, np.float64)
        scan = cuda.shared.array(block, np.int64)
        scores = cuda.shared.array(block, np.float64)
        marks = cuda.shared.array(block, np.int32)
        upcoming = cuda.shared.array(block, np.int64)
        flag = cuda.shared.array(1, np.int32)
        t = cuda.threadIdx.x
        b = i64(cuda.blockIdx.x)
        n_workers = i64(sums.shape[0])
        n = state[line, N_YOUNG] if is_small else state[line, N_LARGE]
        if state[line, IS_FULL] != 0 or b >= n_workers:
            n = i64(0)
        table = (codes, lists[0], lists)
        of_rows = (classes, values, weight)
        bins = (features, lower, upper, entry_begin)
        found = (nodes, statistics, limits)
        settings = (criterion, least_rows, constrained, random_splits)
        shared = (place_of, ascending, order, keys, scan, scores, marks)
        k = b
        while k < n:
            x = state[line, FIRST] + k if is_small else large[k, NODE_OF]
            k += n_workers
            if nodes[x].feature != SOUGHT:
                continue
            # A large node that comes here has been found to be mixed.
            wanted = not is_small or is_classification(entry_begin) or is_mixed(
                values, table[1], nodes[x].begin, nodes[x].end, flag, block, t
            )  # fmt: skip
            cuda.syncthreads()
            # Behind the barrier all threads have read the mark, and it may be taken away.
            if t == 0:
                nodes[x].feature = -1
            cuda.syncthreads()
            # Behind this barrier the node has no split, until one is noted.
            if wanted:
                lines = (sums, up_to, b)
                start = i64(0) if is_small else i64(n_first)
                search_node(
                    table, of_rows, bins, found, settings, lines, (lines_of_huge, i64(-1)), shared,
                    upcoming, x, start, n_first, shuffle,
                )  # fmt: skip

    return search_nodes


SIZES = (LARGE_BLOCK, MOST_BINS, False), (SMALL_BLOCK, MOST_SMALL + 1, True)
"""Settings of ``nodes_kernel`` and ``writing.writing_kernel``: large nodes come first."""


class Search(NamedTuple):
    """The arguments that the search has in every round.

    rows : tuple of arrays
        Codes, lists (see ``cuts``), and the target.
    settings : tuple of int
        As the kernels take them behind ``line``.
    small, large : tuple of int64
        Scratch of the blocks for small and for large nodes.
    summed : Summed
        See ``tiles``.
    cut_tiles : CutTiles
    with_cuts : bool
        Whether features may have many bins.
    """

    rows: tuple[Array, ...]
    settings: tuple[int, ...]
    small: tuple[Array, Array]
    large: tuple[Array, Array]
    summed: Summed
    cut_tiles: CutTiles
    with_cuts: bool


def allocate_search(
    table: CartTable,
    target: CartTarget,
    lists: Array,
    params: CartParams,
    most_huge: int,
    most_tiles: int,
) -> Search:
    """Allocate the scratch of the search, for at most so many huge nodes, and tiles of them, as far
    as there is memory for these."""
    # So many features are looked at in any case, side by side in large nodes.
    n_first, width = min(params.max_features, table.n_bins.size), target.n_statistics
    n_tiles = most_tiles if lists.shape[0] > 1 else 0
    if n_tiles:
        most_huge, n_tiles = within_memory(most_huge, n_tiles, n_first, width)
    numbers = (params.criterion, params.min_samples_leaf, int(table.monotone.any()))
    most = lists.shape[1]
    n_slots = int(np.max(table.n_bins * ~has_many_bins(table), initial=0)) + 1
    small = max(SMALL_BLOCK, min(n_slots, MOST_SMALL + 1))
    return Search(
        rows=(table.codes, lists, target.classes, target.values, target.weight),
        settings=(*numbers, params.random_splits, n_first, params.shuffle),
        small=_scratch(most, 32, small, width),
        large=_scratch(most, 16, max(LARGE_BLOCK + OWN_SLOTS, n_slots + 1), width),
        summed=allocate_summed(table, target, params, most_huge),
        cut_tiles=allocate_cut_tiles(n_tiles * n_first, width),
        with_cuts=table.codes.dtype != np.uint8,
    )  # fmt: skip


def _scratch(most: int, per_multiprocessor: int, n_slots: int, width: int) -> tuple[Array, Array]:
    """Return lines for as many blocks as are launched, or as there is memory for."""
    # Two arrays of int64 that are as long as a line has slots and statistics. Fewer lines mean
    # fewer blocks at work, and the same result.
    most_lines = max(1, SCRATCH_BYTES // (2 * 8 * n_slots * width))
    shape = (min(blocks_for(most, per_multiprocessor), most_lines), n_slots, width)
    return empty(shape, np.int64), empty(shape, np.int64)


def find_splits(
    search: Search, bins: Bins, nodes: CartNodes, growing: Growing, line: int, tile_rows: int
) -> None:
    """Find the best splits of the young nodes."""
    rows, large, settings = search.rows, search.large, search.settings
    steps, summed, tiles = settings[4:], search.summed.lines, search.cut_tiles
    if search.summed.n_huge:
        # Huge nodes, whose statistics are added up by many blocks.
        add_up_huge(rows, bins, nodes, growing, line, steps, tile_rows, summed)
        if search.with_cuts and settings[3]:
            add_up_random_cuts(rows, bins, nodes, growing, line, steps, tile_rows, large, summed)
    if tiles.scores.shape[0]:
        # Their features with many bins, tile by tile.
        search_cut_tiles(rows, bins, nodes, growing, line, settings, tile_rows, large, tiles)
    # Large nodes, a feature a block; then which of the features is the best.
    blocks = blocks_for(large[0].shape[0], 16)
    launch(
        items_kernel(search.with_cuts), blocks, LARGE_BLOCK,
        *rows, *bins, nodes.table, nodes.statistics, growing.limits, growing.state, line,
        *settings, *large, summed, growing.large, growing.found, growing.marks, growing.huge,
        tile_rows, tiles.scores, tiles.marks,
    )  # fmt: skip
    launch(
        settle_items, blocks, LARGE_BLOCK,
        rows[1], rows[3], bins.features, bins.entry_begin, nodes.table, growing.state, line,
        *steps, summed, growing.large, growing.found, growing.marks,
    )  # fmt: skip
    # The rest of large nodes, and small ones, a node a block.
    for (lines, most), size in zip(by_size(search), SIZES, strict=True):
        launch(
            nodes_kernel(*size, search.with_cuts), blocks_for(lines[0].shape[0], most), size[0],
            *rows, *bins, nodes.table, nodes.statistics, growing.limits, growing.state, line,
            *settings, *lines, summed, growing.large,
        )  # fmt: skip


def by_size(search: Search) -> tuple[tuple[tuple[Array, Array], int], ...]:
    """Return the scratch for large and for small nodes, and how many blocks of each a
    multiprocessor takes."""
    return (search.large, 16), (search.small, 32)
