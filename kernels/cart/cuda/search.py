"""The best splits of the young nodes.

A block looks at the features of a small node one after another. A larger node has a block for each
of the features that are looked at in any case; then one of them settles which feature is the best,
and goes on with further features if those were all constant. The search only notes the number of
the best candidate; what follows from it is written by kernels of their own, which arrange the bins
of its feature once more: together they would need more registers than a thread has.

As in the reference, every candidate cuts an order of the bins with rows in two: the ascending
one, an order of the categories, or the two sides of a random split, one behind the other. The
statistics of the bins, and the running sums over an order, are kept in global memory, a line a
block, since there may be any number of statistics. Their additions are of integers, so their
order does not matter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.blocks import NOWHERE, best_to_front
from ...runtime.cuda.target import (
    blocks_for,
    cuda,
    device_function,
    empty,
    is_simulated,
    kernel,
    launch,
)
from ...scalars.rng import PURPOSE_FEATURES, PURPOSE_THRESHOLD, draw, subkey
from ..problem import SCRATCH_BYTES, CartParams, CartTable, CartTarget
from .candidates import (
    MOST_BINS,
    NO_SPLIT,
    add_up_places,
    add_up_slots,
    arrange,
    children_of,
    find_bins,
    is_classification,
    only_cut,
    orders_of,
    rank_by_statistic,
    score_of_cut,
    sum_over_threads,
)
from .rows import ROW_MASK, differ
from .tables import (
    BEGIN,
    CATEGORICAL,
    FIRST,
    FOUND,
    IS_FULL,
    LEAST_WEIGHT,
    MONOTONE,
    MOST_SMALL,
    N_BINS,
    N_LARGE,
    N_YOUNG,
    SOUGHT,
    Bins,
    Growing,
    Nodes,
)

i32, i64, u32, u64, f64 = np.int32, np.int64, np.uint32, np.uint64, np.float64

SMALL_BLOCK = 4 if is_simulated() else 32
LARGE_BLOCK = 8 if is_simulated() else 128
EVERY_CUT = -1


@device_function
def feature_after(stream, j, n_features, shuffle):
    """Return the feature that a node looks at in step j.

    Of the entries that the steps have swapped, the one that step j takes is followed back.
    """
    if shuffle == 0:
        return i64(j)
    place = j + i64((draw(stream, u64(j)) * u64(n_features - j)) >> u64(32))
    for before in range(j - 1, -1, -1):
        other = before + i64((draw(stream, u64(before)) * u64(n_features - before)) >> u64(32))
        if other == place:
            place = i64(before)
    return place


@device_function
def is_mixed(values, records, begin, end, flag, n_threads, t):
    """Return whether some row differs from the node's first one."""
    if t == 0:
        flag[0] = 0
    cuda.syncthreads()
    other = i64(records[begin]) & ROW_MASK
    i = begin + t
    while i < end:
        if differ(values, i64(records[i]) & ROW_MASK, other):
            cuda.atomic.max(flag, 0, 1)
            break
        i += n_threads
    cuda.syncthreads()
    mixed = flag[0] != 0
    cuda.syncthreads()
    return mixed


@device_function
def best_of_order(data, places, only, limits, criterion, scores, marks, t):
    """Bring the best candidate of an order, or the only one, to the front of ``scores`` and
    ``marks``."""
    line, x, n_places, missing = places
    best = NO_SPLIT
    best_number = NOWHERE
    share = (n_places + scores.shape[0] - 1) // scores.shape[0]
    for p in range(t * share, min((t + 1) * share, n_places)):
        for side in range(2 if missing >= 0 else 1):
            number = i32(2 * p + side)
            wanted = p < n_places - 1 or missing >= 0 and side == 0
            if only != EVERY_CUT:
                wanted = number == only
            if wanted:
                left, right = children_of(line, x, number, missing)
                score = score_of_cut(data, left, right, limits, criterion)
                if score > best:
                    best = score
                    best_number = number
    scores[t] = best
    marks[t] = best_number
    best_to_front(scores, marks, t)


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
    if random_splits != 0:
        stream = subkey(key, PURPOSE_THRESHOLD, u64(f))
        where = (categorical, features[f, BEGIN], lower, upper)
        only, cut = only_cut(stream, where, ascending, n, missing, keys, scan, t)
    elif categorical != 0:
        rank_by_statistic(sums, line, s, entry_begin, n, keys, scan, t)
    arrange(categorical, ascending, keys, n, order, place_of, scan, t)
    add_up_places(sums, line, order, n, up_to, scan, t)
    return only, cut


