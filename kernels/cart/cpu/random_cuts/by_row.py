"""The random cuts of all features of a node at once (contract: ``kernels.cart.grow_cart``).

The codes of a row lie side by side (``RowArrays.by_row``). Each row is read twice, with all of its
features in one vector or a few: for their ranges, and, once cuts are drawn, for the statistics of
the sides. Feature by feature, every code would be gathered by itself, and most nodes are so small
that starting the loops over their rows costs more than the loops.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....runtime.compilation import fused, inlined, inner, kernel_without_allocation
from ....runtime.cpu.lanes import LANES, chosen
from ....runtime.cpu.row_lanes import FEATURES, MOST_COUNTED, count_rows, range_of_rows, sum_rows
from ....runtime.cpu.team import run, threads_for
from ....scalars.gain import square
from ....scalars.rng import PURPOSE_FEATURES, PURPOSE_THRESHOLD, draw, subkey
from ....scalars.routing import random_cut
from ...problem import ROW_LANES, row_stride
from ..bounds import highest_score
from ..feature_order import draw_features, put_back
from ..scores import MASK, NO_CANDIDATE, best_of_block, heavy_enough
from .by_feature import neighbours

u64, i64 = np.uint64, np.int64

LOW_32 = u64(0xFFFFFFFF)
S63 = u64(63)
FEW = 4
"""Rows up to which features are looked at one by one: soon one has the highest score."""
N_CODES = 256
AT_ONCE = 256
"""Rows that are copied at a time."""


class Limits(NamedTuple):
    """What ``heavy_enough`` asks for, see ``SplitLimits``."""

    is_regression: bool
    least_rows: int
    least_weight: float


class RowCuts(NamedTuple):
    """The cuts of a node.

    low, high, limit, other : uint8
        An entry for each feature: the lowest and the highest code of the node; codes up to the
        limit, and equal to the other one, go left.
    counts : uint8, (2, ...)
        Rows on the left of a part of the node, and those of class 1.
    left : int64, (2, ...)
        For each feature rows on the left, and those of class 1; or sums of weights and values.
    chosen : int64
        The features with a cut. Each has a place in the lines below.
    bits : uint64
        Its draw.
    cut, score : float64
    last_left, also_left : int64
        The limit, and the other one.
    missing_left : int64
    """

    low: np.ndarray
    high: np.ndarray
    limit: np.ndarray
    other: np.ndarray
    counts: np.ndarray
    left: np.ndarray
    chosen: np.ndarray
    bits: np.ndarray
    cut: np.ndarray
    score: np.ndarray
    last_left: np.ndarray
    also_left: np.ndarray
    missing_left: np.ndarray


def row_cuts(lines, n_features):
    """Allocate lines for so many features, by ``lines(shape, dtype)``."""
    n = -(-n_features // FEATURES) * FEATURES
    return RowCuts(
        low=lines(n, np.uint8),
        high=lines(n, np.uint8),
        limit=lines(n, np.uint8),
        other=lines(n, np.uint8),
        counts=lines((2, FEATURES), np.uint8),
        left=lines((2, n)),
        chosen=lines(n),
        bits=lines(n, np.uint64),
        cut=lines(n, np.float64),
        score=lines(n, np.float64),
        last_left=lines(n),
        also_left=lines(n),
        missing_left=lines(n),
    )


def rows_side_by_side(codes):
    """Return the codes of all features row by row, filled up so that vectors can be read behind
    the last one."""
    n_features, n_rows = codes.shape
    stride = row_stride(n_features)
    by_row = np.empty(n_rows * stride + FEATURES, codes.dtype)
    run(_put_side_by_side, threads_for(codes.size), codes, stride, by_row)
    return by_row


@kernel_without_allocation
def _put_side_by_side(thread, n_threads, barrier, codes, stride, by_row):
    n_features, n_rows = codes.shape
    step, first = u64(stride), u64(n_rows * thread // n_threads)
    last = u64(n_rows * (thread + 1) // n_threads)
    # Some rows at a time, so that their lines stay in the cache until all features are written.
    for begin in range(first, last, u64(AT_ONCE)):
        end = min(begin + u64(AT_ONCE), last)
        for f in range(u64(n_features)):
            for row in range(begin, end):
                by_row[row * step + f] = codes[f, row]


def middles_of_bins(table):
    """Return the number half-way between the ends of each bin, +inf behind the last: a line of
    ``N_CODES`` for each feature."""
    middle = np.full(table.n_bins.size * N_CODES, np.inf)
    first = np.arange(0, middle.size, N_CODES) - table.begin[:-1]
    place = np.arange(table.lower.size) + np.repeat(first, table.n_bins)
    # Halved before they are added: the sum of two large values could overflow. A bin from -inf to
    # inf is the only one, and no search comes here.
    with np.errstate(invalid="ignore"):
        middle[place] = table.lower * 0.5 + table.upper * 0.5
    return middle


@inlined
def score_of_node(statistics, is_regression):
    """Return the score of a node by the criteria that have random cuts here, as ``score_block``
    does."""
    packed, above = statistics[0], square(float(statistics[1]))
    if not is_regression:
        packed += statistics[1]
        above = square(float(statistics[0] & MASK)) + square(float(statistics[1] & MASK))
    return above / float(packed & MASK)


@fused
def take_random_cuts(table, rows, params, least_weight, node, packed, room):
    """Note the best of the random cuts of the features that are looked at."""
    cuts, found = room.row_cuts, room.found
    n_features = room.features.size
    records = rows.records[node.begin : node.end]
    stride = u64((n_features + ROW_LANES - 1) // ROW_LANES * ROW_LANES)
    for first in range(u64(0), u64(n_features), u64(FEATURES)):
        range_of_rows(
            rows.by_row, first, stride, records, u64(records.size), cuts.low[first:],
            cuts.high[first:],
        )  # fmt: skip
    limits = Limits(rows.classes.shape[0] == 0, params.min_samples_leaf, least_weight)
    if records.size <= FEW:
        place = _look_one_by_one(
            table, rows, params, limits, node.key, records, stride, packed, room
        )
    else:
        place = _look_at_all(table, rows, params, limits, node.key, records, stride, room)
    if place >= 0:
        found[1].score = cuts.score[place]
        _note_cut(table, rows.by_row, records, stride, place, room)


@fused
def _look_one_by_one(table, rows, params, limits, key, records, stride, packed, room):
    """Look at features until one has the highest score that there is; return the place of the best
    one's cut."""
    cuts, groups, features = room.row_cuts, room.groups, room.features
    highest = highest_score(records.size, packed, params, i64(1), groups, room.cuts)
    shuffle_key = subkey(key, PURPOSE_FEATURES, u64(0))
    threshold_key = draw(key, PURPOSE_THRESHOLD)
    j, best, any_candidate = i64(0), i64(-1), False
    while j < features.size and (j < params.max_features or not any_candidate):
        draw_features(params, shuffle_key, j + 1, j, room)
        feature = features[j]
        j += 1
        if cuts.low[feature] == cuts.high[feature]:
            continue
        any_candidate = True
        # The best one's cut keeps its place.
        k = i64(1) if best == 0 else i64(0)
        cuts.chosen[k] = feature
        cuts.bits[k] = draw(draw(threshold_key, u64(feature)), u64(0))
        _place_cut(table, rows, records, stride, k, cuts)
        _sum_few(rows, records, stride, k, groups, cuts)
        _score_cuts(k, k + 1, i64(1), limits, groups, cuts)
        if cuts.score[k] > (cuts.score[best] if best >= 0 else NO_CANDIDATE):
            best = k
            if cuts.score[k] >= highest:
                break
    if params.shuffle == 1:
        put_back(j, room)
    return best


