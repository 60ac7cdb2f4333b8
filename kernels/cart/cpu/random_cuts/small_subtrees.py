"""Subtrees of nodes with so few rows that a word has a bit for each (contract:
``kernels.cart.grow_cart``).

Most nodes of a deep tree have a handful of rows, and what they cost is the start of every loop over
these. Here the rows of a node of up to ``MOST_ROWS`` get a lane each, and the whole subtree below
it is grown on these lanes: a node is the word of its rows, a cut parts it by one comparison of
vectors, and rows and classes are counted by counting bits. A feature's codes are gathered once,
when the subtree looks at it first, and records are moved once, to their leaf.

    lane                 0   1   2   3   4 ...
    rows of the node     1   0   1   1   0       0b01101
    codes of a feature  17   5  17   3   9       3 ... 17, the cut is behind 3
    on the left          0   .   0   1   .       0b01000

This serves codes of one byte and two classes by the Gini impurity, where all rows count alike
(``RowArrays.unit``), the table has up to ``MOST_ON_LANES`` features, and no codes are read row by
row. Forests of 100,000 x 10, whose nodes look at 3 features, take 0.81 of the time (one thread, AMD
EPYC with other work to do); with 5 of 28 it would be 1.05 of what ``by_row`` takes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....runtime.compilation import fused, inlined, inner
from ....runtime.cpu.lanes import LANES, count_bits, lanes_left, lowest_bit, range_of_lanes
from ....scalars.gain import square
from ....scalars.rng import PURPOSE_FEATURES, PURPOSE_THRESHOLD, draw, subkey
from ....scalars.routing import random_cut
from ..bounds import highest_score
from ..feature_order import draw_features, put_back
from ..nodes import note_split, stays_leaf
from ..scores import MASK, NO_CANDIDATE, heavy_enough, score_of_two_classes
from .by_row import N_CODES, Limits, last_bin

u64, i64 = np.uint64, np.int64

LOW_32 = u64(0xFFFFFFFF)
S32, S63 = u64(32), u64(63)
MOST_ROWS = 64
"""Rows of the largest such node: the bits of a word."""
ALL = u64(0xFFFFFFFFFFFFFFFF)


class SubtreeLanes(NamedTuple):
    """One thread's scratch for the rows of a subtree.

    codes : uint8, (n_features * MOST_ROWS,)
        The codes of a feature, a lane for each row.
    gathered : int64, (n_features,)
        The number of the subtree whose codes a feature has.
    number : int64, (2,)
        The number of the subtree, and how many lanes are filled, whole vectors.
    records : uint64, (MOST_ROWS,)
    node : int64, (MOST_ROWS + 1,)
        Nodes that are to be looked at.
    inside : uint64, (MOST_ROWS + 1,)
        Their rows.
    """

    codes: np.ndarray
    gathered: np.ndarray
    number: np.ndarray
    records: np.ndarray
    node: np.ndarray
    inside: np.ndarray


def subtree_lanes(lines, n_features):
    """Allocate lines for so many features, by ``lines(shape, dtype)``."""
    return SubtreeLanes(
        codes=lines(n_features * MOST_ROWS, np.uint8),
        gathered=lines(n_features),
        number=lines(2),
        records=lines(MOST_ROWS, np.uint64),
        node=lines(MOST_ROWS + 1),
        inside=lines(MOST_ROWS + 1, np.uint64),
    )


@inlined
def suits_lanes(node, rows):
    """Return whether everything below a node is grown on lanes (see ``ways_of_nodes``)."""
    is_small = node.end - node.begin <= MOST_ROWS
    return is_small and rows.middle.size > 0 and rows.by_row.size == 0


@inner
def take_records(records, lanes):
    """Begin a subtree of some records; return the word of those of class 1."""
    lanes.number[0] += 1
    lanes.number[1] = (records.size + LANES - 1) // LANES * LANES
    ones = u64(0)
    for i in range(u64(records.size)):
        record = records[i]
        lanes.records[i] = record
        ones |= (record >> S63) << i
    return ones


@inner
def put_records(records, lanes, inside):
    """Put the records of a leaf in place."""
    i = u64(0)
    while inside != u64(0):
        records[i] = lanes.records[lowest_bit(inside)]
        inside &= inside - u64(1)
        i += u64(1)


@fused
def part_on_lanes(table, rows, params, tree_weight, node, statistics, inside, ones, room):
    """Fill in the node's best split as ``find_split`` does; return the rows on its left, 0 if there
    is none."""
    node.feature = -1
    node.child = -1
    node.gain = 0.0
    n, n_ones = node.end - node.begin, i64(count_bits(inside & ones))
    zero_weight, one_weight = (n - n_ones) * rows.unit, n_ones * rows.unit
    statistics[0], statistics[1] = zero_weight, one_weight
    least_weight = params.min_weight_fraction * float(tree_weight)
    packed = n * rows.unit
    if n_ones == 0 or n_ones == n or stays_leaf(node, packed, params, least_weight):
        return u64(0)
    limits = Limits(False, params.min_samples_leaf, least_weight)
    left = _best_cut(table, rows, params, limits, node, packed, inside, ones, room)
    above = square(float(zero_weight & MASK)) + square(float(one_weight & MASK))
    parent = above / float(packed & MASK)
    note_split(table, params, tree_weight, node, room.found[1], parent)
    return left if node.feature >= 0 else u64(0)


@fused
def _best_cut(table, rows, params, limits, node, packed, inside, ones, room):
    """Note the best of the random cuts of the features that are looked at in ``found[1]``, and
    return the rows on its left."""
    features, best = room.features, room.found[1]
    n_features, n = features.size, node.end - node.begin
    shuffle_key = subkey(node.key, PURPOSE_FEATURES, u64(0))
    threshold_key = draw(node.key, PURPOSE_THRESHOLD)
    highest = highest_score(n, packed, params, i64(1), room.groups, room.cuts)
    n_ones = i64(count_bits(inside & ones))
    best.score = NO_CANDIDATE
    best_left, best_missing = u64(0), u64(0)
    any_candidate = False
    j = i64(0)
    while j < n_features and (j < params.max_features or not any_candidate):
        draw_features(params, shuffle_key, j + 1, j, room)
        feature = features[j]
        j += 1
        codes, first = room.lanes.codes, u64(feature * MOST_ROWS)
        _gather(table.codes[feature], feature, room.lanes)
        n_bins, missing = i64(table.n_bins[feature]), u64(0)
        both = range_of_lanes(codes, first, inside)
        low, high = i64(both & LOW_32), i64(both >> S32)
        if low == high:
            continue
        any_candidate = True
        # The draws depend on node and feature alone, whichever features were looked at before.
        bits = draw(draw(threshold_key, u64(feature)), u64(0))
        missing_left, other = i64(-1), low
        if high == n_bins:
            missing = inside & ~lanes_left(codes, first, u64(n_bins - 1), u64(n_bins - 1))
            high = i64(range_of_lanes(codes, first, inside & ~missing) >> S32)
            # Only two groups, one bin and the missing values: these go right.
            missing_left = i64(bits & u64(1)) if low < high else i64(0)
            other = n_bins if missing_left == 1 else low
        cut, limit = np.nan, low
        if low < high:
            begin = table.begin[feature]
            ends = table.lower[begin + low], table.upper[begin + high]
            cut = random_cut(ends[0], ends[1], float(i64(bits)))
            own = u64(feature * N_CODES)
            limit = max(low, min(last_bin(rows.middle, own, cut), high - 1))
        left = inside & lanes_left(codes, first, u64(limit), u64(other))
        n_left, ones_left = i64(count_bits(left)), i64(count_bits(left & ones))
        score = _score(n_left, ones_left, n, n_ones, rows.unit, limits)
        if score > best.score:
            best.score, best.feature = score, feature
            best.threshold, best.missing_left = cut, missing_left
            best_left, best_missing = left, missing
            if score >= highest:
                break
    if params.shuffle == 1:
        put_back(j, room)
    if best.score > NO_CANDIDATE:
        _note_gap(table, inside, best_left, best_missing, best, room.lanes)
    return best_left


@inlined
def _score(n_left, ones_left, n, n_ones, unit, limits):
    """Return the score of a cut by rows and rows of class 1 on the left and in the node."""
    n_right, ones_right = n - n_left, n_ones - ones_left
    if not heavy_enough(n_left * unit, n_right * unit, limits):
        return NO_CANDIDATE
    return score_of_two_classes(
        (n_left - ones_left) * unit, ones_left * unit,
        (n_right - ones_right) * unit, ones_right * unit,
    )  # fmt: skip


@inlined
def _gather(column, feature, lanes):
    """Collect a feature's codes of all rows of the subtree, unless they are there."""
    if lanes.gathered[feature] != lanes.number[0]:
        lanes.gathered[feature] = lanes.number[0]
        _gather_codes(
            column, lanes.records, u64(lanes.number[1]), u64(feature * MOST_ROWS), lanes.codes
        )


@inner
def _gather_codes(column, records, n_lanes, first, codes):
    # Lanes that have no row keep the rows of the subtree before: any row will do.
    for i in range(u64(0), n_lanes, u64(LANES)):
        for lane in range(LANES):
            place = i + u64(lane)
            codes[first + place] = column[records[place] & LOW_32]


@inlined
def _note_gap(table, inside, left, missing, best, lanes):
    """Note the codes beside the best cut. It is a threshold only in the gap between the sides. It
    can lie within a bin, or beyond empty ones; NaN asks for the midpoint."""
    first, begin = u64(best.feature * MOST_ROWS), table.begin[best.feature]
    last_left = i64(range_of_lanes(lanes.codes, first, left & ~missing) >> S32)
    first_right, right = i64(-1), inside & ~left & ~missing
    if right != u64(0):
        first_right = i64(range_of_lanes(lanes.codes, first, right) & LOW_32)
        cut = best.threshold
        above, below = table.upper[begin + last_left], table.lower[begin + first_right]
        if not (above <= cut and cut < below):
            best.threshold = np.nan
    best.last_left, best.first_right = last_left, first_right
