"""Numeric features that cannot hold the best cut of a node, found by approximate gains (contract:
``kernels.cart.grow_cart``).

The gain of a cut follows from the sum s of the values on its left, each less the mean of the node::

    gain = s² W / (l (W - l))        l, W: weight on the left, of the node

so that ``s² / (l (W - l))`` compares cuts. Values are rounded down to so few bits that all sums of
a feature fit into 32, beside which the weights have theirs: a row is one word that is added to a
table of codes, four features at a time, and eight cuts are compared at once, in float32. The
feature with the largest ratio is scored first; then all in their turn, but those whose ratio is
below a bound that follows from the best score and allows for all of this rounding. Nearly always
one is scored. With two classes the values are 0 and 1 and Gini's gain is twice that of the squared
error.

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
from ...runtime.cpu.lanes import largest_ratio, lowest_bit
from ...runtime.dtypes import MAX_BINS
from .scores import MASK, NO_CANDIDATE
from .small_nodes import FEW_ROWS

u64, i64, f32 = np.uint64, np.int64, np.float32

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
    table : int64, (AT_ONCE * N_CODES,)
        Sums of words by code, of one feature behind the other; zero between two groups of features.
    drawn : uint64
        A bit for each feature; zero between two nodes.
    order : int64, (n_features,)
        The features that the node looks at, in ascending order.
    ratio : float32, (n_features,)
        ``s² / (l (W - l))`` of the feature's best cut; -1 without any, infinite if not known.
    """

    words: np.ndarray
    table: np.ndarray
    drawn: np.ndarray
    order: np.ndarray
    ratio: np.ndarray


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
def put_in_order(features, n, drawn, order):
    """Write the first n features in ascending order: neighbours in a row of codes share a cache
    line."""
    for j in range(n):
        drawn[features[j] >> 6] |= u64(1) << u64(features[j] & 63)
    n = i64(0)
    for w in range(drawn.size):
        bits = drawn[w]
        drawn[w] = 0
        while bits != 0:
            order[n] = (w << 6) + i64(lowest_bit(bits))
            bits &= bits - u64(1)
            n += 1


@inner
def add_words(codes, step, first, second, third, fourth, rows, words, table):
    """Add the words of the rows up by the codes of four features: that of a row is ``row * step``
    places behind the feature's first."""
    # The lines of the features are a constant apart, so that one register is enough for them.
    apart = u64(N_CODES)
    for i in range(u64(rows.size)):
        place, word = (rows[i] & LOW_32) * step, words[i]
        table[u64(codes[place + first])] += word
        table[u64(codes[place + second]) + apart] += word
        table[u64(codes[place + third]) + u64(2) * apart] += word
        table[u64(codes[place + fourth]) + u64(3) * apart] += word


@inner
def root_to_beat(best, parent, unit, weight):
    """Return the root of the gain, in units of rounded values, that no feature may have that is
    passed over; negative if none can be."""
    if best == NO_CANDIDATE:
        return -1.0
    least = best - parent - SLACK * (abs(best) + abs(parent))
    return math.sqrt(max(least, 0.0) * unit) - 0.5 * math.sqrt(float(weight)) - 5.0


@inner
def ratio_to_beat(root, weight):
    """Return the ratio (see ``Screen``) up to which a feature can be passed over."""
    return root * root / float(weight) * ROUNDING if root > 0.0 else -1.0


@inner
def best_ratio(table, added):
    """Return the ratio (see ``Screen``) of a feature, and clear the sums of its words by code."""
    weight = added & i64(LOW_32)
    # Rounded values do not add up to zero: the mean of what is left is taken off again.
    mean = f32(float(added >> i64(32)) / float(weight))
    return largest_ratio(table, i64(N_CODES), mean, f32(weight))