@fused
def _look_at_all(table, rows, params, limits, key, records, stride, room):
    """Look at all features together; return the place of the best one's cut."""
    cuts, groups = room.row_cuts, room.groups
    n_features = room.features.size
    # Where all features are looked at, their order matters only where scores tie.
    in_order = params.max_features < n_features
    n_chosen = _choose(params, key, room) if in_order else _choose_all(n_features, cuts)
    _draw_bits(draw(key, PURPOSE_THRESHOLD), n_chosen, cuts.chosen, cuts.bits)
    for k in range(n_chosen):
        _place_cut(table, rows, records, stride, k, cuts)
        cuts.limit[cuts.chosen[k]] = cuts.last_left[k]
        cuts.other[cuts.chosen[k]] = cuts.also_left[k]
    unit = _add_left(rows, records, stride, n_features, groups, cuts)
    _score_cuts(i64(0), n_chosen, unit, limits, groups, cuts)
    highest, best = best_of_block(cuts.score, n_chosen)
    if highest == NO_CANDIDATE:
        return i64(-1)
    if not in_order and params.shuffle == 1:
        best = _first_of_equal(params, key, highest, best, n_chosen, room)
    return best


@inlined
def _first_of_equal(params, key, highest, best, n_chosen, room):
    """Return the place of the highest score whose feature comes first in the node's order."""
    cuts, features = room.row_cuts, room.features
    n_equal = i64(0)
    for k in range(n_chosen):
        n_equal += cuts.score[k] == highest
    if n_equal == 1:
        return best
    # The sums have been used: their line now tells which features have that score.
    place_of = cuts.left[0]
    for feature in range(u64(features.size)):
        place_of[feature] = -1
    for k in range(u64(n_chosen)):
        place_of[cuts.chosen[k]] = k if cuts.score[k] == highest else -1
    shuffle_key = subkey(key, PURPOSE_FEATURES, u64(0))
    j, best = i64(0), i64(-1)
    while best < 0:
        draw_features(params, shuffle_key, j + 1, j, room)
        best = place_of[features[j]]
        j += 1
    put_back(j, room)
    return best


