"""Gini scores of the cuts of a feature by running sums (contract: ``kernels.cart.grow_cart``).

A group of weight h that moves to the left changes the sums of squares by

    left:  (l + h)**2 - l**2 = h (2 l + h)        right:  r**2 - (r - h)**2 = h (2 r - h)

for each class, so a cut costs what its group costs, not what the classes cost. All of this is in
integers, and equal to the sums of the contract where float64 holds those exactly.
"""

from __future__ import annotations

import numpy as np

from ...runtime.compilation import inlined, inner
from ..problem import GINI
from .scan import mark_categories
from .scores import MASK, heavy_enough, take_if_better

i64 = np.int64
LOW_32 = np.uint64(0xFFFFFFFF)

EXACT_WEIGHT = i64(2**26)
"""Weights up to this one have squares, and sums of squares, that float64 holds exactly: it does
not matter in which order the terms of a Gini score are added up."""


@inlined
def suits_running_sums(packed, params, n_outputs, n_statistics):
    """Whether ``scan_classes`` knows how to look at a node; for two classes ``scan`` is faster."""
    if params.criterion != GINI or n_outputs > 1 or n_statistics < 3 or params.bounded:
        return False
    return packed & MASK <= EXACT_WEIGHT


@inlined
def squares_moved(weight, on_left, total):
    """What the squares on the left gain, and those on the right lose, as ``weight`` of a class
    moves to the left."""
    on_right = total - on_left
    return weight * (2 * on_left + weight), weight * (2 * on_right - weight)


@inner
def scan_classes(groups, n_groups, has_missing, feature, packed, limits, found, best_bits, is_set):
    """``scan`` for the Gini impurity of one output.

    packed : int64
        Rows and weight of the node.
    """
    left, missing, total = groups.left, groups.missing, groups.total
    square_left, square_right, square_missing = i64(0), i64(0), i64(0)
    with_total, with_left = i64(0), i64(0)  # products of the missing ones
    packed_left, packed_missing = i64(0), i64(0)
    for s in range(left.size):
        left[s] = 0
        in_class, gone = total[s] & MASK, missing[s] & MASK
        square_right += in_class * in_class
        square_missing += gone * gone
        with_total += in_class * gone
        packed_missing += missing[s]
    n_cuts = n_groups if has_missing else n_groups - 1
    for at in range(n_cuts):
        g = groups.order[at]
        if groups.by_rows[0] == 0:
            start = groups.code[g] * left.size
            for s in range(left.size):
                moved = groups.histogram[start + s]
                weight = moved & MASK
                more, less = squares_moved(weight, left[s], total[s] & MASK)
                square_left += more
                square_right -= less
                with_left += weight * (missing[s] & MASK)
                left[s] += weight
                packed_left += moved
        else:
            for k in range(groups.first[g], groups.first[g + 1]):
                i = groups.keys[k] & LOW_32
                s = groups.items[0, i]
                weight = groups.weights[i] & MASK
                more, less = squares_moved(weight, left[s], total[s] & MASK)
                square_left += more
                square_right -= less
                with_left += weight * (missing[s] & MASK)
                left[s] += weight
                packed_left += groups.weights[i]
        following = i64(-1)
        if at + 1 < n_groups:
            following = groups.code[groups.order[at + 1]]
        for side in range(2 if has_missing and at + 1 < n_groups else 1):
            low, square_low, square_high = packed_left, square_left, square_right
            if side == 1:
                low += packed_missing
                square_low += 2 * with_left + square_missing
                square_high += square_missing - 2 * (with_total - with_left)
            high = packed - low
            score = float(square_low) / float(low & MASK) + float(square_high) / float(high & MASK)
            if not score > found[1].score or not heavy_enough(low, high, limits):
                continue
            missing_left = i64(side) if has_missing else i64(-1)
            take_if_better(found, score, feature, groups.code[g], following, missing_left)
            if is_set:
                mark_categories(groups, at, best_bits)
