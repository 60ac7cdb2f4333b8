"""Numeric features that cannot hold the best cut of a node, found without divisions (contract:
``kernels.cart.grow_cart``).

The gain of a cut follows from the sum s of the values on its left, each less the mean of the node::

    gain = s² W / (l (W - l))        l, W: weight on the left, of the node

which is more than a bound where ``s² > bound / W * l (W - l)``. Values are rounded down to so few
bits that all sums of a feature fit into 32, beside which the weights have theirs: a row is one word
that is added to a table of codes, four features at a time, and eight cuts are compared at once, in
float32. The bound allows for all of this rounding, so that a feature without such a cut need not be
scored; the few others are scored as if there were no bound. With two classes the values are 0 and 1
and Gini's gain is twice that of the squared error.

The margin of the bound, in units of rounded values: rounding changes s by at most
``l (W - l) / W``, and float32 by 3 more beside its share of s, which is at most ``sqrt(W) / 2 + 5``
of the root of a gain. In float32 the mean of the rounded values, which is not quite zero, is taken
off the sums, and the error of that is a share of ``|mean| l``. It is small since |mean| < 1:

- Values of numbers, less the integer mean of the node, add up to r, ``0 <= r < W``. Doubled u times
  they add up to ``2**u r``; then ``floor(2**u r / W)`` is taken off each unit of weight, after
  which the sum is less than W. No more is taken off than the whole sum, so the sum of any rows
  stays within the range that it had before.
- Halved values are rounded down, each by less than 1, and there are at most W: they add up to more
  than -W and less than W. No value is both doubled and halved.
- Values of two classes add up to zero before they are rounded.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...runtime.compilation import inlined, inner
from ...runtime.cpu.lanes import running_sums
from ...runtime.dtypes import MAX_BINS
from .scores import MASK, NO_CANDIDATE
from .small_nodes import FEW_ROWS

u64, i32, i64, f32 = np.uint64, np.int32, np.int64, np.float32

LOW_32 = u64(0xFFFFFFFF)
AT_ONCE = 4
"""Features that are added up together."""
N_CODES = MAX_BINS + 1
MOST_WEIGHT = 2**22
"""Weight of a node below which float32 changes no sum by more than the margin has room for."""
MOST_SUM = 2.0**30
SLACK = 2.0**-44
"""Share of the scores that their own rounding may change, in float64."""
ROUNDING = 1.0 - 2.0**-18
"""Factor of the bound that makes room for the roundings of a comparison in float32."""


class Screen(NamedTuple):
    """Scratch to pass over features.

    words : int64, (rows,)
        ``rounded value << 32`` plus the weight of each row; empty where no feature is passed over.
    table : int64, (AT_ONCE, N_CODES)
        Sums of words by code.
    sums, weights : int32, (N_CODES,)
        On the left of each cut.
    """

    words: np.ndarray
    table: np.ndarray
    sums: np.ndarray
    weights: np.ndarray


@inlined
def suits_screen(words, n, packed):
    """Return whether features can be passed over at a node whose cuts are scored in vectors, and
    whether it pays. For nodes of few rows ``scan_few`` is as fast."""
    return words.size > 0 and n > FEW_ROWS and packed & MASK < MOST_WEIGHT


@inner
def fill_words(n, weight, is_regression, total, weights, items, words):
    """Fill in the words of a node's rows; return their sum, and what a gain of the node's scores
    is in units of rounded values.

    total : int
        Of the values, or of the weights of class 1.
    """
    mean = total // weight
    # What the values less their mean, an integer, add up to: nothing with classes.
    rest = total - weight * mean if is_regression else i64(0)
    size = 0.0
    for i in range(u64(n)):
        own = weights[i] & MASK
        value = items[i] - own * mean if is_regression else own * (weight * items[i] - total)
        words[i] = value
        size += abs(float(value))
    up, down = i64(0), i64(0)
    unit = 1.0 if is_regression else 0.5 * float(weight) * float(weight)
    # Sums just below the limit: small values are doubled, so that the margin is small beside them.
    while 0.0 < size <= 0.5 * MOST_SUM:
        size *= 2.0
        unit *= 4.0
        up += 1
    while size > MOST_SUM:
        size *= 0.5
        unit *= 0.25
        down += 1
    # Taken off what is doubled: the mean that is left stays below 1. Without doubling it is 0.
    rest = (rest << up) // weight
    added = i64(0)
    for i in range(u64(n)):
        own = weights[i] & MASK
        words[i] = ((((words[i] << up) >> down) - own * rest) << i64(32)) + own
        added += words[i]
    return added, unit


@inner
def add_words(codes, step, first, second, third, fourth, rows, words, table):
    """Add the words of the rows up by the codes of four features: that of a row is ``row * step``
    places behind the feature's first."""
    a, b, c, d = table[0], table[1], table[2], table[3]
    for k in range(N_CODES):
        a[k] = b[k] = c[k] = d[k] = 0
    for i in range(u64(rows.size)):
        place, word = (rows[i] & LOW_32) * step, words[i]
        a[codes[place + first]] += word
        b[codes[place + second]] += word
        c[codes[place + third]] += word
        d[codes[place + fourth]] += word


@inner
def root_to_beat(best, parent, unit, weight):
    """Return the root of the gain, in units of rounded values, that no feature may have that is
    passed over; negative if none can be."""
    if best == NO_CANDIDATE:
        return -1.0
    least = best - parent - SLACK * (abs(best) + abs(parent))
    return math.sqrt(max(least, 0.0) * unit) - 0.5 * math.sqrt(float(weight)) - 5.0


@inner
def exceeds(sums, weights, added, root):
    """Return whether any cut may have a gain whose root is larger."""
    total = f32(added & i64(LOW_32))
    # Rounded values do not add up to zero: the mean of what is left is taken off again.
    mean = f32(float(added >> i64(32)) / float(added & i64(LOW_32)))
    bound = f32(root * root / float(added & i64(LOW_32)) * ROUNDING)
    n_above = i32(0)
    for k in range(N_CODES):
        left = f32(weights[k])
        s = f32(sums[k]) - mean * left
        # 4: behind the last row, rounding alone makes s differ from zero.
        is_above = s * s > bound * (left * (total - left)) + f32(4.0)
        n_above += i32(1) if is_above else i32(0)
    return n_above != 0


@inlined
def is_passed(table, code, n_bins, added, root, screen):
    """Return whether a feature has cuts, but none that is above the bound; ``table`` are the sums
    of its words by code, ``code`` is that of any row."""
    # Missing values make two candidates of a cut; all the weight at one code leaves none.
    if root <= 0.0 or table[n_bins] != 0 or table[code] == added:
        return False
    running_sums(table, i64(N_CODES), screen.sums, screen.weights)
    return not exceeds(screen.sums, screen.weights, added, root)