@inner
def _draw_bits(threshold_key, n, chosen, bits):
    # The draws depend on node and feature alone, whichever features were looked at before.
    for k in range(u64(n)):
        bits[k] = draw(draw(threshold_key, u64(chosen[k])), u64(0))


@inner
def _score_cuts(begin, end, unit, limits, groups, cuts):
    """Score cuts by ``cuts.left``; -inf for those that are struck out (see ``score_of``)."""
    total_0, total_1, left = groups.total[0], groups.total[1], cuts.left
    for k in range(u64(begin), u64(end)):
        feature = u64(cuts.chosen[k])
        packed_left, of_ones = left[0, feature] * unit, left[1, feature]
        if limits.is_regression:
            packed_right = total_0 - packed_left
            above_left, above_right = square(float(of_ones)), square(float(total_1 - of_ones))
        else:
            of_ones *= unit
            zeros = packed_left - of_ones
            packed_right = total_0 + total_1 - packed_left
            above_left = square(float(zeros & MASK)) + square(float(of_ones & MASK))
            above_right = square(float((total_0 - zeros) & MASK))
            above_right = above_right + square(float((total_1 - of_ones) & MASK))
        score = above_left / float(packed_left & MASK) + above_right / float(packed_right & MASK)
        cuts.score[k] = score if heavy_enough(packed_left, packed_right, limits) else NO_CANDIDATE


@inlined
def _choose_all(n_features, cuts):
    """List all features that have a cut; return how many they are."""
    n_chosen = i64(0)
    for feature in range(u64(n_features)):
        cuts.chosen[n_chosen] = feature
        # One code, or nothing but missing values: there is nothing to part.
        n_chosen += cuts.low[feature] < cuts.high[feature]
    return n_chosen


@inlined
def _choose(params, key, room):
    """List the features that are looked at and have a cut, in their order; return how many they
    are."""
    features, cuts = room.features, room.row_cuts
    shuffle_key = subkey(key, PURPOSE_FEATURES, u64(0))
    n_chosen, j = i64(0), i64(0)
    while j < features.size and (j < params.max_features or n_chosen == 0):
        draw_features(params, shuffle_key, j + 1, j, room)
        feature = u64(features[j])
        cuts.chosen[n_chosen] = feature
        n_chosen += cuts.low[feature] < cuts.high[feature]
        j += 1
    if params.shuffle == 1:
        put_back(j, room)
    return n_chosen


@inlined
def _place_cut(table, rows, records, stride, k, cuts):
    """Note which codes a cut sends left."""
    feature = u64(cuts.chosen[k])
    n_bins, first = i64(table.n_bins[feature]), u64(table.begin[feature])
    low, high = i64(cuts.low[feature]), i64(cuts.high[feature])
    bits = cuts.bits[k]
    missing_left = i64(-1)
    if high == n_bins:
        high = _highest_known(rows.by_row, records, stride, feature, n_bins)
        # Only two groups, one bin and the missing values: these go right.
        missing_left = i64(bits & u64(1)) if low < high else i64(0)
    cut, limit = np.nan, low
    if low < high:
        lowest, highest = table.lower[first + u64(low)], table.upper[first + u64(high)]
        cut = random_cut(lowest, highest, float(i64(bits)))
        own = feature * u64(N_CODES)
        limit = max(low, min(last_bin(rows.middle, own, cut), high - 1))
    cuts.cut[k], cuts.missing_left[k] = cut, missing_left
    cuts.last_left[k] = limit
    cuts.also_left[k] = n_bins if missing_left == 1 else limit


