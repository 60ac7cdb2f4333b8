"""The best cut of every item, a node with one of its features, from the statistics of the bins.

As in the reference, every candidate cuts an order of the bins with rows in two: the ascending
one, an order of the categories, or the two sides of a random split, one behind the other. The
running sums over an order are kept in global memory, since there may be any number of statistics.
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
    download,
    empty,
    kernel,
    launch,
    upload,
)
from ...scalars.rng import PURPOSE_THRESHOLD, subkey
from ..problem import SCRATCH_BYTES, CartParams, CartTable, CartTarget
from .candidates import (
    BLOCK,
    MOST_BINS,
    NO_PLACE,
    NO_SPLIT,
    OWN,
    add_up_places,
    arrange,
    children_of,
    find_bins,
    left_is_larger,
    only_cut,
    orders_of,
    packed_weight_of_bin,
    rank_by_statistic,
    score_of_cut,
    value_of,
)
from .rows import histograms, n_slots

i32, u32, u64 = np.int32, np.uint32, np.uint64

EVERY_CUT = -1

N_BINS, CATEGORICAL, MONOTONE, BEGIN = range(4)
"""Columns of ``features``."""

SCORE, LEFT_VALUE, RIGHT_VALUE, CUT, N_REALS = range(5)
IS_CONSTANT, LAST_LEFT, FIRST_RIGHT, MISSING_LEFT, N_INTEGERS = range(5)


class Cuts(NamedTuple):
    """The best cut of each item; NumPy arrays of shape (n_items, ...).

    reals : float64
        ``SCORE`` (-inf: there is none), ``LEFT_VALUE`` and ``RIGHT_VALUE`` of the children,
        ``CUT`` of a random split.
    integers : int64
        ``IS_CONSTANT``: the feature has no candidate, not even one that is struck out.
        ``LAST_LEFT`` and ``FIRST_RIGHT``: the bins that the cut lies between, the latter -1
        if all values go left. ``MISSING_LEFT``.
    categories : uint32
        The words of a cut of categories.
    """

    reals: np.ndarray
    integers: np.ndarray
    categories: np.ndarray


@device_function
def best_of_order(data, item, n_places, missing, only, limits, criterion, scores, numbers, t):
    """Bring the best candidate of an order, or the only one, to the front of ``scores`` and
    ``numbers``."""
    best = NO_SPLIT
    best_number = NOWHERE
    for p in range(t * OWN, min((t + 1) * OWN, n_places)):
        for side in range(2 if missing >= 0 else 1):
            number = i32(2 * p + side)
            wanted = p < n_places - 1 or missing >= 0 and side == 0
            if only != EVERY_CUT:
                wanted = number == only
            if wanted:
                left, right = children_of(item, limits[3], number, missing)
                score = score_of_cut(data, left, right, limits, criterion)
                if score > best:
                    best = score
                    best_number = number
    scores[t] = best
    numbers[t] = best_number
    best_to_front(scores, numbers, t)


@device_function
def write_cut(data, item, node, number, missing, order, n_places, reals, integers):
    """Write the fields of ``Cuts`` except the score and the categories; called by one thread."""
    left, right = children_of(item, node, number, missing)
    reals[item, LEFT_VALUE] = value_of(data, left)
    reals[item, RIGHT_VALUE] = value_of(data, right)
    place = number >> 1
    integers[item, LAST_LEFT] = order[place]
    integers[item, FIRST_RIGHT] = order[place + 1] if place + 1 < n_places else NO_PLACE
    missing_left = number & 1
    if missing < 0 and left_is_larger(data, left, right):
        missing_left = 1
    integers[item, MISSING_LEFT] = missing_left


@device_function
def write_categories(place_of, place, others_left, n_bins, item, categories, t):
    """Write the categories up to a place, and perhaps those without rows, one word a thread."""
    for w in range(t, categories.shape[1], BLOCK):
        word = u32(0)
        for c in range(32 * w, min(32 * w + 32, n_bins)):
            is_left = place_of[c] <= place
            if place_of[c] == NO_PLACE:
                is_left = others_left
            if is_left:
                word |= u32(1) << u32(c & 31)
        categories[item, w] = word


@kernel
def best_cuts(
    sums,
    node,
    feature,
    key,
    totals,
    limits,
    features,
    lower,
    upper,
    entry_begin,
    criterion,
    least_rows,
    constrained,
    random_splits,
    up_to,
    reals,
    integers,
    categories,
):
    """Find the best cut of one item a block at a time, order by order.

    The last three arrays are the result, ``up_to`` is scratch. Every table is an argument of its
    own: a tuple of tables would cost Numba's launcher 16 µs a launch.
    """
    ascending = cuda.shared.array(MOST_BINS, np.int32)
    order = cuda.shared.array(MOST_BINS, np.int32)
    place_of = cuda.shared.array(MOST_BINS, np.int32)
    keys = cuda.shared.array(MOST_BINS, np.float64)
    scan = cuda.shared.array(BLOCK, np.int64)
    scores = cuda.shared.array(BLOCK, np.float64)
    numbers = cuda.shared.array(BLOCK, np.int32)
    t = cuda.threadIdx.x
    data = (up_to, sums, totals, entry_begin)
    item = cuda.blockIdx.x
    while item < node.shape[0]:
        k = node[item]
        f = feature[item]
        n_bins = i32(features[f, N_BINS])
        categorical = features[f, CATEGORICAL]
        n = find_bins(sums, item, n_bins, entry_begin, ascending, place_of, scan, t)
        missing = n_bins
        if packed_weight_of_bin(sums, item, missing, entry_begin) == 0:
            missing = i32(-1)
        own_limits = (least_rows, constrained, features[f, MONOTONE], k, limits)
        first, n_orders = orders_of(categorical, random_splits, entry_begin)
        if n == 0 or n == 1 and missing < 0:
            n_orders = 0
        if t == 0:
            integers[item, IS_CONSTANT] = 1 if n_orders == 0 else 0
        best = NO_SPLIT
        for s in range(first, first + n_orders):
            only = EVERY_CUT
            if random_splits != 0:
                stream = subkey(key[k], PURPOSE_THRESHOLD, u64(f))
                where = (categorical, features[f, BEGIN], lower, upper)
                only, value = only_cut(stream, where, ascending, n, missing, keys, scan, t)
                if t == 0:
                    reals[item, CUT] = value
            elif categorical != 0:
                rank_by_statistic(sums, item, s, entry_begin, ascending, n, keys, t)
            arrange(categorical, ascending, keys, n, order, place_of, t)
            add_up_places(sums, item, order, n, up_to, scan, t)
            best_of_order(data, item, n, missing, only, own_limits, criterion, scores, numbers, t)
            if scores[0] > best:
                best = scores[0]
                number = numbers[0]
                if t == 0:
                    write_cut(data, item, k, number, missing, order, n, reals, integers)
                left, right = children_of(item, k, number, missing)
                others_left = left_is_larger(data, left, right)
                write_categories(place_of, number >> 1, others_left, n_bins, item, categories, t)
            cuda.syncthreads()
        if t == 0:
            reals[item, SCORE] = best
        item += cuda.gridDim.x


def find_cuts(
    table: CartTable,
    bins: tuple[Array, ...],
    target: CartTarget,
    records: Array,
    nodes: np.ndarray,
    node: np.ndarray,
    feature: np.ndarray,
    params: CartParams,
) -> Cuts:
    """Find the best cuts of items, entries of ``nodes`` with a feature each.

    ``bins`` are the copies on the device that ``upload_bins`` makes.
    """
    limits = np.column_stack([nodes["least_weight"], nodes["bounds"]])
    of_nodes = upload(nodes["key"], nodes["statistics"], limits)
    entry_begin = target.output_begin + (0 if target.classes.shape[0] else 1)
    (entry_begin,) = upload(entry_begin)
    numbers = (params.criterion, params.min_samples_leaf)
    numbers += (int(table.monotone.any()), params.random_splits)
    bytes_of_item = 2 * 8 * n_slots(table) * target.n_statistics
    step = max(1, SCRATCH_BYTES // bytes_of_item)
    found = []
    for first in range(0, node.size, step):
        part = slice(first, first + step)
        at = nodes[node[part]]
        sums = histograms(table, target, records, at["begin"], at["end"], feature[part])
        n_items = sums.shape[0]
        out = (
            empty((n_items, N_REALS), np.float64),
            empty((n_items, N_INTEGERS), np.int64),
            empty((n_items, nodes["categories"].shape[1]), np.uint32),
        )
        items = upload(node[part], feature[part])
        args = (sums, *items, *of_nodes, *bins, entry_begin, *numbers, empty(sums.shape, np.int64))
        launch(best_cuts, blocks_for(n_items, 16), BLOCK, *args, *out)
        found.append([download(array) for array in out])
    return Cuts(*(np.concatenate(arrays) for arrays in zip(*found, strict=True)))


def upload_bins(table: CartTable) -> tuple[Array, ...]:
    """Copy what the search needs to know of the features to the device."""
    columns = (table.n_bins, table.categorical, table.monotone, table.begin[:-1])
    features = np.column_stack([column.astype(np.int64) for column in columns])
    return upload(features, table.lower, table.upper)
