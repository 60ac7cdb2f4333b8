"""Numeric features at a node with a handful of rows, as most nodes of a deep tree have (contract:
``kernels.cart.grow_cart``).

The codes of the rows are one vector. The place of a row in their order is the number of lower
codes, and of equal ones before it, which two comparisons with all of them tell: nothing is sorted
step by step, and no branch is guessed wrongly::

    row               0   1   2   3
    code             17   5  17   3
    lower             2   1   2   0
    equal, before     0   0   1   0
    place             2   1   3   0
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...runtime.compilation import fused, inlined, inner
from ...runtime.cpu.lanes import lanes_equal, place_in_line
from ...scalars.gain import square
from .cuts import note_cut, squares_moved, take_best
from .scores import MASK, NO_CANDIDATE

u64, i64 = np.uint64, np.int64

LOW_32 = u64(0xFFFFFFFF)
S32 = u64(32)

FEW_ROWS = 32
"""Rows up to which a node is one of few rows: the lanes of a vector of codes."""
NONE, SOME, NOT_HERE = i64(0), i64(1), i64(2)
"""Results of ``scan_few``: the feature has no candidate, has some, must be scanned in full."""


class Few(NamedTuple):
    """Scratch for the rows of a node by one feature.

    codes : uint8 or uint32, (FEW_ROWS,)
        Of a few rows.
    weights, items : int64
        Of the rows in the order of their codes, see ``ScanGroups``. ``FEW_ROWS`` entries, or one
        for each row where rows are sorted.
    """

    codes: np.ndarray
    weights: np.ndarray
    items: np.ndarray


@inlined
def scan_few(
    codes, step, first, n_bins, records, begin, n, groups, few, feature, packed, limits, cuts, found
):
    """Score the cuts of a numeric feature and return ``NONE``, ``SOME`` or ``NOT_HERE``.

    step, first : uint64
        The code of a row is ``row * step`` places behind the first.
    packed : int64
        Rows and weight of the node.
    """
    for i in range(n):
        few.codes[i] = codes[(records[begin + i] & LOW_32) * step + first]
    # A bit for each row: the lanes behind the last row still hold codes of another node.
    every_row = (u64(1) << u64(n)) - u64(1)
    if lanes_equal(few.codes, u64(few.codes[0])) & every_row == every_row:
        return NONE
    if lanes_equal(few.codes, u64(n_bins)) & every_row != 0:
        # Missing values double the candidates, which the full scan knows how to score.
        return NOT_HERE
    # The codes go where ``take_best`` expects them, the rest into lines in the same order.
    _put_in_order(n, every_row, groups.weights, groups.items[0], few, cuts.code)
    _score_in_order(n, groups, few, feature, packed, limits, cuts, found)
    return SOME


@inlined
def scan_sorted(n, groups, few, feature, packed, limits, cuts, found):
    """Score the cuts of a numeric feature by ``groups.keys``, which are sorted, none of them of a
    missing value, and return whether there are any."""
    if groups.keys[0] >> S32 == groups.keys[n - 1] >> S32:
        return False
    _follow_keys(groups.keys, n, groups.weights, groups.items[0], few, cuts.code)
    _score_in_order(n, groups, few, feature, packed, limits, cuts, found)
    return True


@fused
def _score_in_order(n, groups, few, feature, packed, limits, cuts, found):
    """Score the cuts between rows that are in the order of their codes."""
    if limits.is_regression:
        _cut_sums(n - 1, groups.total[1], few, cuts)
    elif groups.total.size == 2:
        _cut_two_classes(n - 1, packed & MASK, groups.total[1] & MASK, few, cuts)
    else:
        _cut_classes(n - 1, groups.total, few, groups.left, cuts)
    take_best(n - 1, packed, feature, limits, cuts, found)


@inner
def _follow_keys(keys, n, weights, items, few, code):
    for k in range(u64(n)):
        i = keys[k] & LOW_32
        code[k] = keys[k] >> S32
        few.weights[k] = weights[i]
        few.items[k] = items[i]


@inner
def _put_in_order(n, every_row, weights, items, few, code):
    for i in range(u64(n)):
        # Places differ even where codes are equal, so that every row is written exactly once.
        place = place_in_line(few.codes, i, every_row)
        code[place] = few.codes[i]
        few.weights[place] = weights[i]
        few.items[place] = items[i]


@inlined
def _if_cut(k, above, cuts):
    """Return the score of a side of the cut behind place k, which must not part equal codes."""
    return above if cuts.code[k] != cuts.code[k + 1] else NO_CANDIDATE


@inner
def _cut_sums(n, total, few, cuts):
    """Note the cuts between rows for the squared error: ``sum**2 / weight``."""
    left, packed_left = i64(0), i64(0)
    for k in range(n):
        left += few.items[k]
        packed_left += few.weights[k]
        above_left = _if_cut(k, square(float(left)), cuts)
        note_cut(k, above_left, square(float(total - left)), packed_left, cuts)


@inner
def _cut_two_classes(n, weight, all_ones, few, cuts):
    """Note the cuts for the Gini impurity of two classes: ``(sum of squares) / weight``."""
    ones, packed_left = i64(0), i64(0)
    for k in range(n):
        packed_left += few.weights[k]
        # Items are classes, 0 or 1: the product is the weight of class 1.
        ones += (few.weights[k] & MASK) * few.items[k]
        zeros = (packed_left & MASK) - ones
        ones_right = all_ones - ones
        zeros_right = weight - zeros - all_ones
        above_left = _if_cut(k, float(ones * ones + zeros * zeros), cuts)
        above_right = float(ones_right * ones_right + zeros_right * zeros_right)
        note_cut(k, above_left, above_right, packed_left, cuts)


@inner
def _cut_classes(n, total, few, left, cuts):
    """Note the cuts for the Gini impurity of any number of classes (see ``scan``)."""
    square_left, square_right, packed_left = i64(0), i64(0), i64(0)
    for s in range(left.size):
        left[s] = 0
        square_right += (total[s] & MASK) * (total[s] & MASK)
    for k in range(n):
        c, weight = few.items[k], few.weights[k] & MASK
        more_left, less_right = squares_moved(weight, left[c], total[c] & MASK)
        square_left += more_left
        square_right -= less_right
        left[c] += weight
        packed_left += few.weights[k]
        note_cut(k, _if_cut(k, float(square_left), cuts), float(square_right), packed_left, cuts)
