"""Scores of candidates at one node, and the best so far (contract: ``kernels.cart.grow_cart``).

Candidates are taken in blocks: their statistics are written side by side and scored in loops
that vectorise. Each candidate sees the same operations in the same order as in the contract.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...runtime.compilation import inlined, inner
from ...scalars.gain import poisson_score, square, x_log_x
from ...scalars.rounding import larger
from ..problem import COUNT_SHIFT, ENTROPY, GINI, POISSON, SQUARED_ERROR, WEIGHT_MASK

i64 = np.int64
SHIFT, MASK = i64(COUNT_SHIFT), i64(WEIGHT_MASK)
NO_CANDIDATE = -np.inf
EXACT_WEIGHT = i64(2**26)
"""Weights up to this one have squares, and sums of squares, that float64 holds exactly: it does
not matter in which order the terms of a Gini score are added up."""
BLOCK = 256
"""Candidates that are scored together."""

FOUND = np.dtype(
    [
        ("score", np.float64),
        ("feature", np.int64),
        ("last_left", np.int64),  # a numeric split: the last code on the left that has rows,
        ("first_right", np.int64),  # and the first on the right; -1: missing values alone
        ("threshold", np.float64),  # NaN: half-way between these two
        ("line", np.int64),  # a random numeric cut: where the codes of the node's rows are
        ("missing_left", np.int64),
        ("value_left", np.float64),  # what monotone constraints compare
        ("value_right", np.float64),
    ]
)
"""The best candidate so far; the categories on the left of a split are in ``best_bits``."""


class SplitLimits(NamedTuple):
    """The limits that a candidate of the node must keep to.

    criterion : int
    is_regression : bool
    least_rows : int
    least_weight : float
    direction : int
        The monotone constraint on the feature.
    low, high : float
        Bounds on the values of the children.
    bounded : bool
        Whether any feature is constrained.
    """

    criterion: int
    is_regression: bool
    least_rows: int
    least_weight: float
    direction: int
    low: float
    high: float
    bounded: bool


class CandidateBlock(NamedTuple):
    """Statistics and scores of up to ``BLOCK`` candidates.

    left, right : int64, (n_statistics, BLOCK)
    packed : int64, (2, BLOCK)
        Rows and weight of the two children.
    term : float64, (BLOCK,)
    score : float64, (2, BLOCK)
    """

    left: np.ndarray
    right: np.ndarray
    packed: np.ndarray
    term: np.ndarray
    score: np.ndarray


@inlined
def packed_weight(statistics, is_regression, output_begin):
    """Return rows and weight of a set of rows, packed."""
    if is_regression:
        return statistics[0]
    # Every row has one class of the first output, whose classes add up to all rows.
    total = i64(0)
    for s in range(output_begin[1]):
        total += statistics[s]
    return total


@inlined
def pack_block(statistics, packed, n, is_regression, output_begin):
    """Compute rows and weight of n sets of rows, packed."""
    for j in range(n):
        packed[j] = statistics[0, j]
    if not is_regression:
        for s in range(1, output_begin[1]):
            for j in range(n):
                packed[j] += statistics[s, j]


@inner
def score_block(statistics, packed, n, criterion, output_begin, term, out):
    """Score n sets of rows (see ``problem``), -inf where POISSON does not allow one."""
    # Candidates are in the inner loops, which vectorise; each of them still sees its terms in the
    # order of the contract, output by output and class by class.
    for j in range(n):
        out[j] = 0.0
    if criterion == SQUARED_ERROR:
        for s in range(1, statistics.shape[0]):
            for j in range(n):
                out[j] = out[j] + square(float(statistics[s, j])) / float(packed[j] & MASK)
    elif criterion == POISSON:
        for s in range(1, statistics.shape[0]):
            for j in range(n):
                if statistics[s, j] <= 0:
                    out[j] = NO_CANDIDATE
                else:
                    weight = float(packed[j] & MASK)
                    out[j] = out[j] + poisson_score(float(statistics[s, j]), weight)
    else:
        for o in range(output_begin.size - 1):
            first, last = output_begin[o], output_begin[o + 1]
            _score_classes(statistics, packed, n, criterion, first, last, term)
            for j in range(n):
                out[j] = out[j] + term[j]


@inner
def _score_classes(statistics, packed, n, criterion, first, last, term):
    """Score one output's classes."""
    for j in range(n):
        term[j] = 0.0
    for s in range(first, last):
        if criterion == GINI:
            for j in range(n):
                term[j] = term[j] + square(float(statistics[s, j] & MASK))
        elif criterion == ENTROPY:
            for j in range(n):
                term[j] = term[j] + x_log_x(float(statistics[s, j] & MASK))
        else:
            for j in range(n):
                term[j] = larger(term[j], float(statistics[s, j] & MASK))
    if criterion == GINI:
        for j in range(n):
            term[j] = term[j] / float(packed[j] & MASK)
    elif criterion == ENTROPY:
        for j in range(n):
            term[j] = term[j] - x_log_x(float(packed[j] & MASK))


@inlined
def keeps_order(value_left, value_right, limits):
    """Return whether the values of the children keep to the constraint on the feature."""
    if limits.direction == 0:
        return True
    if limits.direction > 0 and value_left > value_right:
        return False
    if limits.direction < 0 and value_left < value_right:
        return False
    # Bounds come from constrained splits above; the feature at hand must keep to them, too.
    lowest, highest = min(value_left, value_right), max(value_left, value_right)
    return lowest >= limits.low and highest <= limits.high