@device_function
def search_feature(table, of_rows, bins, found, settings, lines, shared, x, f, best, notes):
    """Search the splits of node x by feature f. Return the best score, of ``best`` and of those
    found, and whether there is a candidate. Where ``notes``, a better split than ``best`` is
    noted."""
    codes, records = table
    features, lower, upper, entry_begin = bins
    nodes, statistics, limits = found
    criterion, least_rows, constrained, random_splits = settings
    sums, up_to, line = lines
    place_of, ascending, order, keys, scan, scores, marks = shared
    t = cuda.threadIdx.x
    node = nodes[x]
    begin, end = node.begin, node.end
    n_bins = i32(features[f, N_BINS])
    n, missing = find_bins(codes, records, begin, end, f, n_bins, place_of, ascending, scan, t)
    if n == 0 or n == 1 and missing < 0:
        return best, False
    add_up_slots(codes, of_rows, records, begin, end, f, place_of, n + 1, sums, line, scan)
    data = (up_to, sums, statistics, entry_begin)
    places = (line, x, n, missing)
    least_weight = limits[node.tree, LEAST_WEIGHT]
    own_limits = (least_rows, least_weight, constrained, features[f, MONOTONE], node.low, node.high)
    first, n_orders = orders_of(features[f, CATEGORICAL], random_splits, entry_begin)
    for s in range(first, first + n_orders):
        own_places = (n, missing)
        only, _ = arrange_order(bins, settings, lines, shared, node.key, f, s, own_places)
        best_of_order(data, places, only, own_limits, criterion, scores, marks, t)
        score = scores[0]
        if score > best:
            best = score
            if notes and t == 0:
                node.feature = FOUND - f
                node.gain = score
                node.last_left = marks[0]
                node.missing_left = s
        cuda.syncthreads()
    return best, True


@device_function
def search_on(
    table, of_rows, bins, found, settings, lines, shared, upcoming, x, j, n_first, shuffle
):
    """Search the features of node x from step j on: up to step ``n_first``, and further if all of
    them are constant."""
    nodes = found[0]
    n_features = i64(bins[0].shape[0])
    n_threads = upcoming.shape[0]
    t = cuda.threadIdx.x
    stream = subkey(nodes[x].key, PURPOSE_FEATURES, u64(0))
    best = NO_SPLIT
    varied = False
    drawn = j
    while j < n_features and (j < n_first or not varied):
        if j == drawn:
            cuda.syncthreads()
            if drawn + t < n_features:
                upcoming[t] = feature_after(stream, drawn + t, n_features, shuffle)
            cuda.syncthreads()
            drawn += n_threads
        f = upcoming[j + n_threads - drawn]
        best, varies = search_feature(
            table, of_rows, bins, found, settings, lines, shared, x, f, best, True
        )
        varied = varied or varies
        j += 1


