"""What a candidate split's children are worth, as the search on the device sees them.

Every function takes ``data``, the arrays (statistics of the rows up to each place of an item,
statistics of its bins, statistics of the nodes, where the outputs' entries begin), and a child:
(item, node, last place on the left, slot of the missing rows if they are on the left or -1,
whether it is the right child).
"""

from __future__ import annotations

import numpy as np

from ...runtime.cuda.target import device_function
from ...scalars.impurity import poisson_score, square, x_log_x
from ..problem import COUNT_SHIFT, ENTROPY, MISCLASSIFICATION, POISSON, WEIGHT_MASK

i64, f64 = np.int64, np.float64

NO_SPLIT = -np.inf
SHIFT = i64(COUNT_SHIFT)
MASK = i64(WEIGHT_MASK)
LEAST_WEIGHT, LOWEST, HIGHEST = range(3)
"""Columns of a node's limits: the least weight of a child, the bounds of its value."""


@device_function
def statistic(data, child, s):
    """Entry s of the statistics of a child."""
    up_to, sums, totals, _ = data
    item, node, place, missing, is_right = child
    left = up_to[item, place, s]
    if missing >= 0:
        left += sums[item, missing, s]
    return totals[node, s] - left if is_right else left


@device_function
def is_classification(entry_begin):
    """The entries of regression follow the packed weight."""
    return entry_begin[0] == 0


@device_function
def n_packed(entry_begin):
    """Over how many entries rows and weight are spread."""
    return entry_begin[1] if is_classification(entry_begin) else i64(1)


@device_function
def packed_weight(data, child):
    """Rows and weight of a child."""
    packed = i64(0)
    for s in range(n_packed(data[3])):
        packed += statistic(data, child, s)
    return packed


@device_function
def packed_weight_of_bin(sums, item, b, entry_begin):
    """Rows and weight of a bin."""
    packed = i64(0)
    for s in range(n_packed(entry_begin)):
        packed += sums[item, b, s]
    return packed


@device_function
def as_real(x, entry_begin):
    """The weight of a class, or the sum of an output."""
    return f64(x & MASK) if is_classification(entry_begin) else f64(x)


@device_function
def score_of(data, child, weight, criterion):
    """Score of a child, ``NO_SPLIT`` where it has none (POISSON)."""
    entry_begin = data[3]
    total = 0.0
    for output in range(entry_begin.shape[0] - 1):
        score = 0.0
        for s in range(entry_begin[output], entry_begin[output + 1]):
            x = as_real(statistic(data, child, s), entry_begin)
            if criterion == ENTROPY:
                score += x_log_x(x)
            elif criterion == MISCLASSIFICATION:
                score = max(score, x)
            elif criterion != POISSON:
                score += square(x)
            elif x > 0.0:
                score = poisson_score(x, weight)
            else:
                return NO_SPLIT
        if criterion == ENTROPY:
            score -= x_log_x(weight)
        elif criterion != POISSON and criterion != MISCLASSIFICATION:
            score /= weight
        total += score
    return total


@device_function
def value_of(data, child):
    """What monotone constraints compare: the mean, or the share of class 1."""
    entry_begin = data[3]
    x = as_real(statistic(data, child, entry_begin[1] - 1), entry_begin)
    return x / f64(packed_weight(data, child) & MASK)


@device_function
def score_of_cut(data, left, right, limits, criterion):
    """Score of a candidate, ``NO_SPLIT`` where it is struck out."""
    least_rows, constrained, direction, node, of_nodes = limits
    packed_left = packed_weight(data, left)
    packed_right = packed_weight(data, right)
    if min(packed_left >> SHIFT, packed_right >> SHIFT) < least_rows:
        return NO_SPLIT
    weight_left = f64(packed_left & MASK)
    weight_right = f64(packed_right & MASK)
    if min(weight_left, weight_right) < of_nodes[node, LEAST_WEIGHT]:
        return NO_SPLIT
    if constrained != 0 and direction != 0:
        value_left = value_of(data, left)
        value_right = value_of(data, right)
        if min(value_left, value_right) < of_nodes[node, LOWEST]:
            return NO_SPLIT
        if max(value_left, value_right) > of_nodes[node, HIGHEST]:
            return NO_SPLIT
        if direction > 0 and value_left > value_right or direction < 0 and value_left < value_right:
            return NO_SPLIT
    return score_of(data, left, weight_left, criterion) + score_of(
        data, right, weight_right, criterion
    )


@device_function
def children_of(item, node, number, missing):
    """The children of candidate ``2 * place + side``; the missing rows are on its left if the
    side is 1."""
    slot = missing if number & 1 else -1
    return (item, node, number >> 1, slot, False), (item, node, number >> 1, slot, True)


@device_function
def left_is_larger(data, left, right):
    """Whether the left child has more rows."""
    return packed_weight(data, left) >> SHIFT > packed_weight(data, right) >> SHIFT
