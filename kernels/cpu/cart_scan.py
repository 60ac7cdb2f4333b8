"""Scores of the candidates of one feature at one node (contract: ``kernels.grow_cart``).

The rows of the node come in groups of equal codes. A scan walks along the groups, and what it has
passed is the left child:

    groups     c0  c1  c2 | c3  c4 | missing
    left       ----------->                        right = total - left

Candidates are taken in blocks: their statistics are written side by side and scored in loops
that vectorise. Each candidate sees the same operations in the same order as in the contract.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..cart import (
    COUNT_SHIFT,
    ENTROPY,
    GINI,
    POISSON,
    SQUARED_ERROR,
    WEIGHT_MASK,
)
from ..compilation import inlined, inner
from ..scalars.impurity import poisson_score, square, x_log_x
from ..scalars.rounding import larger
from .cart_sorting import merge_argsort

i64 = np.int64
SHIFT, MASK = i64(COUNT_SHIFT), i64(WEIGHT_MASK)
NO_CANDIDATE = -np.inf
BLOCK = 256
"""Candidates that are scored together."""

FOUND = np.dtype(
    [
        ("score", np.float64),
        ("feature", np.int64),
        ("last_left", np.int64),  # a numeric split: the last code on the left that has rows,
        ("first_right", np.int64),  # and the first on the right; -1: missing values alone
        ("threshold", np.float64),  # NaN: half-way between these two
        ("missing_left", np.int64),
        ("value_left", np.float64),  # what monotone constraints compare
        ("value_right", np.float64),
    ]
)
"""The best candidate so far; the categories on the left of a split stand in ``best_bits``."""


class Limits(NamedTuple):
    """What a candidate of the node must keep to.

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


class Block(NamedTuple):
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
    """Rows and weight of a set of rows, packed."""
    if is_regression:
        return statistics[0]
    total = i64(0)
    for s in range(output_begin[1]):
        total += statistics[s]
    return total


@inlined
def pack_block(statistics, packed, n, is_regression, output_begin):
    """Rows and weight of n sets of rows."""
    for j in range(n):
        packed[j] = statistics[0, j]
    if not is_regression:
        for s in range(1, output_begin[1]):
            for j in range(n):
                packed[j] += statistics[s, j]


@inner
def score_block(statistics, packed, n, criterion, output_begin, term, out):
    """Scores of n sets of rows (see ``cart``), -inf where POISSON does not allow one."""
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
    """Scores of one output's classes."""
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
    """Whether the values of the children keep to the constraint on the feature."""
    if limits.direction == 0:
        return True
    if limits.direction > 0 and value_left > value_right:
        return False
    if limits.direction < 0 and value_left < value_right:
        return False
    lowest, highest = min(value_left, value_right), max(value_left, value_right)
    return lowest >= limits.low and highest <= limits.high


@inlined
def heavy_enough(left, right, limits):
    """Whether two children, as packed weights, have rows and weight enough."""
    if min(left >> SHIFT, right >> SHIFT) < limits.least_rows:
        return False
    return float(min(left & MASK, right & MASK)) >= limits.least_weight


@inlined
def value_of(statistics, j, weight, is_regression):
    """The number that monotone constraints compare: the mean, or the share of class 1."""
    if is_regression:
        return float(statistics[1, j]) / weight
    return float(statistics[1, j] & MASK) / weight


@inlined
def note_values(block, j, limits, found):
    """Leave the values of a candidate's children in ``found[0]``."""
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
            right[s, j] = total[s] - left[s, j]
    packed_left, packed_right = block.packed[0], block.packed[1]
    pack_block(left, packed_left, n, limits.is_regression, output_begin)
    pack_block(right, packed_right, n, limits.is_regression, output_begin)
    score_block(left, packed_left, n, limits.criterion, output_begin, block.term, score[0])
    score_block(right, packed_right, n, limits.criterion, output_begin, block.term, score[1])
    for j in range(n):
        score[0, j] = score[0, j] + score[1, j]


# The two commonest problems in one loop instead of twenty: most nodes have a handful of
# candidates, and starting a loop costs more than these.


