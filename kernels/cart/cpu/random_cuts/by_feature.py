"""One random cut of a feature at one node (contract: ``kernels.cart.grow_cart``).

A numeric feature is read from memory once, code by code, into a line of its own. Everything else
runs over that line in vectors: the range that the cut is drawn from, the statistics of the left
side, and, if the cut is the best so far, the codes next to it.

    rows of the node    0   1   2   3   4  |  filled up to a multiple of ``LANES``
    codes              17   5  17   3   9  |   9   9   9    the last one again
    weights, items      ...                |   0   0   0    so that it counts nothing

Extra trees of 20,000 x 28 with two classes take 0.29 of the time that they take where every code
is looked at by itself, of regression 0.30 (AMD EPYC, one thread).
"""

from __future__ import annotations

import numpy as np

from ....runtime.compilation import fused, inlined, inner
from ....runtime.cpu.lanes import LANES, chosen, count_bits, lanes_left
from ....scalars.gain import square
from ....scalars.rng import PURPOSE_THRESHOLD, draw, subkey
from ....scalars.routing import is_left_category, random_cut
from ...problem import ABSOLUTE_ERROR, GINI, SQUARED_ERROR
from ..absolute import score_of_sides
from ..rows import fill_keys
from ..scan import add_row
from ..scores import MASK, NO_CANDIDATE, heavy_enough, score_alone, take_if_better
from ..small_nodes import FEW_ROWS

u32, u64, i64 = np.uint32, np.uint64, np.int64

LOW_32 = u64(0xFFFFFFFF)
S32 = u64(32)


@fused
def take_numeric_cut(
    column, n_bins, lower, upper, records, n, feature, threshold_key, unit, groups, block,
    lines, limits, output_begin, found,
):  # fmt: skip
    """Score a numeric feature's random cut, note it if it is the best, and return whether there is
    a cut.

    ``lower`` and ``upper`` begin with the feature's first bin. ``threshold_key`` is
    that of the node for all features; ``unit`` see ``RowArrays``.
    """
    # The codes of the best feature stay in the other line, from where its rows are parted.
    line = i64(1) - found[1].line
    codes = lines[line]
    n_lanes = (n + LANES - 1) // LANES * LANES
    _gather(column, records, codes)
    low, high = _range_of(codes, n_lanes, n_bins)
    has_missing = high == n_bins
    if has_missing:
        high = _highest_known(codes, n_lanes, n_bins)
    # One code, and nothing missing: there is nothing to part.
    if low == n_bins or (low == high and not has_missing):
        return False
    # The draws depend on node and feature alone, whichever features were looked at before.
    bits = draw(draw(threshold_key, u64(feature)), u64(0))
    missing_left = i64(-1)
    if has_missing:
        # Only two groups, one bin and the missing values: these go right.
        missing_left = i64(bits & u64(1)) if low < high else i64(0)
    limit, cut = high, np.nan
    if low < high:
        cut = random_cut(lower[low], upper[high], float(i64(bits)))
        if n <= FEW_ROWS:
            limit = _last_code_below(codes, n_lanes, lower, upper, low, high, cut)
        else:
            limit = _last_bin_below(lower, upper, low, high, cut)
    # The code of rows on the left beside those up to the limit; the limit itself: there is none.
    other = n_bins if missing_left == 1 else limit
    if unit != 0:
        n_left, n_ones = _count_left(codes, n, limit, other, groups.ones)
        groups.left[0], groups.left[1] = (n_left - n_ones) * unit, n_ones * unit
    else:
        _add_left(codes, n_lanes, limit, other, groups, limits.is_regression)
    value = score_of(groups.left, groups.total, limits, output_begin, block, found)
    if value > found[1].score:
        last_left, first_right = neighbours(codes, n_lanes, limit, n_bins)
        # The cut is a threshold only in the gap between the sides. It can lie within a bin, or
        # beyond empty ones; NaN asks for the midpoint.
        if first_right >= 0 and not (upper[last_left] <= cut and cut < lower[first_right]):
            cut = np.nan
        take_if_better(found, value, feature, last_left, first_right, missing_left)
        found[1].threshold = cut
        found[1].line = line
    return True


