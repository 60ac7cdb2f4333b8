"""Absolute errors of the candidates of one feature (contract: ``kernels.cart.grow_cart``).

Rows are added group by group to two Fenwick trees over the node's distinct values, one of
weights and one of weighted values: after each group the median is found by descending the
first, and the error of all rows so far follows from the two prefix sums at the median.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...runtime.compilation import inner
from ..problem import WEIGHT_MASK
from .rows import sort_by_high_word
from .scan import mark_categories
from .scores import heavy_enough, keeps_order, take_if_better

i64, u64 = np.int64, np.uint64
MASK = i64(WEIGHT_MASK)
LOW_32 = u64(0xFFFFFFFF)


class Medians(NamedTuple):
    """Scratch for the absolute errors of a node.

    rank : int64, (n_outputs, rows)
        Of the row's value among the node's distinct values.
    distinct : int64, (n_outputs, rows)
    n_distinct : int64, (n_outputs,)
    weights, sums : int64, (rows + 1,)
        Fenwick trees, from 1.
    score : float64, (2, groups + 1)
        Of the left and the right child of each cut: minus the errors of the outputs.
    median : int64, (2, groups + 1)
        Of the first output.
    packed : int64, (2, groups + 1)
        Rows and weight of the children.
    """

    rank: np.ndarray
    distinct: np.ndarray
    n_distinct: np.ndarray
    weights: np.ndarray
    sums: np.ndarray
    score: np.ndarray
    median: np.ndarray
    packed: np.ndarray


@inner
def rank_values(value_rank, values, records, begin, end, n_ranks, groups, medians):
    """Number the distinct values of the node's rows, output by output.

    ``value_rank`` are the rows' ranks among all training values, below ``n_ranks``.
    """
    n = end - begin
    for o in range(values.shape[0]):
        for i in range(n):
            row = records[begin + i] & LOW_32
            groups.keys[i] = (u64(value_rank[o, row]) << u64(32)) | u64(i)
        # Sorted by their ranks in the whole table, which number the node's own values in passing.
        sort_by_high_word(groups.keys, groups.buffer, n, n_ranks, groups.counters)
        rank = i64(-1)
        before = u64(0)
        for k in range(n):
            i = groups.keys[k] & LOW_32
            if k == 0 or groups.keys[k] >> u64(32) != before:
                before = groups.keys[k] >> u64(32)
                rank += 1
                medians.distinct[o, rank] = values[o, records[begin + i64(i)] & LOW_32]
            medians.rank[o, i] = rank
        medians.n_distinct[o] = rank + 1


@inner
def _add(tree, size, at, value):
    at += 1
    # ``at & -at`` is the lowest bit that is set: entry ``at`` covers as many places up to it.
    while at <= size:
        tree[at] += value
        at += at & -at


@inner
def _lower_median(medians, size, weight):
    """Return the number of the smallest value with twice the weight up to it at least
    ``weight``, and the weight and the sum below it."""
    step = 1
    while 2 * step <= size:
        step *= 2
    at = i64(0)
    below = i64(0)
    below_sum = i64(0)
    # Descend the tree: a step is taken while twice the weight passed stays below all of it.
    while step > 0:
        if at + step <= size and 2 * (below + medians.weights[at + step]) < weight:
            at += step
            below += medians.weights[at]
            below_sum += medians.sums[at]
        step >>= 1
    return at, below, below_sum


@inner
def _add_rows(groups, medians, o, first, last):
    """Add sorted rows to the Fenwick trees and return their packed weight and sum of values."""
    size = medians.n_distinct[o]
    packed = i64(0)
    total = i64(0)
    for k in range(first, last):
        i = groups.keys[k] & LOW_32
        rank = medians.rank[o, i]
        weight = groups.weights[i] & MASK
        _add(medians.weights, size, rank, weight)
        _add(medians.sums, size, rank, groups.items[o, i])
        packed += groups.weights[i]
        total += groups.items[o, i]
    return packed, total


@inner
def _error(medians, o, weight, total):
    """Return the absolute error around the median of the rows that were added, and the median."""
    at, below, below_sum = _lower_median(medians, medians.n_distinct[o], weight)
    median = medians.distinct[o, at]
    # Rows at the median add nothing, on whichever side they are counted.
    above = (total - below_sum) - median * (weight - below)
    return above + (median * below - below_sum), median


@inner
def absolute_score(groups, medians, n):
    """Return the score of all rows of the node, whose keys may be in any order."""
    total_score = 0.0
    for o in range(groups.items.shape[0]):
        size = medians.n_distinct[o]
        # Both trees start empty, and only their used part is cleared: small nodes are the most.
        medians.weights[: size + 1] = 0
        medians.sums[: size + 1] = 0
        packed, total = _add_rows(groups, medians, o, i64(0), n)
        error, _ = _error(medians, o, packed & MASK, total)
        total_score = total_score + float(-error)
    return total_score


@inner
def _walk(groups, medians, n_groups, n, side, with_missing):
    """Compute the errors of the child on one side of every cut. Cut j parts places 0 ... j of
    the order from the rest; the missing values, which come behind all groups, are added first if
    they are on this side."""
    n_values = groups.first[n_groups]
    for o in range(groups.items.shape[0]):
        size = medians.n_distinct[o]
        medians.weights[: size + 1] = 0
        medians.sums[: size + 1] = 0
        packed = i64(0)
        total = i64(0)
        if with_missing:
            # Their keys come behind those of all groups.
            packed, total = _add_rows(groups, medians, o, n_values, n)
        for step in range(n_groups):
            # The left child grows from the first group on, the right one from the last group back.
            j = step if side == 0 else n_groups - 1 - step
            if side == 1:  # the right child of cut j holds what comes after place j
                _note(medians, side, j, o, packed, total)
            g = groups.order[j]
            more, more_total = _add_rows(groups, medians, o, groups.first[g], groups.first[g + 1])
            packed += more
            total += more_total
            if side == 0:
                _note(medians, side, j, o, packed, total)


@inner
def _note(medians, side, j, o, packed, total):
    error, median = i64(0), i64(0)
    if packed != 0:
        error, median = _error(medians, o, packed & MASK, total)
    # Outputs are walked one after the other: the first one starts the sum of the scores.
    if o == 0:
        medians.score[side, j] = 0.0
        medians.median[side, j] = median
        medians.packed[side, j] = packed
    medians.score[side, j] = medians.score[side, j] + float(-error)


@inner
def scan_absolute(
    groups, medians, n_groups, n, has_missing, feature, limits, found, best_bits, is_set
):
    """Score the cuts by the absolute error (see ``scan`` for other criteria): first all with
    missing values on the right, then all with them on the left, the first of equals by place."""
    # -1: a tie with a feature that was tried before is lost.
    best_place = i64(-1)
    for missing_left in range(2 if has_missing else 1):
        _walk(groups, medians, n_groups, n, i64(0), missing_left == 1)
        _walk(groups, medians, n_groups, n, i64(1), has_missing and missing_left == 0)
        # All values on one side is a candidate only with the missing ones on the other.
        n_cuts = n_groups if has_missing and missing_left == 0 else n_groups - 1
        for j in range(n_cuts):
            if not _allowed(medians, j, limits, found):
                continue
            value = medians.score[0, j] + medians.score[1, j]
            wins_tie = value == found[1].score and j < best_place
            following = i64(-1)
            if j + 1 < n_groups:
                following = groups.code[groups.order[j + 1]]
            side = i64(missing_left) if has_missing else i64(-1)
            if wins_tie:
                # The contract takes places in turn, each with both sides of the missing values.
                # This loop takes one side first, so that a lower place of the other side wins a
                # tie.
                found[1].score = -np.inf
            code = groups.code[groups.order[j]]
            if take_if_better(found, value, feature, code, following, side):
                best_place = j
                if is_set:
                    mark_categories(groups, j, best_bits)


@inner
def _allowed(medians, j, limits, found):
    if not heavy_enough(medians.packed[0, j], medians.packed[1, j], limits):
        return False
    if limits.bounded:
        value_left, value_right = float(medians.median[0, j]), float(medians.median[1, j])
        found[0].value_left, found[0].value_right = value_left, value_right
        return keeps_order(value_left, value_right, limits)
    return True


@inner
def score_of_sides(groups, medians, n, missing_left, limits, found):
    """Return the score of the candidate that sends the keys of value 0 left, 1 right, and 2
    (missing values) to one of both; -inf where it is struck out."""
    sort_by_high_word(groups.keys, groups.buffer, n, i64(3), groups.counters)
    groups.order[0], groups.order[1] = 0, 1
    # The sides are two groups, with missing values behind them as everywhere.
    ends = groups.first
    ends[0] = ends[1] = ends[2] = 0
    for k in range(n):
        side = groups.keys[k] >> u64(32)
        if side == u64(0):
            ends[1] = k + 1
        if side <= u64(1):
            ends[2] = k + 1
    # A side without rows begins where the one before it ends.
    ends[1] = max(ends[1], ends[0])
    ends[2] = max(ends[2], ends[1])
    _walk(groups, medians, i64(2), n, i64(0), missing_left)
    _walk(groups, medians, i64(2), n, i64(1), not missing_left)
    if not _allowed(medians, i64(0), limits, found):
        return -np.inf
    return medians.score[0, 0] + medians.score[1, 0]