@kernel
def search_small(
    codes, records, classes, values, weight, features, lower, upper, entry_begin,
    nodes, statistics, limits, state, line, criterion, least_rows,
    constrained, random_splits, n_first, shuffle, sums, up_to,
):  # fmt: skip
    """One young node a block at a time, if it is small."""
    place_of = cuda.shared.array(MOST_BINS, np.int32)
    ascending = cuda.shared.array(MOST_SMALL, np.int32)
    order = cuda.shared.array(MOST_SMALL, np.int32)
    keys = cuda.shared.array(MOST_SMALL, np.float64)
    scan = cuda.shared.array(SMALL_BLOCK, np.int64)
    scores = cuda.shared.array(SMALL_BLOCK, np.float64)
    marks = cuda.shared.array(SMALL_BLOCK, np.int32)
    upcoming = cuda.shared.array(SMALL_BLOCK, np.int64)
    flag = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    b = i64(cuda.blockIdx.x)
    n_workers = i64(sums.shape[0])
    n_young = state[line, N_YOUNG] if state[line, IS_FULL] == 0 and b < n_workers else i64(0)
    table = (codes, records)
    of_rows = (classes, values, weight)
    bins = (features, lower, upper, entry_begin)
    found = (nodes, statistics, limits)
    settings = (criterion, least_rows, constrained, random_splits)
    shared = (place_of, ascending, order, keys, scan, scores, marks)
    k = b
    while k < n_young:
        x = state[line, FIRST] + k
        k += n_workers
        if nodes[x].feature != SOUGHT:
            continue
        wanted = is_classification(entry_begin) or is_mixed(
            values, records, nodes[x].begin, nodes[x].end, flag, SMALL_BLOCK, t
        )
        cuda.syncthreads()
        if t == 0:
            nodes[x].feature = -1
        cuda.syncthreads()
        if wanted:
            lines = (sums, up_to, b)
            search_on(
                table, of_rows, bins, found, settings, lines, shared, upcoming, x, i64(0),
                n_first, shuffle,
            )  # fmt: skip