@inner
def _gather(column, records, codes):
    n = u64(records.size)
    full, last = n - n % u64(LANES), n - u64(1)
    for first in range(u64(0), full, u64(LANES)):
        for lane in range(LANES):
            codes[first + u64(lane)] = column[records[first + u64(lane)] & LOW_32]
    if full < n:
        # A loop that ends with the last row would end at a place that is hard to guess, and most
        # nodes have a handful of rows.
        for lane in range(LANES):
            codes[full + u64(lane)] = column[records[min(full + u64(lane), last)] & LOW_32]


@inner
def _range_of(codes, n_lanes, n_bins):
    """Return the lowest and the highest code; that of missing values is above all others."""
    low, high = codes[0], codes[0]
    for i in range(u64(n_lanes)):
        code = codes[i]
        low = code if code < low else low
        high = code if code > high else high
    return i64(low), i64(high)


@inner
def _highest_known(codes, n_lanes, n_bins):
    """Return the highest code that is not the one of missing values; -1: there is none."""
    high = i64(-1)
    for i in range(u64(n_lanes)):
        code = i64(codes[i])
        high = max(high, code if code != n_bins else i64(-1))
    return high


@inlined
def _middle(lower, upper, code):
    """Return the number half-way between the ends of a bin."""
    # Halved before they are added: the sum of two large values could overflow.
    return lower[code] * 0.5 + upper[code] * 0.5


@inner
def _last_code_below(codes, n_lanes, lower, upper, low, high, cut):
    """Return the highest of a few codes that ``_last_bin_below`` may return: all of their middles
    are read at once, where a search waits for each step's."""
    limit = low
    for i in range(u64(n_lanes)):
        # ``high`` never goes left; neither does a missing value, which is above it.
        code = min(i64(codes[i]), high)
        is_left = (_middle(lower, upper, code) <= cut) & (code < high)
        limit = max(limit, code if is_left else low)
    return limit


@inner
def _last_bin_below(lower, upper, low, high, cut):
    """Return the highest bin whose middle is at most ``cut``, at least ``low``, below ``high``."""
    size = high - low
    while size > 1:
        half = size >> 1
        low = chosen(_middle(lower, upper, low + half) <= cut, low + half, low)
        size -= half
    return low


@inlined
def _add_left(codes, n_lanes, limit, other, groups, is_regression):
    """Add up the rows with a code up to ``limit``, or the code ``other``, in ``groups.left``."""
    left, items, weights = groups.left, groups.items, groups.weights
    if is_regression:
        # The first output also counts the rows.
        left[0], left[1] = _sum_both(codes, n_lanes, limit, other, weights, items[0])
        for o in range(1, items.shape[0]):
            left[1 + o] = _sum_left(codes, n_lanes, limit, other, items[o])
    elif left.size == 2 and items.shape[0] == 1:
        left[0], left[1] = _sum_two_classes(codes, n_lanes, limit, other, items[0], weights)
    else:
        left[:] = 0
        for o in range(items.shape[0]):
            _sum_classes(codes, n_lanes, limit, other, items[o], weights, left)


@inlined
def score_of(left, total, limits, output_begin, block, found):
    """Return the score of a cut by its left side; -inf where it is struck out."""
    by_fractions = limits.criterion == SQUARED_ERROR or limits.criterion == GINI
    if limits.bounded or output_begin.size != 2 or not by_fractions:
        for s in range(total.size):
            block.left[s, 0] = left[s]
        return score_alone(block, total, limits, output_begin, found)
    # What ``score_block`` computes, without the many short loops of a block of one.
    packed_left, packed_right = left[0], total[0] - left[0]
    if limits.is_regression:
        above_left, above_right = square(float(left[1])), square(float(total[1] - left[1]))
    else:
        above_left = square(float(packed_left & MASK))
        above_right = square(float(packed_right & MASK))
        for s in range(1, total.size):
            on_left, on_right = left[s], total[s] - left[s]
            packed_left, packed_right = packed_left + on_left, packed_right + on_right
            above_left = above_left + square(float(on_left & MASK))
            above_right = above_right + square(float(on_right & MASK))
    if not heavy_enough(packed_left, packed_right, limits):
        return NO_CANDIDATE
    return above_left / float(packed_left & MASK) + above_right / float(packed_right & MASK)


