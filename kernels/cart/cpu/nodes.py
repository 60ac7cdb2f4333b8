"""The best split of one node (contract: ``kernels.cart.grow_cart``)."""

from __future__ import annotations

import numpy as np

from ...runtime.compilation import inlined, inner
from ...scalars.rng import PURPOSE_FEATURES, draw, subkey
from ...scalars.routing import midpoint
from ..problem import ABSOLUTE_ERROR
from .absolute import absolute_score, rank_values, scan_absolute
from .classes import scan_classes, suits_running_sums
from .few import NONE, NOT_HERE, scan_few, suits_few
from .groups import clear_groups, group_rows
from .random import take_random_candidate
from .rows import collect
from .scan import order_by_ratio, scan
from .scores import MASK, NO_CANDIDATE, Limits, packed_weight, score_block

u64, i64 = np.uint64, np.int64
S32 = u64(32)


@inner
def find_split(table, rows, params, tree_weight, node, statistics, constant, room):
    """Fill in the node's best split, with ``feature`` -1 if there is none, and its statistics.

    ``constant`` has a bit for each feature that is known to be constant here; what is found to
    be is added.
    """
    node.feature = -1
    node.child = -1
    node.gain = 0.0
    groups = room.groups
    pure = collect(rows, node.begin, node.end, groups, statistics)
    n = node.end - node.begin
    if pure or node.depth >= params.max_depth:
        return
    if n < params.min_samples_split or n < 2 * params.min_samples_leaf:
        return
    is_regression = rows.classes.shape[0] == 0
    packed = packed_weight(statistics, is_regression, rows.output_begin)
    least_weight = params.min_weight_fraction * float(tree_weight)
    if float(packed & MASK) < 2.0 * least_weight:
        return
    for s in range(statistics.size):
        groups.total[s] = statistics[s]
    parent = _prepare(rows, params, node, statistics, packed, room)
    room.found[1].score = NO_CANDIDATE
    _look_at_features(table, rows, params, least_weight, node, packed, constant, room)
    best = room.found[1]
    if best.score == NO_CANDIDATE:
        return
    gain = best.score - parent
    if params.min_gain > 0.0 and not gain >= params.min_gain * float(tree_weight):
        return
    node.gain = gain
    node.feature = best.feature
    node.last_left = best.last_left
    node.missing_left = best.missing_left
    node.value_left, node.value_right = best.value_left, best.value_right
    _set_threshold(table, node, best)


@inlined
def _prepare(rows, params, node, statistics, packed, room):
    """The node's own score; ranks of its values for the absolute error."""
    if params.criterion != ABSOLUTE_ERROR:
        block = room.block
        for s in range(statistics.size):
            block.left[s, 0] = statistics[s]
        block.packed[0, 0] = packed
        score_block(
            block.left, block.packed[0], 1, params.criterion, rows.output_begin, block.term,
            block.score[0],
        )  # fmt: skip
        return block.score[0, 0]
    groups, medians = room.groups, room.medians
    n = node.end - node.begin
    rank_values(
        rows.value_rank, rows.values, rows.records, node.begin, node.end, rows.n_ranks, groups,
        medians,
    )  # fmt: skip
    for i in range(n):
        groups.keys[i] = u64(i)
    return absolute_score(groups, medians, n)


@inlined
def _set_threshold(table, node, best):
    node.threshold = 0.0
    if table.categorical[best.feature] == 1:
        return
    node.threshold = best.threshold
    if best.first_right < 0:
        node.threshold = np.inf
    elif best.threshold != best.threshold:
        first = table.begin[best.feature]
        low, high = table.upper[first + best.last_left], table.lower[first + best.first_right]
        node.threshold = midpoint(low, high)