@inner
def _score_two_classes(left, right, packed_left, packed_right, total, n, out):
    """``_score_any`` for the Gini impurity of two classes."""
    total_0, total_1 = total[0], total[1]
    for j in range(n):
        left_0, left_1 = left[0, j], left[1, j]
        right_0, right_1 = total_0 - left_0, total_1 - left_1
        right[0, j], right[1, j] = right_0, right_1
        packed_left[j], packed_right[j] = left_0 + left_1, right_0 + right_1
        score_left = square(float(left_0 & MASK)) + square(float(left_1 & MASK))
        score_right = square(float(right_0 & MASK)) + square(float(right_1 & MASK))
        out[j] = score_left / float((left_0 + left_1) & MASK) + score_right / float(
            (right_0 + right_1) & MASK
        )


@inner
def _score_one_sum(left, right, packed_left, packed_right, total, n, out):
    """``_score_any`` for the squared error of one output."""
    total_0, total_1 = total[0], total[1]
    for j in range(n):
        left_0, left_1 = left[0, j], left[1, j]
        right_0, right_1 = total_0 - left_0, total_1 - left_1
        right[0, j], right[1, j] = right_0, right_1
        packed_left[j], packed_right[j] = left_0, right_0
        score_left = square(float(left_1)) / float(left_0 & MASK)
        out[j] = score_left + square(float(right_1)) / float(right_0 & MASK)


@inner
def score_candidates(block, total, n, limits, output_begin, found):
    """Score the block's n candidates, whose left sides are known, into ``score[0]``; -inf where
    they are struck out."""
    left, right, score = block.left, block.right, block.score
    packed_left, packed_right = block.packed[0], block.packed[1]
    if total.size == 2 and limits.criterion == GINI:
        _score_two_classes(left, right, packed_left, packed_right, total, n, score[0])
    elif total.size == 2 and limits.criterion == SQUARED_ERROR:
        _score_one_sum(left, right, packed_left, packed_right, total, n, score[0])
    else:
        _score_any(block, total, n, limits, output_begin)
    if limits.least_rows > 1 or limits.least_weight > 0.0:
        for j in range(n):
            if not heavy_enough(packed_left[j], packed_right[j], limits):
                score[0, j] = NO_CANDIDATE
    if limits.bounded:
        for j in range(n):
            note_values(block, j, limits, found)
            if not keeps_order(found[0].value_left, found[0].value_right, limits):
                score[0, j] = NO_CANDIDATE


@inlined
def best_of_block(score, n):
    """The largest of n scores, and its first place."""
    best = NO_CANDIDATE
    for j in range(n):
        best = larger(score[j], best)
    place = i64(0)
    while place < n and score[place] != best:
        place += 1
    return best, place


@inlined
def take_if_better(found, value, feature, last_left, first_right, missing_left):
    """Note a candidate in ``found[1]`` if it beats the best; whether it does."""
    best = found[1]
    if not value > best.score:
        return False
    best.score = value
    best.feature = feature
    best.last_left = last_left
    best.first_right = first_right
    best.threshold = np.nan
    best.missing_left = missing_left
    best.value_left, best.value_right = found[0].value_left, found[0].value_right
    return True


class Groups(NamedTuple):
    """The rows of a node by code, and room to scan them (see ``cart_groups``).

    The groups' statistics are those of ``histogram`` where ``by_rows[0]`` is 0; else they are
    added up from the node's rows, whose numbers are the low halves of ``keys``.

    weights : int64, (rows,)
        Packed.
    items : int64, (n_outputs, rows)
        Entry of the statistics of the row's class, or its value times its weight.
    keys, buffer : uint64, (rows,)
        ``code << 32 | number of the row in the node``.
    histogram : int64
        ``code * n_statistics + s``; zero between two features.
    seen : uint8; seen_words : uint64, the same memory
        1 for the codes that have rows; zero between two features.
    code, first : int64
        Of each group; with ``by_rows`` the group's keys begin at ``first``.
    order, order_buffer : int64
        In which order the groups are scanned.
    ratio : float64
    total, missing, left, right : int64, (n_statistics,)
    """

    by_rows: np.ndarray
    weights: np.ndarray
    items: np.ndarray
    keys: np.ndarray
    buffer: np.ndarray
    counters: np.ndarray
    histogram: np.ndarray
    seen: np.ndarray
    seen_words: np.ndarray
    code: np.ndarray
    first: np.ndarray
    order: np.ndarray
    order_buffer: np.ndarray
    ratio: np.ndarray
    total: np.ndarray
    missing: np.ndarray
    left: np.ndarray
    right: np.ndarray


