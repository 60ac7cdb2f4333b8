"""The best split of one node (contract: ``kernels.cart.grow_cart``)."""

from __future__ import annotations

import numpy as np

from ...runtime.compilation import fused, inlined
from ...scalars.rng import PURPOSE_FEATURES, PURPOSE_THRESHOLD, draw, subkey
from ...scalars.routing import midpoint
from ..problem import ABSOLUTE_ERROR
from .absolute import absolute_score, rank_values, scan_absolute
from .bins import scan_bins
from .bounds import highest_score
from .cuts import suits_cuts
from .feature_order import draw_features, put_back
from .random_cuts.by_feature import fill_lanes, take_numeric_cut, take_random_candidate
from .random_cuts.by_row import score_of_node, take_random_cuts
from .rows import (
    add_rows,
    clear_groups,
    codes_of_rows,
    collect,
    fill_keys,
    fits_table,
    group_rows,
    sort_by_high_word,
)
from .scan import order_by_ratio, scan, scan_classes, suits_running_sums
from .scores import (
    MASK,
    NO_CANDIDATE,
    SplitLimits,
    packed_weight,
    score_block,
)
from .screen import (
    AT_ONCE,
    N_CODES,
    add_words,
    best_ratio,
    fill_words,
    put_in_order,
    ratio_to_beat,
    root_to_beat,
    suits_screen,
)
from .small_nodes import FEW_ROWS, NONE, NOT_HERE, scan_few, scan_sorted

u32, u64, i64 = np.uint32, np.uint64, np.int64

LOW_32 = u64(0xFFFFFFFF)
S32 = u64(32)


@fused
def find_split(table, rows, params, tree_weight, node, statistics, constant, room):
    """Fill in the node's best split, with ``feature`` -1 if there is none, and its statistics.

    ``constant`` has a bit for each feature that is known to be constant here; those that are found
    to be constant are added.
    """
    node.feature = -1
    node.child = -1
    node.gain = 0.0
    groups = room.groups
    # Statistics: leaves have them too, so that they come before the reasons not to split.
    pure = collect(rows, node.begin, node.end, groups, statistics)
    is_regression = rows.classes.shape[0] == 0
    packed = packed_weight(statistics, is_regression, rows.output_begin)
    least_weight = params.min_weight_fraction * float(tree_weight)
    if pure or stays_leaf(node, packed, params, least_weight):
        return
    n = node.end - node.begin
    for s in range(statistics.size):
        groups.total[s] = statistics[s]
    # The search: ``found[1]`` keeps the best candidate of all features, ``found[2]`` one that was
    # found ahead of its turn.
    room.found[1].score = room.found[2].score = NO_CANDIDATE
    room.found[1].line = 0
    if params.random_splits == 1 and rows.by_row.size > 0:
        parent = score_of_node(statistics, is_regression)
        take_random_cuts(table, rows, params, least_weight, node, packed, room)
    else:
        parent = _prepare(rows, params, node, statistics, packed, room)
        if params.random_splits == 1:
            fill_lanes(groups, n)
        _look_at_features(table, rows, params, least_weight, node, packed, parent, constant, room)
    note_split(table, params, tree_weight, node, room.found[1], parent)


@inlined
def stays_leaf(node, packed, params, least_weight):
    """Return whether a node is not split whatever its rows; ``packed`` is their weight."""
    n = node.end - node.begin
    # The reasons to stay a leaf, the cheapest first. Both children need the least weight.
    return (
        node.depth >= params.max_depth
        or n < params.min_samples_split
        or n < 2 * params.min_samples_leaf
        or float(packed & MASK) < 2.0 * least_weight
    )


@inlined
def note_split(table, params, tree_weight, node, best, parent):
    """Fill in the node's split by its best candidate, if there is one and its gain is enough;
    ``parent`` is the node's own score."""
    if best.score == NO_CANDIDATE:
        return
    # The split: thresholds are computed for the winner alone.
    gain = best.score - parent
    if params.min_gain > 0.0 and not gain >= params.min_gain * float(tree_weight):
        return
    node.gain = gain
    node.feature = best.feature
    node.last_left = best.last_left
    node.missing_left = best.missing_left
    node.value_left, node.value_right = best.value_left, best.value_right
    _set_threshold(table, node, best)


