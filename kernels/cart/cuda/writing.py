"""The splits of nodes, written from what the search has noted of them: the bins of the feature are
arranged once more, and cut at the candidate with the number that is noted."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...runtime.cuda.loops import rolled
from ...runtime.cuda.target import blocks_for, cuda, device_function, kernel, launch
from ...scalars.routing import midpoint
from .candidates import (
    MASK,
    MOST_BINS,
    NO_PLACE,
    children_of,
    find_slots,
    left_is_larger,
    packed_weight,
    score_of,
    statistic,
    value_of,
)
from .cut_tiles import copy_left
from .cuts import (
    LEFT,
    MISSING,
    NONE,
    add_up_sides,
    children_at,
    code_at,
    cut_at_random,
    find_range,
    summed_range,
    summed_sides,
)
from .search import SIZES, Search, arrange_order, by_size
from .tables import (
    BEGIN,
    CATEGORICAL,
    FIRST,
    FOUND,
    IS_FULL,
    LEAST_GAIN,
    LIST,
    MOST_SMALL,
    N_BINS,
    N_LARGE,
    N_YOUNG,
    NODE_OF,
    SUMMED,
    Bins,
    CartNodes,
    Growing,
)

i32, i64, u32, f64 = np.int32, np.int64, np.uint32, np.float64


@device_function
def threshold_of(where, last_left, first_right, random_splits, cut):
    """Return the threshold between two bins, infinity where all values are on the left."""
    categorical, begin, lower, upper = where
    if categorical != 0:
        return 0.0
    if first_right < 0:
        return np.inf
    low = upper[begin + last_left]
    high = lower[begin + first_right]
    # A random cut within a bin, or beyond empty ones, is replaced by the midpoint of the gap.
    if random_splits != 0 and low <= cut and cut < high:
        return cut
    return midpoint(low, high)


@device_function
def write_categories(place_of, place, others_left, n_bins, x, categories, n_threads, t):
    """Write the categories up to a place, and perhaps those without rows, one word a thread."""
    for w in rolled(range(t, categories.shape[1], n_threads)):
        # A word a thread, so that no two threads set bits of the same one.
        word = u32(0)
        for c in rolled(range(32 * w, min(32 * w + 32, n_bins))):
            is_left = place_of[c] <= place
            if place_of[c] == NO_PLACE:
                # Without rows in the node: to the child with more rows, like missing values.
                is_left = others_left
            if is_left:
                word |= u32(1) << u32(c & 31)
        categories[x, w] = word


@device_function
def write_split(data, family, ends, side, score, where, cut, settings, node, of_left, f, t):
    """Write the split of a node into its children, except for its categories.

    ``family`` are the left child, the right one, and all rows as one child; ``ends`` the last bin
    on the left, the first one on the right, and the slot of the missing rows (-1: none).
    """
    left, right, whole = family
    last_left, first_right, missing = ends
    criterion, random_splits, n_threads = settings
    x = left[1]
    # The statistics of the left child a thread each; the node itself is written by one thread.
    for s in rolled(range(t, of_left.shape[1], n_threads)):
        of_left[x, s] = statistic(data, left, s)
    if t == 0:
        weight = f64(packed_weight(data, whole) & MASK)
        missing_left = side
        # No row of the node is missing: those of later tables go to the larger child.
        if missing < 0 and left_is_larger(data, left, right):
            missing_left = i32(1)
        node.feature = f
        node.last_left = last_left
        node.missing_left = missing_left
        node.threshold = threshold_of(where, last_left, first_right, random_splits, cut)
        node.value_left = value_of(data, left)
        node.value_right = value_of(data, right)
        node.gain = score - score_of(data, whole, weight, criterion)


@functools.cache
def writing_kernel(block: int, capacity: int, is_small: bool) -> Any:
    """Return the kernel for nodes of one size: with fewer bins that hold rows than ``capacity``."""

    @kernel
    def write_splits(
        codes, lists, classes, values, weight, features, lower, upper, entry_begin,
        nodes, statistics, of_left, categories, limits, state, line, criterion, random_splits,
        sums, up_to, lines_of_huge, large,
    ):  # fmt: skip
        """Write the split that is noted at a node, one a block at a time, if its feature has few
        bins."""
        records = lists[0]
        place_of = cuda.shared.array(MOST_BINS, np.int32)
        ascending = cuda.shared.array(capacity, np.int32)
        order = cuda.shared.array(capacity, np.int32)
        keys = cuda.shared.array(capacity, np.float64)
        scan = cuda.shared.array(block, np.int64)
        t = cuda.threadIdx.x
        b = i64(cuda.blockIdx.x)
        n_workers = i64(sums.shape[0])
        n = state[line, N_YOUNG] if is_small else state[line, N_LARGE]
        if state[line, IS_FULL] != 0 or b >= n_workers:
            n = i64(0)
        bins = (features, lower, upper, entry_begin)
        k = b
        while k < n:
            x = state[line, FIRST] + k if is_small else large[k, NODE_OF]
            k += n_workers
            node = nodes[x]
            begin, end = node.begin, node.end
            f = FOUND - node.feature
            if f < 0 or features[f, LIST] != 0 or is_small and end - begin > MOST_SMALL:
                continue
            # The note: candidate, order of the bins, score.
            number, s = i32(node.last_left), node.missing_left
            score = node.gain
            cuda.syncthreads()
            # Behind the barrier all threads have read the note, which the split is written over.
            at = i64(-1) if is_small else large[k - n_workers, SUMMED]
            of_rows = (classes, values, weight)
            shared = (place_of, ascending, order, keys, scan)
            lines = (sums, up_to, b)
            # The same steps as in the search, which has kept nothing but the number.
            n_places, missing = find_slots(
                (codes, records, lists), of_rows, bins, f, begin, end, lines, (lines_of_huge, at),
                shared,
            )  # fmt: skip
            settings = (criterion, i64(0), i64(0), random_splits)
            places = (n_places, missing)
            _, cut = arrange_order(bins, settings, lines, shared, node.key, f, s, places)
            data = (up_to, sums, statistics, entry_begin)
            where = (features[f, CATEGORICAL], features[f, BEGIN], lower, upper)
            # The children at the noted cut, and all rows as one child, for the gain.
            left, right = children_of(b, x, number, missing)
            family = (left, right, (b, x, n_places - 1, missing, False))
            p = number >> 1
            after = ascending[order[p + 1]] if p + 1 < n_places else i32(NO_PLACE)
            ends = (ascending[order[p]], after, missing)
            writing = (criterion, random_splits, block)
            write_split(
                data, family, ends, number & 1, score, where, cut, writing, node, of_left, f, t
            )
            if features[f, CATEGORICAL] != 0:
                # The categories: behind ``write_split``, as it does not need them.
                others = left_is_larger(data, left, right)
                n_bins = i32(features[f, N_BINS])
                write_categories(place_of, p, others, n_bins, x, categories, block, t)
            # The thread that wrote the gain: no barrier is needed.
            if t == 0 and node.gain < limits[node.tree, LEAST_GAIN]:
                node.feature = -1
            cuda.syncthreads()  # the shared arrays and the line are free for the next node

    return write_splits


@functools.cache
def cut_writing_kernel(block: int, capacity: int, is_small: bool) -> Any:
    """Return the kernel for nodes of one size that are split by a feature with many bins."""

    @kernel
    def write_cuts(
        codes, lists, classes, values, weight, features, lower, upper, entry_begin,
        nodes, statistics, of_left, categories, limits, state, line, criterion, random_splits,
        sums, up_to, lines_of_huge, large, following_of_tiles, lefts_of_tiles,
    ):  # fmt: skip
        """Write the cut that is noted at a node, one a block at a time."""
        records = lists[0]
        found = cuda.shared.array(3, np.int32)
        t = cuda.threadIdx.x
        b = i64(cuda.blockIdx.x)
        n_workers = i64(sums.shape[0])
        n = state[line, N_YOUNG] if is_small else state[line, N_LARGE]
        if state[line, IS_FULL] != 0 or b >= n_workers:
            n = i64(0)
        k = b
        while k < n:
            x = state[line, FIRST] + k if is_small else large[k, NODE_OF]
            k += n_workers
            node = nodes[x]
            begin, end = node.begin, node.end
            f = FOUND - node.feature
            if f < 0 or features[f, LIST] == 0 or is_small and end - begin > MOST_SMALL:
                continue
            # The note: code and side, the tile that it was found in, score.
            number, tile = i32(node.last_left), node.missing_left
            score = node.gain
            cuda.syncthreads()
            # Behind the barrier all threads have read the note, which the split is written over.
            n_bins = i32(features[f, N_BINS])
            first = features[f, BEGIN]
            cut = np.nan
            lines = (sums, up_to, b)
            at = i64(-1) if is_small else large[k - n_workers, SUMMED]
            summed = (lines_of_huge, at)
            # A random cut is drawn again, from the range of the node's codes.
            if random_splits != 0:
                if at >= 0:
                    low, high, _ = summed_range(summed, n_bins)
                else:
                    low, high, _ = find_range(
                        codes, records, begin, end, f, n_bins, found, block, t
                    )
                cut, _, _ = cut_at_random(node.key, f, low, high, first, lower, upper)
            if at >= 0 and random_splits != 0:
                # The sums on the left: added up with the sides of huge nodes, kept by the tile that
                # won, or added up here.
                last_left, first_right, has_missing = summed_sides(summed, n_bins, lines, block, t)
            elif at >= 0:
                last_left, first_right = number >> 1, i32(following_of_tiles[tile])
                place = (f, features[f, LIST])
                has_missing = code_at(codes, lists, place, end - 1) == n_bins
                copy_left(lefts_of_tiles, tile, lines, block, t)
            else:
                last_left, first_right, has_missing = add_up_sides(
                    (codes, records), (classes, values, weight), (begin, end), f, n_bins,
                    number >> 1, lines, found, block, t,
                )  # fmt: skip
            # The sums that a tile has kept include the missing rows of its side.
            missing_apart = has_missing and (at < 0 or random_splits != 0)
            left, right = children_at(b, x, LEFT, number & 1, missing_apart)
            family = (left, right, (b, x, NONE, i32(-1), True))
            ends = (last_left, first_right, i32(MISSING) if has_missing else i32(-1))
            data = (sums, sums, statistics, entry_begin)
            where = (i64(0), first, lower, upper)
            writing = (criterion, random_splits, block)
            write_split(
                data, family, ends, number & 1, score, where, cut, writing, node, of_left, f, t
            )
            # The thread that wrote the gain: no barrier is needed.
            if t == 0 and node.gain < limits[node.tree, LEAST_GAIN]:
                node.feature = -1
            cuda.syncthreads()

    return write_cuts


def write_splits(search: Search, bins: Bins, nodes: CartNodes, growing: Growing, line: int) -> None:
    """Write the splits of the young nodes."""
    criterion, _, _, random_splits = search.settings[:4]
    for size, (lines, per_multiprocessor) in zip(SIZES, by_size(search), strict=True):
        blocks = blocks_for(lines[0].shape[0], per_multiprocessor)
        launch(
            writing_kernel(*size), blocks, size[0],
            *search.rows, *bins, nodes.table, nodes.statistics, nodes.of_left, nodes.categories,
            growing.limits, growing.state, line, criterion, random_splits,
            *lines, search.summed.lines, growing.large,
        )  # fmt: skip
        if search.with_cuts:
            launch(
                cut_writing_kernel(*size), blocks, size[0],
                *search.rows, *bins, nodes.table, nodes.statistics, nodes.of_left, nodes.categories,
                growing.limits, growing.state, line, criterion, random_splits,
                *lines, search.summed.lines, growing.large,
                search.cut_tiles.following, search.cut_tiles.lefts,
            )  # fmt: skip