@kernel
def search_items(
    codes, records, classes, values, weight, features, lower, upper, entry_begin,
    nodes, statistics, limits, state, line, criterion, least_rows,
    constrained, random_splits, n_first, shuffle, sums, up_to, large, scores_of_items,
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
    n_large = state[line, N_LARGE] if state[line, IS_FULL] == 0 and b < n_workers else i64(0)
    table = (codes, records)
    of_rows = (classes, values, weight)
    bins = (features, lower, upper, entry_begin)
    found = (nodes, statistics, limits)
    settings = (criterion, least_rows, constrained, random_splits)
    shared = (place_of, ascending, order, keys, scan, scores, marks)
    item = b
    while item < n_large * n_first:
        x = large[item // n_first]
        stream = subkey(nodes[x].key, PURPOSE_FEATURES, u64(0))
        f = feature_after(stream, item % n_first, i64(features.shape[0]), shuffle)
        lines = (sums, up_to, b)
        best, varies = search_feature(
            table, of_rows, bins, found, settings, lines, shared, x, f, NO_SPLIT, False
        )
        if t == 0:
            scores_of_items[item] = best if varies else np.nan
        cuda.syncthreads()
        item += n_workers


@device_function
def best_item(scores_of_items, first, n_first, scan, scores, marks, t):
    """Return the first of the best items of a node, and whether any has a candidate."""
    best = NO_SPLIT
    best_number = NOWHERE
    n_varied = 0
    for j in range(t, n_first, scan.shape[0]):
        score = scores_of_items[first + j]
        if score == score:
            n_varied += 1
        if score > best:
            best = score
            best_number = i32(j)
    n_varied = sum_over_threads(n_varied, scan, t)
    scores[t] = best
    marks[t] = best_number
    best_to_front(scores, marks, t)
    number = marks[0] if scores[0] > NO_SPLIT else i32(-1)
    cuda.syncthreads()
    return number, n_varied > 0


@kernel
def settle_large(
    codes, records, classes, values, weight, features, lower, upper, entry_begin,
    nodes, statistics, limits, state, line, criterion, least_rows,
    constrained, random_splits, n_first, shuffle, sums, up_to, large, scores_of_items,
):  # fmt: skip
    """One large node a block at a time, when its items have been searched."""
    place_of = cuda.shared.array(MOST_BINS, np.int32)
    ascending = cuda.shared.array(MOST_BINS, np.int32)
    order = cuda.shared.array(MOST_BINS, np.int32)
    keys = cuda.shared.array(MOST_BINS, np.float64)
    scan = cuda.shared.array(LARGE_BLOCK, np.int64)
    scores = cuda.shared.array(LARGE_BLOCK, np.float64)
    marks = cuda.shared.array(LARGE_BLOCK, np.int32)
    upcoming = cuda.shared.array(LARGE_BLOCK, np.int64)
    flag = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    b = i64(cuda.blockIdx.x)
    n_workers = i64(sums.shape[0])
    n_large = state[line, N_LARGE] if state[line, IS_FULL] == 0 and b < n_workers else i64(0)
    table = (codes, records)
    of_rows = (classes, values, weight)
    bins = (features, lower, upper, entry_begin)
    found = (nodes, statistics, limits)
    settings = (criterion, least_rows, constrained, random_splits)
    shared = (place_of, ascending, order, keys, scan, scores, marks)
    lines = (sums, up_to, b)
    k = b
    while k < n_large:
        x = large[k]
        best, varied = best_item(scores_of_items, k * n_first, n_first, scan, scores, marks, t)
        k += n_workers
        if not is_classification(entry_begin) and not is_mixed(
            values, records, nodes[x].begin, nodes[x].end, flag, LARGE_BLOCK, t
        ):
            continue
        if not varied or best >= 0:
            # One feature, the best one, or those after the first ones up to one that varies.
            start = i64(best) if varied else n_first
            last = start + 1 if varied else n_first
            search_on(
                table, of_rows, bins, found, settings, lines, shared, upcoming, x, start, last,
                shuffle,
            )  # fmt: skip


class Search(NamedTuple):
    """The arguments that the search has in every round.

    settings : tuple of int
        As the kernels take them behind ``line``.
    small, large : tuple of int64
        Scratch of the blocks for small and for large nodes.
    """

    rows: tuple[Array, ...]
    settings: tuple[int, ...]
    small: tuple[Array, Array]
    large: tuple[Array, Array]


def allocate_search(
    table: CartTable, target: CartTarget, records: Array, params: CartParams
) -> Search:
    """Allocate the scratch of the search."""
    n_features = table.n_bins.size
    numbers = (params.criterion, params.min_samples_leaf, int(table.monotone.any()))
    most = records.shape[0]
    n_slots = int(np.max(table.n_bins, initial=0)) + 1
    return Search(
        rows=(table.codes, records, target.classes, target.values, target.weight),
        settings=(
            *numbers, params.random_splits, min(params.max_features, n_features), params.shuffle,
        ),
        small=_scratch(most, 32, min(n_slots, MOST_SMALL + 1), target.n_statistics),
        large=_scratch(most, 16, n_slots + 1, target.n_statistics),
    )  # fmt: skip


def _scratch(most: int, per_multiprocessor: int, n_slots: int, width: int) -> tuple[Array, Array]:
    """Return lines for as many blocks as are launched, or as there is memory for."""
    most_lines = max(1, SCRATCH_BYTES // (2 * 8 * n_slots * width))
    shape = (min(blocks_for(most, per_multiprocessor), most_lines), n_slots, width)
    return empty(shape, np.int64), empty(shape, np.int64)


def find_splits(search: Search, bins: Bins, nodes: Nodes, growing: Growing, line: int) -> None:
    """Find the best splits of the young nodes."""
    of_round = (growing.limits, growing.state, line)
    before = (*search.rows, *bins, nodes.table, nodes.statistics)
    args = (*before, *of_round, *search.settings)
    for_large = (*args, *search.large, growing.large, growing.found)
    blocks = blocks_for(search.large[0].shape[0], 16)
    launch(search_items, blocks, LARGE_BLOCK, *for_large)
    launch(settle_large, blocks, LARGE_BLOCK, *for_large)
    blocks = blocks_for(search.small[0].shape[0], 32)
    launch(search_small, blocks, SMALL_BLOCK, *args, *search.small)
