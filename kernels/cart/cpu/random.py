"""The one candidate of a feature where cuts are random (contract: ``kernels.cart.grow_cart``)."""

from __future__ import annotations

import numpy as np

from ...runtime.compilation import inner
from ...scalars.rng import PURPOSE_THRESHOLD, draw, subkey
from ...scalars.routing import is_left_category, random_cut
from ..problem import ABSOLUTE_ERROR
from .absolute import score_of_sides
from .groups import fill_keys
from .scan import add_row
from .scores import score_alone, take_if_better

u32, u64, i64 = np.uint32, np.uint64, np.int64
LOW_32 = u64(0xFFFFFFFF)
S32 = u64(32)
LEFT, RIGHT, MISSING = u64(0), u64(1), u64(2)


@inner
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
    """Score the feature's random cut and note it if it is the best; whether there is a cut.

    ``bits[0]`` are the categories on the left of the best candidate, ``bits[1]`` is room.
    """
    n = end - begin
    n_bins = i64(table.n_bins[feature])
    fill_keys(table.codes[feature], records, begin, n, groups.keys)
    low, high, has_missing = _range_of_codes(groups.keys, n, n_bins)
    if low > high or (low == high and not has_missing):
        return False
    feature_key = subkey(key, PURPOSE_THRESHOLD, u64(feature))
    bits_0 = draw(feature_key, u64(0))
    missing_left = i64(-1)
    if has_missing and low < high:
        missing_left = i64(bits_0 & u64(1))
    elif has_missing:
        missing_left = i64(0)
    is_set = table.categorical[feature] == 1
    lower, upper = table.lower[table.begin[feature] :], table.upper[table.begin[feature] :]
    limit = high
    cut = np.nan
    if is_set:
        _draw_categories(groups, n, n_bins, low, high, feature_key, bits[1])
    elif low < high:
        cut = random_cut(lower[low], upper[high], float(i64(bits_0)))
        limit = _last_bin_below(lower, upper, low, high, cut)
    last_left, first_right = _part(groups, n, n_bins, limit, is_set, bits[1], missing_left, limits)
    if not is_set and first_right >= 0:
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
    """Lowest and highest code of the node (lowest above highest: none), and whether values are
    missing."""
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
def _last_bin_below(lower, upper, low, high, cut):
    """The highest bin with ``lower / 2 + upper / 2 <= cut``, at least ``low``, below ``high``."""
    while high - low > 1:
        middle = (low + high) >> 1
        if lower[middle] * 0.5 + upper[middle] * 0.5 <= cut:
            low = middle
        else:
            high = middle
    return low


@inner
def _draw_categories(groups, n, n_bins, low, high, feature_key, bits):
    """Draw the side of each category; the node's lowest one fills a side that is empty."""
    bits[:] = 0
    if low == high:
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
        bits[low >> 5] ^= u32(1) << u32(low & 31)


@inner
def _part(groups, n, n_bins, limit, is_set, bits, missing_left, limits):
    """Turn the codes of the keys into sides and add up the left one; the last code on the left
    and the first on the right (-1: none)."""
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
        groups.keys[i] = (side << S32) | u64(i)
        if side == LEFT or (side == MISSING and missing_left == 1):
            add_row(groups.items, groups.weights, i, limits.is_regression, groups.left)
    return last_left, first_right if first_right < n_bins else i64(-1)
