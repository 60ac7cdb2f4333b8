"""Numeric features at a node whose rows are added up by code, none of them with a missing value
(contract: ``kernels.cart.grow_cart``).

The codes that have rows are read off the table of flags, 64 to a word, whose bits are taken out one
after the other; what was read is cleared on the way.
"""

from __future__ import annotations

import numpy as np

from ...runtime.compilation import inlined, inner
from ...runtime.cpu.lanes import flags_set, lowest_bit
from ...scalars.gain import square
from .cuts import note_cut, squares_moved, take_best
from .scores import MASK

u64, i64 = np.uint64, np.int64

WORD = 64


@inlined
def scan_bins(n_bins, groups, feature, packed, limits, cuts, found):
    """Score the cuts of a numeric feature and return whether there are any; clear the table.

    packed : int64
        Rows and weight of the node.
    """
    total, histogram, seen = groups.total, groups.histogram, groups.seen
    if limits.is_regression:
        n = _cut_sums(n_bins, seen, histogram, total[1], cuts)
    elif total.size == 2:
        n = _cut_two_classes(n_bins, seen, histogram, total, cuts)
    else:
        n = _cut_classes(n_bins, seen, histogram, total, groups.left, cuts)
    # Statistics were cleared on the way, and flags are cleared here: the next feature needs zeros.
    for w in range((n_bins + 7) >> 3):
        groups.seen_words[w] = 0
    # The last code notes a cut, too, behind which there is nothing.
    if n == 1:
        return False
    take_best(n - 1, packed, feature, limits, cuts, found)
    return True


@inner
def _cut_sums(n_bins, seen, histogram, total, cuts):
    """Note the cuts behind all codes with rows for the squared error: ``sum**2 / weight``."""
    n, left, packed_left = i64(0), i64(0), i64(0)
    for first in range(0, n_bins, WORD):
        bits = flags_set(seen, u64(first))
        while bits != 0:
            code = u64(first) + lowest_bit(bits)
            # Takes out the lowest flag: the loop runs once for each code with rows, not for each
            # code.
            bits &= bits - u64(1)
            packed_left += histogram[2 * code]
            left += histogram[2 * code + 1]
            histogram[2 * code] = histogram[2 * code + 1] = 0
            cuts.code[n] = code
            # Not divided yet: ``take_best`` divides a vector of cuts at a time.
            above = square(float(left)), square(float(total - left))
            note_cut(n, above[0], above[1], packed_left, cuts)
            n += 1
    return n


@inner
def _cut_two_classes(n_bins, seen, histogram, total, cuts):
    """Note the cuts for the Gini impurity of two classes: ``(sum of squares) / weight``."""
    n, packed_zeros, packed_ones = i64(0), i64(0), i64(0)
    for first in range(0, n_bins, WORD):
        bits = flags_set(seen, u64(first))
        while bits != 0:
            code = u64(first) + lowest_bit(bits)
            bits &= bits - u64(1)
            packed_zeros += histogram[2 * code]
            packed_ones += histogram[2 * code + 1]
            histogram[2 * code] = histogram[2 * code + 1] = 0
            cuts.code[n] = code
            # Products of integers below 2**26 are exact, as are their sums (see ``suits_cuts``).
            zeros, ones = packed_zeros & MASK, packed_ones & MASK
            zeros_right, ones_right = (total[0] & MASK) - zeros, (total[1] & MASK) - ones
            above_left = float(zeros * zeros + ones * ones)
            above_right = float(zeros_right * zeros_right + ones_right * ones_right)
            packed_left = packed_zeros + packed_ones
            note_cut(n, above_left, above_right, packed_left, cuts)
            n += 1
    return n


@inner
def _cut_classes(n_bins, seen, histogram, total, left, cuts):
    """Note the cuts for the Gini impurity of any number of classes (see ``scan``)."""
    n, square_left, square_right, packed_left = i64(0), i64(0), i64(0), i64(0)
    for s in range(left.size):
        left[s] = 0
        square_right += (total[s] & MASK) * (total[s] & MASK)
    for first in range(0, n_bins, WORD):
        bits = flags_set(seen, u64(first))
        while bits != 0:
            code = u64(first) + lowest_bit(bits)
            bits &= bits - u64(1)
            start = i64(code) * left.size
            for s in range(left.size):
                moved = histogram[start + s]
                # Most classes have no rows at a code of a small node, and change no square.
                if moved != 0:
                    histogram[start + s] = 0
                    weight = moved & MASK
                    more_left, less_right = squares_moved(weight, left[s], total[s] & MASK)
                    square_left += more_left
                    square_right -= less_right
                    left[s] += weight
                    packed_left += moved
            cuts.code[n] = code
            above = float(square_left), float(square_right)
            note_cut(n, above[0], above[1], packed_left, cuts)
            n += 1
    return n