@inlined
def add_row(items, weights, i, is_regression, statistics):
    """Add row i of the node to statistics."""
    if is_regression:
        statistics[0] += weights[i]
        for o in range(items.shape[0]):
            statistics[1 + o] += items[o, i]
    else:
        for o in range(items.shape[0]):
            statistics[items[o, i]] += weights[i]


@inlined
def add_group(groups, g, is_regression, statistics):
    """Add the rows of group g to statistics."""
    if groups.by_rows[0] == 0:
        start = groups.code[g] * statistics.size
        for s in range(statistics.size):
            statistics[s] += groups.histogram[start + s]
        return
    for k in range(groups.first[g], groups.first[g + 1]):
        i = i64(groups.keys[k] & np.uint64(0xFFFFFFFF))
        add_row(groups.items, groups.weights, i, is_regression, statistics)


@inner
def scan(
    groups, block, n_groups, has_missing, feature, limits, output_begin, found, best_bits, is_set
):
    """Score the cuts of the groups in the order of ``groups.order``.

    ``is_set``: the groups are categories, and those on the left of the best cut are noted in
    ``best_bits``.
    """
    groups.left[:] = 0
    n_cuts = n_groups if has_missing else n_groups - 1
    for first in range(0, n_cuts, BLOCK):
        n = min(BLOCK, n_cuts - first)
        _walk(groups, first, n, limits.is_regression, block.left)
        score_candidates(block, groups.total, n, limits, output_begin, found)
        best, place = best_of_block(block.score[0], n)
        side = i64(0) if has_missing else i64(-1)
        if has_missing:
            if limits.bounded and best > found[1].score:
                note_values(block, place, limits, found)
            values = found[0].value_left, found[0].value_right
            n_left = min(n, n_groups - 1 - first)  # all values and the missing ones: no cut
            _shift(block.left, groups.missing, n_left)
            score_candidates(block, groups.total, n_left, limits, output_begin, found)
            best_1, place_1 = best_of_block(block.score[0], n_left)
            if best_1 > best or (best_1 == best and place_1 < place and n_left > 0):
                best, place, side = best_1, place_1, i64(1)
            else:
                found[0].value_left, found[0].value_right = values
        if not best > found[1].score:
            continue
        if limits.bounded and side != 0:
            note_values(block, place, limits, found)
        at = first + place
        following = i64(-1)
        if at + 1 < n_groups:
            following = groups.code[groups.order[at + 1]]
        code = groups.code[groups.order[at]]
        if take_if_better(found, best, feature, code, following, side) and is_set:
            mark_categories(groups, at, best_bits)


@inlined
def _walk(groups, first, n, is_regression, left):
    """Write what is on the left after each of n places of the order, carried over between
    blocks in ``groups.left``."""
    carried = groups.left
    for j in range(n):
        add_group(groups, groups.order[first + j], is_regression, carried)
        for s in range(carried.size):
            left[s, j] = carried[s]


@inlined
def _shift(left, missing, n):
    for s in range(missing.size):
        for j in range(n):
            left[s, j] += missing[s]


@inner
def score_alone(block, total, limits, output_begin, found):
    """Score of the one candidate whose left side stands in the block's first place; its values
    are left in ``found[0]``."""
    score_candidates(block, total, 1, limits, output_begin, found)
    return block.score[0, 0]


@inlined
def mark_categories(groups, last, best_bits):
    """Note the categories up to place ``last`` of the order as the left side."""
    best_bits[:] = 0
    for j in range(last + 1):
        code = groups.code[groups.order[j]]
        best_bits[code >> 5] |= np.uint32(1) << np.uint32(code & 31)


@inner
def order_by_ratio(groups, n_groups, s, is_regression, output_begin):
    """Put groups of categories in the order of ``statistics[s] / weight``."""
    sums = groups.right
    for g in range(n_groups):
        sums[:] = 0
        add_group(groups, g, is_regression, sums)
        weight = packed_weight(sums, is_regression, output_begin) & MASK
        share = sums[s] if is_regression else sums[s] & MASK
        groups.ratio[g] = float(share) / float(weight)
    merge_argsort(groups.ratio, groups.order, groups.order_buffer, n_groups)