@inner
def _sum_few(rows, records, stride, k, groups, cuts):
    """Add up a few rows on the left of a cut."""
    limit, other, feature = cuts.last_left[k], cuts.also_left[k], u64(cuts.chosen[k])
    first, second = i64(0), i64(0)
    for i in range(u64(records.size)):
        record = records[i]
        code = i64(rows.by_row[(record & LOW_32) * stride + feature])
        is_left = -i64((code <= limit) | (code == other))
        if rows.unit == 0:
            first += groups.weights[i] & is_left
            second += groups.items[0, i] & is_left
        else:
            first += rows.unit & is_left
            second += rows.unit & is_left & -i64(record >> S63)
    cuts.left[0, feature], cuts.left[1, feature] = first, second


@inner
def _highest_known(by_row, records, stride, feature, n_bins):
    """Return the highest code that is not the one of missing values."""
    high = i64(-1)
    for i in range(u64(records.size)):
        code = i64(by_row[(records[i] & LOW_32) * stride + u64(feature)])
        high = max(high, code if code != n_bins else i64(-1))
    return high


@inlined
def last_bin(middle, first, cut):
    """Return the highest bin whose middle is at most ``cut``, 0 if none is: in as many steps
    whatever the range, so that the searches of several features overlap."""
    code, step = u64(0), u64(N_CODES // 2)
    while step > u64(0):
        after = code + step
        code = u64(chosen(middle[first + after] <= cut, i64(after), i64(code)))
        step >>= u64(1)
    return i64(code)


@inlined
def _add_left(rows, records, stride, n_features, groups, cuts):
    """Add up the rows on the left of each cut: numbers of rows and of those of class 1, or weights
    and values. Return the packed weight of a row, 1 if weights are added up."""
    n = u64(records.size)
    unit = rows.unit if rows.unit != 0 else _weight_of_all(groups.weights, n)
    for first in range(u64(0), u64(n_features), u64(FEATURES)):
        limit, other = cuts.limit[first:], cuts.other[first:]
        left, ones = cuts.left[0, first:], cuts.left[1, first:]
        if unit != 0:
            _count_left(rows.by_row, first, stride, records, limit, other, cuts.counts, left, ones)
        else:
            sum_rows(rows.by_row, first, stride, records, n, limit, other, groups.weights, left)
        if rows.unit == 0:
            sum_rows(rows.by_row, first, stride, records, n, limit, other, groups.items[0], ones)
    return unit if unit != 0 else i64(1)


@inner
def _weight_of_all(weights, n):
    """Return the weight of each of n rows, 0 if they differ."""
    first, others = weights[0], i64(0)
    for i in range(n):
        others |= weights[i] ^ first
    return first if others == 0 else i64(0)


@inner
def _count_left(by_row, first, stride, records, limit, other, counts, left, ones):
    n = u64(records.size)
    for f in range(u64(FEATURES)):
        left[f] = ones[f] = 0
    for begin in range(u64(0), n, u64(MOST_COUNTED)):
        size = min(n - begin, u64(MOST_COUNTED))
        count_rows(by_row, first, stride, records[begin:], size, limit, other, counts[0], counts[1])
        for f in range(u64(FEATURES)):
            left[f] += i64(counts[0, f])
            ones[f] += i64(counts[1, f])


@inlined
def _note_cut(table, by_row, records, stride, place, room):
    """Note the best cut, and the codes of its feature, by which rows are parted."""
    codes, cuts, best = room.codes[0], room.row_cuts, room.found[1]
    feature = u64(cuts.chosen[place])
    n_bins, first = i64(table.n_bins[feature]), table.begin[feature]
    _gather(by_row, records, stride, feature, codes)
    n_lanes = (records.size + LANES - 1) // LANES * LANES
    last_left, first_right = neighbours(codes, n_lanes, cuts.last_left[place], n_bins)
    cut = cuts.cut[place]
    # The cut is a threshold only in the gap between the sides. It can lie within a bin, or beyond
    # empty ones; NaN asks for the midpoint.
    if first_right >= 0:
        above, below = table.upper[first + last_left], table.lower[first + first_right]
        if not (above <= cut and cut < below):
            cut = np.nan
    best.feature, best.threshold, best.line = feature, cut, 0
    best.last_left, best.first_right = last_left, first_right
    best.missing_left = cuts.missing_left[place]


@inner
def _gather(by_row, records, stride, feature, codes):
    """Collect the codes of a feature; the last one fills the last vector up."""
    n = u64(records.size)
    for i in range(n):
        codes[i] = by_row[(records[i] & LOW_32) * stride + feature]
    last = codes[n - u64(1)]
    for i in range(n, n + u64(LANES)):
        codes[i] = last
