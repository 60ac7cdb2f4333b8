"""Scores that no candidate of a node exceeds: once one is reached, no other feature is looked at.

A node of n rows can be parted in ``2**(n - 1) - 1`` ways, whatever the features, and each has one
score, whichever part is the left one. In a deep tree most nodes are so small that the best of these
is soon found: three rows can be parted in three ways, of which every feature has two.
"""

from __future__ import annotations

import numpy as np

from ...runtime.compilation import inlined, inner
from ...scalars.gain import square
from ..problem import GINI, SQUARED_ERROR
from .cuts import best_score
from .scores import EXACT_WEIGHT, MASK, NO_CANDIDATE

i64 = np.int64

MOST_ROWS = 9
"""Rows of a node whose partitions there is room for."""
PARTITIONS_PER_FEATURE = 4
"""Partitions that take less time than a feature's candidates."""


@inlined
def highest_score(n, packed, params, n_outputs, groups, cuts):
    """Return a score that no candidate of a node of n rows exceeds.

    By Gini's criterion a child scores at most its weight, and that if it is of one class.
    """
    if n_outputs > 1:
        return np.inf
    if params.criterion == GINI and packed & MASK <= EXACT_WEIGHT:
        return float(packed & MASK)
    if params.criterion == SQUARED_ERROR and n <= MOST_ROWS:
        # Listing all partitions has to pay: only for a few rows and enough features.
        n_partitions = i64(1) << (n - 1)
        if n_partitions <= PARTITIONS_PER_FEATURE * params.max_features:
            _part_in_all_ways(n, groups.weights, groups.items[0], groups.total[1], cuts)
            return best_score(n_partitions, packed & MASK, cuts)
    return np.inf


@inner
def _part_in_all_ways(n, weights, values, total, cuts):
    """Note all partitions, for the squared error: bit i of its number tells whether row i is on the
    left, where the last row never is."""
    sums, packed = cuts.code, cuts.packed_left
    sums[0] = packed[0] = 0
    for i in range(n - 1):
        first = i64(1) << i
        # The sets with row i are those without it, and the row: n doublings list all of them.
        for k in range(first):
            sums[first + k] = sums[k] + values[i]
            packed[first + k] = packed[k] + weights[i]
    for k in range(i64(1) << (n - 1)):
        cuts.left[k] = square(float(sums[k]))
        cuts.right[k] = square(float(total - sums[k]))
    # The empty set is not a side.
    cuts.left[0] = NO_CANDIDATE