@inlined
def heavy_enough(left, right, limits):
    """Return whether two children, given as packed weights, have enough rows and weight."""
    if min(left >> SHIFT, right >> SHIFT) < limits.least_rows:
        return False
    return float(min(left & MASK, right & MASK)) >= limits.least_weight


@inlined
def value_of(statistics, j, weight, is_regression):
    """Return the number that monotone constraints compare: the mean, or the share of class 1."""
    if is_regression:
        return float(statistics[1, j]) / weight
    return float(statistics[1, j] & MASK) / weight


@inlined
def note_values(block, j, limits, found):
    """Note the values of a candidate's children in ``found[0]``."""
    for side in range(2):
        weight = float(block.packed[side, j] & MASK)
        if side == 0:
            found[0].value_left = value_of(block.left, j, weight, limits.is_regression)
        else:
            found[0].value_right = value_of(block.right, j, weight, limits.is_regression)


@inlined
def _score_any(block, total, n, limits, output_begin):
    """Fill in the right sides and packed weights of the block, and the scores."""
    left, right, score = block.left, block.right, block.score
    for s in range(total.size):
        for j in range(n):
            # In integers: the right side is exact, and so is its score.
            right[s, j] = total[s] - left[s, j]
    packed_left, packed_right = block.packed[0], block.packed[1]
    pack_block(left, packed_left, n, limits.is_regression, output_begin)
    pack_block(right, packed_right, n, limits.is_regression, output_begin)
    score_block(left, packed_left, n, limits.criterion, output_begin, block.term, score[0])
    score_block(right, packed_right, n, limits.criterion, output_begin, block.term, score[1])
    for j in range(n):
        score[0, j] = score[0, j] + score[1, j]


@inlined
def score_of_two_classes(left_0, left_1, right_0, right_1):
    """Return the Gini score of a cut by the packed weights of the classes on its sides."""
    above_left = square(float(left_0 & MASK)) + square(float(left_1 & MASK))
    above_right = square(float(right_0 & MASK)) + square(float(right_1 & MASK))
    weight_left, weight_right = float((left_0 + left_1) & MASK), float((right_0 + right_1) & MASK)
    return above_left / weight_left + above_right / weight_right


@inner
def _score_two_classes(left, right, packed_left, packed_right, total, n, out):
    """Score as ``_score_any`` does, by the Gini impurity of two classes, in one loop instead of
    twenty: most nodes have a handful of candidates, and starting a loop costs more than these.

    Forests of 10,000 x 20 take 0.89 of the time with it (one thread, AMD EPYC).
    """
    total_0, total_1 = total[0], total[1]
    for j in range(n):
        left_0, left_1 = left[0, j], left[1, j]
        right_0, right_1 = total_0 - left_0, total_1 - left_1
        right[0, j], right[1, j] = right_0, right_1
        packed_left[j], packed_right[j] = left_0 + left_1, right_0 + right_1
        out[j] = score_of_two_classes(left_0, left_1, right_0, right_1)


@inner
def score_candidates(block, total, n, limits, output_begin, found):
    """Score the block's n candidates, whose left sides are known, into ``score[0]``; -inf where
    they are struck out."""
    left, right, score = block.left, block.right, block.score
    packed_left, packed_right = block.packed[0], block.packed[1]
    # The commonest case by far has a loop of its own.
    if total.size == 2 and limits.criterion == GINI:
        _score_two_classes(left, right, packed_left, packed_right, total, n, score[0])
    else:
        _score_any(block, total, n, limits, output_begin)
    # A cut always has a row on each side, so that the default limits strike nothing out.
    if limits.least_rows > 1 or limits.least_weight > 0.0:
        for j in range(n):
            if not heavy_enough(packed_left[j], packed_right[j], limits):
                score[0, j] = NO_CANDIDATE
    if limits.bounded:
        for j in range(n):
            note_values(block, j, limits, found)
            if not keeps_order(found[0].value_left, found[0].value_right, limits):
                score[0, j] = NO_CANDIDATE


@inner
def score_alone(block, total, limits, output_begin, found):
    """Score the one candidate whose left side is in the block's first place; its values are
    noted in ``found[0]``."""
    score_candidates(block, total, i64(1), limits, output_begin, found)
    return block.score[0, 0]


@inlined
def best_of_block(score, n):
    """Return the largest of n scores, and its first place."""
    best = NO_CANDIDATE
    # The largest score without its place is a loop that vectorises; the place is found after it.
    for j in range(n):
        best = larger(score[j], best)
    place = i64(0)
    while place < n and score[place] != best:
        place += 1
    return best, place


@inlined
def take_if_better(found, value, feature, last_left, first_right, missing_left):
    """Note a candidate in ``found[1]`` if it beats the best, and return whether it does."""
    best = found[1]
    # Strictly better: the first of equals stays, and ``NO_CANDIDATE`` never wins.
    if not value > best.score:
        return False
    best.score = value
    best.feature = feature
    best.last_left = last_left
    best.first_right = first_right
    # A random cut writes its own afterwards.
    best.threshold = np.nan
    best.missing_left = missing_left
    best.value_left, best.value_right = found[0].value_left, found[0].value_right
    return True