@inlined
def _look_at_features(table, rows, params, least_weight, node, packed, constant, room):
    """Score the candidates of one feature after another (see the contract)."""
    features = room.features
    n_features = features.size
    shuffle_key = subkey(node.key, PURPOSE_FEATURES, u64(0))
    n_outputs = rows.output_begin.size - 1
    few = suits_few(node.end - node.begin, packed, params, n_outputs)
    running = suits_running_sums(packed, params, n_outputs, room.groups.total.size)
    any_candidate = False
    j = i64(0)
    while j < n_features and (j < params.max_features or not any_candidate):
        if params.shuffle == 1:
            bits = draw(shuffle_key, u64(j))
            other = j + i64((bits * u64(n_features - j)) >> S32)
            room.swapped[j] = other
            features[j], features[other] = features[other], features[j]
        if not _is_marked(constant, features[j]):
            if _look_at_feature(
                table, rows, params, least_weight, node, features[j], few, running, packed, room
            ):
                any_candidate = True
            else:
                _mark(constant, features[j])
        j += 1
    while params.shuffle == 1 and j > 0:  # back to 0, 1, 2, ...
        j -= 1
        other = room.swapped[j]
        features[j], features[other] = features[other], features[j]


@inlined
def _is_marked(flags, feature):
    if flags.size == 0:
        return False
    return (flags[feature >> 6] >> u64(feature & 63)) & u64(1) != 0


@inlined
def _mark(flags, feature):
    if flags.size > 0:
        flags[feature >> 6] |= u64(1) << u64(feature & 63)


@inlined
def _look_at_feature(table, rows, params, least_weight, node, feature, few, running, packed, room):
    """Score the candidates of a feature; whether it has any."""
    groups, medians, found = room.groups, room.medians, room.found
    direction = i64(table.monotone[feature])
    is_regression = rows.classes.shape[0] == 0
    limits = Limits(
        params.criterion,
        is_regression,
        params.min_samples_leaf,
        least_weight,
        direction,
        node.low,
        node.high,
        params.bounded,
    )
    if params.random_splits == 1:
        return take_random_candidate(
            table, rows.records, node.begin, node.end, feature, node.key, groups, room.block,
            medians, limits, rows.output_begin, found, room.bits,
        )  # fmt: skip
    if few and table.categorical[feature] == 0:
        found_here = scan_few(
            table.codes[feature], i64(table.n_bins[feature]), rows.records, node.begin,
            node.end - node.begin, groups, feature, packed, limits, found,
        )  # fmt: skip
        if found_here != NOT_HERE:
            return found_here != NONE
    absolute = params.criterion == ABSOLUTE_ERROR
    n_groups, n_missing = group_rows(
        table.codes[feature], i64(table.n_bins[feature]), rows.records, node.begin, node.end,
        groups, is_regression, room.most_entries, absolute,
    )  # fmt: skip
    has_missing = n_missing > 0
    has_candidate = n_groups > 1 or (n_groups == 1 and has_missing)
    is_set = table.categorical[feature] == 1
    first, last = _orders(rows, is_set)
    for s in range(first, last):
        if not has_candidate:
            break
        if is_set:
            order_by_ratio(groups, n_groups, s, is_regression, rows.output_begin)
        if absolute:
            scan_absolute(
                groups, medians, n_groups, node.end - node.begin, has_missing, feature, limits,
                found, room.bits[0], is_set,
            )  # fmt: skip
        elif running:
            scan_classes(
                groups, n_groups, has_missing, feature, packed, limits, found, room.bits[0], is_set
            )
        else:
            scan(
                groups, room.block, n_groups, has_missing, feature, limits, rows.output_begin,
                found, room.bits[0], is_set,
            )  # fmt: skip
    clear_groups(groups, n_groups)
    return has_candidate


@inlined
def _orders(rows, is_set):
    """The statistics that order the groups of a feature, first … last - 1."""
    if not is_set:
        return i64(0), i64(1)
    if rows.classes.shape[0] == 0:
        return i64(1), i64(1 + rows.values.shape[0])
    n_statistics = rows.output_begin[-1]
    if rows.output_begin.size == 2 and n_statistics == 2:
        return i64(1), i64(2)
    return i64(0), i64(n_statistics)