@inner
def _count_left(codes, n, limit, other, ones):
    """Return how many rows are on the left, and how many of these are of class 1."""
    n_left, n_ones = u64(0), u64(0)
    n = u64(n)
    for first in range(u64(0), n, u64(64)):
        is_left = lanes_left(codes, first, u64(limit), u64(other))
        if n - first < u64(64):
            is_left &= (u64(1) << (n - first)) - u64(1)
        n_left += count_bits(is_left)
        n_ones += count_bits(is_left & ones[first >> u64(6)])
    return i64(n_left), i64(n_ones)


@inner
def _sum_both(codes, n_lanes, limit, other, weights, values):
    limit, other = codes.dtype.type(limit), codes.dtype.type(other)
    total, total_values = i64(0), i64(0)
    for i in range(u64(n_lanes)):
        is_left = (codes[i] <= limit) | (codes[i] == other)
        total += weights[i] if is_left else i64(0)
        total_values += values[i] if is_left else i64(0)
    return total, total_values


@inner
def _sum_left(codes, n_lanes, limit, other, values):
    limit, other = codes.dtype.type(limit), codes.dtype.type(other)
    total = i64(0)
    for i in range(u64(n_lanes)):
        total += values[i] if (codes[i] <= limit) | (codes[i] == other) else i64(0)
    return total


@inner
def _sum_two_classes(codes, n_lanes, limit, other, classes, weights):
    limit, other = codes.dtype.type(limit), codes.dtype.type(other)
    total, ones = i64(0), i64(0)
    for i in range(u64(n_lanes)):
        weight = weights[i] if (codes[i] <= limit) | (codes[i] == other) else i64(0)
        total += weight
        # Classes are 0 or 1: a mask in place of a product, which vectors have no instruction for.
        ones += weight & -classes[i]
    return total - ones, ones


@inner
def _sum_classes(codes, n_lanes, limit, other, classes, weights, left):
    limit, other = codes.dtype.type(limit), codes.dtype.type(other)
    for i in range(u64(n_lanes)):
        weight = weights[i] if (codes[i] <= limit) | (codes[i] == other) else i64(0)
        left[classes[i]] += weight


@inner
def neighbours(codes, n_lanes, limit, n_bins):
    """Return the last code on the left and the first on the right; -1: there is none but that of
    missing values."""
    limit, missing = codes.dtype.type(limit), codes.dtype.type(n_bins)
    # Both exist: the lowest code is on the left.
    last_left, first_right = codes.dtype.type(0), missing
    for i in range(u64(n_lanes)):
        code = codes[i]
        on_left = code if code <= limit else codes.dtype.type(0)
        on_right = code if code > limit else missing
        last_left = on_left if on_left > last_left else last_left
        first_right = on_right if on_right < first_right else first_right
    return i64(last_left), i64(first_right) if first_right < missing else i64(-1)


