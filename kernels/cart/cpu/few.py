"""The best cut of a numeric feature at a node of few rows (contract: ``kernels.cart.grow_cart``).

Most nodes of a deep tree have a handful of rows. There the rows are sorted by code, and the sums of
a cut follow from those of the cut before, one row at a time; a feature that is constant, or that
has two values, as most have in such a node, needs no sorting.
"""

from __future__ import annotations

import numpy as np

from ...runtime.compilation import inlined, inner
from ...scalars.impurity import square
from ..problem import GINI, SQUARED_ERROR
from .classes import EXACT_WEIGHT, squares_moved
from .scores import MASK, heavy_enough, take_if_better
from .sorting import insertion_sort

u64, i64 = np.uint64, np.int64
LOW_32 = u64(0xFFFFFFFF)
S32 = u64(32)

FEW_ROWS = 32
"""Rows up to which a node is one of few rows."""
NONE, SOME, NOT_HERE = i64(0), i64(1), i64(2)
"""What ``scan_few`` answers: the feature has no candidate, has some, is to be scanned in full."""


@inlined
def suits_few(n, packed, params, n_outputs):
    """Whether ``scan_few`` knows how to look at a node of n rows."""
    if n > FEW_ROWS or params.bounded or n_outputs > 1:
        return False
    if params.criterion == SQUARED_ERROR:
        return True
    return params.criterion == GINI and packed & MASK <= EXACT_WEIGHT


@inlined
def scan_few(column, n_bins, records, begin, n, groups, feature, packed, limits, found):
    """Score the cuts of a numeric feature; ``NONE``, ``SOME`` or ``NOT_HERE``.

    packed : int64
        Rows and weight of the node.
    """
    keys = groups.keys
    lowest = highest = i64(column[records[begin] & LOW_32])
    for i in range(n):
        code = i64(column[records[begin + i] & LOW_32])
        keys[i] = (u64(code) << S32) | u64(i)
        lowest, highest = min(lowest, code), max(highest, code)
    if highest == n_bins:
        return NOT_HERE if lowest < n_bins else NONE
    if lowest == highest:
        return NONE
    if highest == lowest + 1:
        _part_two_codes(keys, n, u64(highest))
    else:
        insertion_sort(keys, n)
    if limits.is_regression:
        total = groups.total[1]
        _cut_sums(keys[:n], groups.weights, groups.items[0], total, packed, feature, limits, found)
    else:
        _cut_classes(
            keys[:n], groups.weights, groups.items[0], groups.total, packed, feature, limits, found,
            groups.left,
        )  # fmt: skip
    return SOME


@inlined
def _part_two_codes(keys, n, higher):
    """Put the keys of the lower of two codes first."""
    n_lower = 0
    for i in range(n):
        key = keys[i]
        keys[i] = keys[n_lower]
        keys[n_lower] = key
        n_lower += i64(key >> S32 != higher)


@inner
def _cut_classes(keys, weights, items, total, packed, feature, limits, found, left):
    """Gini scores: ``(sum of squares) / weight`` of both sides."""
    square_left, square_right = i64(0), i64(0)
    for s in range(left.size):
        left[s] = 0
        in_class = total[s] & MASK
        square_right += in_class * in_class
    packed_left = i64(0)
    before = keys[0] >> S32
    for k in range(u64(keys.size)):
        key = keys[k]
        code = key >> S32
        if code != before:
            packed_right = packed - packed_left
            score = float(square_left) / float(packed_left & MASK)
            score = score + float(square_right) / float(packed_right & MASK)
            if heavy_enough(packed_left, packed_right, limits):
                take_if_better(found, score, feature, i64(before), i64(code), i64(-1))
            before = code
        i = key & LOW_32
        c = items[i]
        weight = weights[i] & MASK
        packed_left += weights[i]
        more_left, less_right = squares_moved(weight, left[c], total[c] & MASK)
        square_left += more_left
        square_right -= less_right
        left[c] += weight


@inner
def _cut_sums(keys, weights, items, total, packed, feature, limits, found):
    """Scores of the squared error: ``sum**2 / weight`` of both sides."""
    packed_left, left = i64(0), i64(0)
    before = keys[0] >> S32
    for k in range(u64(keys.size)):
        key = keys[k]
        code = key >> S32
        if code != before:
            packed_right = packed - packed_left
            score = square(float(left)) / float(packed_left & MASK)
            score = score + square(float(total - left)) / float(packed_right & MASK)
            if heavy_enough(packed_left, packed_right, limits):
                take_if_better(found, score, feature, i64(before), i64(code), i64(-1))
            before = code
        i = key & LOW_32
        packed_left += weights[i]
        left += items[i]