@fused
def _prepare(rows, params, node, statistics, packed, room):
    """Return the node's own score; for the absolute error also rank its values."""
    if params.criterion != ABSOLUTE_ERROR:
        # Scored as a block of one candidate: by the operations that score children, in their order.
        block = room.block
        for s in range(statistics.size):
            block.left[s, 0] = statistics[s]
        block.packed[0, 0] = packed
        score_block(
            block.left, block.packed[0], i64(1), params.criterion, rows.output_begin, block.term,
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
        # The score is of all rows, so that they may come in any order.
        groups.keys[i] = u64(i)
    return absolute_score(groups, medians, n)


@inlined
def _set_threshold(table, node, best):
    node.threshold = 0.0
    if table.categorical[best.feature] == 1:
        return
    node.threshold = best.threshold
    if best.first_right < 0:
        # All values are on the left, and missing ones on the right.
        node.threshold = np.inf
    elif best.threshold != best.threshold:
        # NaN: not a random cut, so that the threshold is half-way between the neighbouring bins.
        first = table.begin[best.feature]
        low, high = table.upper[first + best.last_left], table.lower[first + best.first_right]
        node.threshold = midpoint(low, high)


@fused
def _look_at_features(table, rows, params, least_weight, node, packed, parent, constant, room):
    """Score the candidates of one feature after another (see the contract)."""
    features, groups, found = room.features, room.groups, room.found
    n_features = features.size
    shuffle_key = subkey(node.key, PURPOSE_FEATURES, u64(0))
    threshold_key = draw(node.key, PURPOSE_THRESHOLD)
    n_outputs = rows.output_begin.size - 1
    n_rows = node.end - node.begin
    # What holds for every feature of the node is found out once.
    in_cuts = suits_cuts(packed, params, n_outputs)
    highest = highest_score(n_rows, packed, params, n_outputs, groups, room.cuts)
    running = suits_running_sums(packed, params, n_outputs, groups.total.size)
    any_candidate, is_best = False, False
    likeliest, unit, bound = i64(-1), 0.0, -1.0
    n_compared, n_drawn = i64(0), i64(0)
    if in_cuts and suits_screen(room.screen.words, n_rows, packed):
        n_compared = min(params.max_features, n_features)
        n_drawn = draw_features(params, shuffle_key, n_compared, n_drawn, room)
        likeliest, unit = _compare_features(table, rows, node, packed, n_compared, room)
    # The likeliest feature is scored ahead of its turn, so that most others can be passed over.
    j = i64(0) if likeliest < 0 else i64(-1)
    # ``is_best`` never changes the result: ties go to the first feature, so that one which reaches
    # the highest possible score cannot be beaten.
    while j < n_features and not is_best and (j < params.max_features or not any_candidate):
        if j == n_drawn:
            n_drawn = draw_features(params, shuffle_key, j + 1, n_drawn, room)
        feature = likeliest if j < 0 else features[j]
        # A constant feature counts as looked at (see the contract) without a scan.
        if not _is_marked(constant, feature):
            if j >= 0 and j < n_compared and _passes(feature, likeliest, bound, room):
                any_candidate = True
            elif _look_at_feature(
                table, rows, params, least_weight, node, feature, threshold_key, in_cuts,
                running, packed, room,
            ):  # fmt: skip
                any_candidate = True
            else:
                _mark(constant, feature)
            if n_compared > 0:
                best = max(found[1].score, found[2].score)
                bound = ratio_to_beat(
                    root_to_beat(best, parent, unit, packed & MASK), packed & MASK
                )
            is_best = found[1].score >= highest
        if j < 0:
            found[2] = found[1]
            found[1].score = NO_CANDIDATE
            is_best = False
        j += 1
    if params.shuffle == 1:
        put_back(n_drawn, room)


@fused
def _compare_features(table, rows, node, packed, n, room):
    """Fill in the ratios of the first n features (see ``Screen``). Return which numeric feature
    has the largest, -1 if none has a cut, and the unit of gains (see ``fill_words``)."""
    groups, screen = room.groups, room.screen
    order, n_rows = screen.order, node.end - node.begin
    is_regression = rows.classes.shape[0] == 0
    total = groups.total[1] if is_regression else groups.total[1] & MASK
    added, unit = fill_words(
        n_rows, packed & MASK, is_regression, total, groups.weights, groups.items[0], screen.words
    )
    put_in_order(room.features, n, screen.drawn, order)
    codes, step, apart = codes_of_rows(rows, n_rows, table.codes.shape)
    likeliest, most = i64(-1), -1.0
    for begin in range(0, n, AT_ONCE):
        # Behind the last feature it is repeated.
        add_words(
            codes, step, u64(order[begin]) * apart, u64(order[min(begin + 1, n - 1)]) * apart,
            u64(order[min(begin + 2, n - 1)]) * apart, u64(order[min(begin + 3, n - 1)]) * apart,
            rows.records[node.begin : node.end], screen.words, screen.table,
        )  # fmt: skip
        for k in range(AT_ONCE):
            feature = order[min(begin + k, n - 1)]
            line = screen.table[k * N_CODES : (k + 1) * N_CODES]
            # Missing values make two candidates of a cut.
            is_known = table.categorical[feature] == 0 and line[table.n_bins[feature]] == 0
            ratio = best_ratio(line, added)
            screen.ratio[feature] = ratio if is_known else np.float32(np.inf)
            if is_known and ratio > most:
                most, likeliest = float(ratio), feature
    return likeliest, unit


@inlined
def _passes(feature, likeliest, bound, room):
    """Return whether a feature has candidates, but none that beats the best so far; that of the
    likeliest one takes its turn."""
    found, ratio = room.found, float(room.screen.ratio[feature])
    if feature != likeliest:
        return 0.0 <= ratio <= bound
    # Strictly better: the first of equals stays.
    if found[2].score > found[1].score:
        found[1] = found[2]
    return True


@inlined
def _is_marked(flags, feature):
    if flags.size == 0:
        return False
    return (flags[feature >> 6] >> u64(feature & 63)) & u64(1) != 0


@inlined
def _mark(flags, feature):
    if flags.size > 0:
        flags[feature >> 6] |= u64(1) << u64(feature & 63)


@fused
def _look_at_feature(
    table, rows, params, least_weight, node, feature, threshold_key, in_cuts, running, packed, room
):
    """Score the candidates of a feature and return whether it has any."""
    groups, found = room.groups, room.found
    is_regression = rows.classes.shape[0] == 0
    limits = SplitLimits(
        params.criterion,
        is_regression,
        params.min_samples_leaf,
        least_weight,
        i64(table.monotone[feature]),
        node.low,
        node.high,
        params.bounded,
    )
    if params.random_splits == 1:
        if params.criterion != ABSOLUTE_ERROR and table.categorical[feature] == 0:
            first = table.begin[feature]
            return take_numeric_cut(
                table.codes[feature], i64(table.n_bins[feature]), table.lower[first:],
                table.upper[first:], rows.records[node.begin : node.end],
                node.end - node.begin, feature, threshold_key, rows.unit, groups, room.block,
                room.codes, limits, rows.output_begin, found,
            )  # fmt: skip
        return take_random_candidate(
            table, rows.records, node.begin, node.end, feature, node.key, groups,
            room.block, room.medians, limits, rows.output_begin, found, room.bits,
        )  # fmt: skip
    column, n_bins = table.codes[feature], i64(table.n_bins[feature])
    n = node.end - node.begin
    in_cuts = in_cuts and table.categorical[feature] == 0
    # From the fastest way to the one that can do everything: all rows in one vector; rows added up
    # by code, or sorted, without missing values; groups of rows.
    if in_cuts and n <= FEW_ROWS:
        codes, step, apart = codes_of_rows(rows, n, table.codes.shape)
        found_here = scan_few(
            codes, step, u64(feature) * apart, n_bins, rows.records, node.begin, n, groups,
            room.few, feature, packed, limits, room.cuts, found,
        )  # fmt: skip
        if found_here != NOT_HERE:
            return found_here != NONE
    by_table = params.criterion != ABSOLUTE_ERROR
    by_table = by_table and fits_table(n_bins, n, groups.total.size, room.most_entries)
    if by_table:
        add_rows(column, rows.records[node.begin : node.end], groups, is_regression)
        # With missing values a cut is two candidates, which only ``_scan_groups`` scores.
        if in_cuts and groups.seen[n_bins] == 0:
            return scan_bins(n_bins, groups, feature, packed, limits, room.cuts, found)
    else:
        fill_keys(column, rows.records, node.begin, n, groups.keys)
        sort_by_high_word(groups.keys, groups.buffer, n, n_bins + 1, groups.counters)
        if in_cuts and i64(groups.keys[n - 1] >> S32) < n_bins:
            return scan_sorted(n, groups, room.few, feature, packed, limits, room.cuts, found)
    return _scan_groups(table, rows, params, node, feature, by_table, running, packed, limits, room)


@fused
def _scan_groups(table, rows, params, node, feature, by_table, running, packed, limits, room):
    """Score the candidates of any feature, group by group; ``by_table``: the rows are added up by
    code, else their keys are sorted."""
    groups, found = room.groups, room.found
    n_groups, n_missing = group_rows(
        i64(table.n_bins[feature]), node.end - node.begin, groups, limits.is_regression, by_table
    )
    has_missing = n_missing > 0
    # One group and missing values: these can be parted from all others.
    has_candidate = n_groups > 1 or (n_groups == 1 and has_missing)
    is_set = table.categorical[feature] == 1
    first, last = _orders(rows, is_set)
    # A categorical feature has as many orders of its groups as there are statistics to order by.
    for s in range(first, last):
        if not has_candidate:
            break
        if is_set:
            order_by_ratio(groups, n_groups, s, limits.is_regression, rows.output_begin)
        if params.criterion == ABSOLUTE_ERROR:
            scan_absolute(
                groups, room.medians, n_groups, node.end - node.begin, has_missing, feature, limits,
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
    # Also without a candidate: the next feature starts from a table of zeros.
    clear_groups(groups, n_groups)
    return has_candidate


@inlined
def _orders(rows, is_set):
    """Return the statistics that order the groups of a feature: first … last - 1."""
    if not is_set:
        return i64(0), i64(1)
    if rows.classes.shape[0] == 0:
        return i64(1), i64(1 + rows.values.shape[0])
    n_statistics = rows.output_begin[-1]
    if rows.output_begin.size == 2 and n_statistics == 2:
        # By the other class the order is the same, backwards.
        return i64(1), i64(2)
    return i64(0), i64(n_statistics)