@inlined
def fill_lanes(groups, n):
    """Let the rows of a node that fill its last vector up have no weight."""
    for i in range(n, (n + LANES - 1) // LANES * LANES):
        groups.weights[i] = 0
        for o in range(groups.items.shape[0]):
            groups.items[o, i] = 0


LEFT, RIGHT, MISSING = u64(0), u64(1), u64(2)


@inlined
def take_random_candidate(
    table,
    records,
    begin,
    end,
    feature,
    key,
    groups,
    block,
    medians,
    limits,
    output_begin,
    found,
    bits,
):
    """Do what ``take_numeric_cut`` does row by row: for categories, and for the absolute error.

    ``bits[0]`` are the categories on the left of the best candidate, ``bits[1]`` is scratch.
    """
    n = end - begin
    n_bins = i64(table.n_bins[feature])
    fill_keys(table.codes[feature], records, begin, n, groups.keys)
    # The range of the cut. One code, and nothing missing: there is nothing to part.
    low, high, has_missing = _range_of_codes(groups.keys, n, n_bins)
    if low > high or (low == high and not has_missing):
        return False
    feature_key = subkey(key, PURPOSE_THRESHOLD, u64(feature))
    # The draws depend on node and feature alone, whichever features were looked at before.
    bits_0 = draw(feature_key, u64(0))
    missing_left = i64(-1)
    if has_missing and low < high:
        missing_left = i64(bits_0 & u64(1))
    elif has_missing:
        # The only two groups are one bin and the missing values, which go right.
        missing_left = i64(0)
    is_set = table.categorical[feature] == 1
    lower, upper = table.lower[table.begin[feature] :], table.upper[table.begin[feature] :]
    # Where the cut is: a set of categories, or the last bin on the left.
    limit = high
    cut = np.nan
    if is_set:
        _draw_categories(groups, n, n_bins, low, high, feature_key, bits[1])
    elif low < high:
        cut = random_cut(lower[low], upper[high], float(i64(bits_0)))
        limit = _last_bin_below(lower, upper, low, high, cut)
    # The sides, and the statistics of the left one.
    last_left, first_right = _part(groups, n, n_bins, limit, is_set, bits[1], missing_left, limits)
    if not is_set and first_right >= 0:
        # The cut is a threshold only in the gap between the sides. It can lie within a bin, or
        # beyond empty ones; NaN asks for the midpoint.
        if not (upper[last_left] <= cut and cut < lower[first_right]):
            cut = np.nan
    if limits.criterion == ABSOLUTE_ERROR:
        value = score_of_sides(groups, medians, n, missing_left == 1, limits, found)
    else:
        for s in range(groups.total.size):
            block.left[s, 0] = groups.left[s]
        value = score_alone(block, groups.total, limits, output_begin, found)
    if take_if_better(found, value, feature, last_left, first_right, missing_left):
        found[1].threshold = cut
        if is_set:
            for w in range(bits.shape[1]):
                bits[0, w] = bits[1, w]
    return True


@inner
def _range_of_codes(keys, n, n_bins):
    """Return the lowest and highest code of the node (lowest above highest: none), and whether
    values are missing."""
    low, high = n_bins, i64(-1)
    has_missing = False
    for i in range(n):
        code = i64(keys[i] >> S32)
        if code == n_bins:
            has_missing = True
        else:
            low = min(low, code)
            high = max(high, code)
    return low, high, has_missing


@inner
def _draw_categories(groups, n, n_bins, low, high, feature_key, bits):
    """Draw the side of each category; the node's lowest one fills a side that is empty."""
    bits[:] = 0
    if low == high:
        # The only category goes left, and the missing values go right.
        bits[low >> 5] |= u32(1) << u32(low & 31)
        return
    any_left, any_right = False, False
    for i in range(n):
        category = i64(groups.keys[i] >> S32)
        if category < n_bins:
            if draw(feature_key, u64(category + 1)) & u64(1):
                bits[category >> 5] |= u32(1) << u32(category & 31)
                any_left = True
            else:
                any_right = True
    if not (any_left and any_right):
        # One side has got nothing: the lowest category changes to it.
        bits[low >> 5] ^= u32(1) << u32(low & 31)


@inner
def _part(groups, n, n_bins, limit, is_set, bits, missing_left, limits):
    """Turn the codes of the keys into sides, add up the left one, and return the last code on
    the left and the first on the right (-1: none)."""
    groups.left[:] = 0
    last_left, first_right = i64(-1), n_bins
    for i in range(n):
        code = i64(groups.keys[i] >> S32)
        side = RIGHT
        if code == n_bins:
            side = MISSING
        elif is_set:
            if is_left_category(i64(bits[code >> 5]), code):
                side = LEFT
        elif code <= limit:
            side = LEFT
        if side == LEFT:
            last_left = max(last_left, code)
        elif side == RIGHT:
            first_right = min(first_right, code)
        # For the absolute error, which sorts rows by side next.
        groups.keys[i] = (side << S32) | u64(i)
        if side == LEFT or (side == MISSING and missing_left == 1):
            add_row(groups.items, groups.weights, i, limits.is_regression, groups.left)
    return last_left, first_right if first_right < n_bins else i64(-1)
