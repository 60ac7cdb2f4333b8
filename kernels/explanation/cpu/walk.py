"""The steps of a walk down a tree, for a block of rows: loops over points and rows that become
vector instructions.

Functions take whole arrays and numbers of lines, not lines: a view costs an atomic count of
references.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...runtime.compilation import inner
from ...scalars.explanation import (
    flow_slope,
    known_share,
    known_slope,
    left_share,
    mixed,
    slope,
    step_to_known,
)
from ...scalars.routing import is_left_category, names_category, value_goes_left


class WalkMemory(NamedTuple):
    """Working memory of a block of rows, float64.

    x : shape (n_features, block)
        Their values.
    path : shape (n_levels, block)
        1.0 where a row goes to the current child, as at all splits by the same feature above.
    on_left, step : shape (n_levels, block)
        Of the split at a level: ``path`` in the left child, and ``step_to_known``.
    flow : shape (n_levels + 1, n_flows, n_points, block)
        What arrives, times the weights of the quadrature; then its derivatives by t of the
        features above.
    value : shape (2 * n_levels, n_points, block)
        Expected values of the children of the split at a level.
    total : shape (block,)
    sums : shape (n_features, block) or (n_features + n_features², block)
        Of a group of trees: Shapley values, then pairs.
    feature_of : int64, shape (n_slots,)
        The features of the current path.
    """

    x: np.ndarray
    path: np.ndarray
    on_left: np.ndarray
    step: np.ndarray
    flow: np.ndarray
    value: np.ndarray
    total: np.ndarray
    sums: np.ndarray
    feature_of: np.ndarray


@inner
def start(program, tree, work, m):
    """Set what arrives at the root."""
    n_points = program.n_points[tree]
    for q in range(n_points):
        weight = program.weights[n_points * (n_points - 1) // 2 + q]
        for i in range(m):
            work.flow[0, 0, q, i] = weight


@inner
def send(program, splits, split, x, on_left, line, m):
    """Write 1.0 for the rows that a split sends left, 0.0 for the others."""
    f, threshold, begin = (
        splits.feature[split],
        splits.threshold[split],
        splits.category_begin[split],
    )
    missing_left = splits.missing_left[split] != 0
    if begin < 0:
        for i in range(m):
            goes_left = value_goes_left(x[f, i], threshold, missing_left)
            on_left[line, i] = 1.0 if goes_left else 0.0
        return
    for i in range(m):
        goes_left = missing_left
        if names_category(x[f, i], program.n_categories[f]):
            category = np.int64(x[f, i])
            word = program.category_words[begin + (category >> 5)]
            goes_left = is_left_category(word, category)
        on_left[line, i] = 1.0 if goes_left else 0.0


@inner
def visit(program, splits, split, work, m):
    """Find out which rows go left, on their first visit to a split."""
    on_left, path, step = work.on_left, work.path, work.step
    level, before, share = splits.level[split], splits.before[split], splits.share[split]
    send(program, splits, split, work.x, on_left, level, m)
    if before >= 0:
        for i in range(m):
            # A row is on the path of a feature only if it passes all splits by it.
            on_left[level, i] *= path[before, i]
        for i in range(m):
            step[level, i] = step_to_known(on_left[level, i], path[before, i], share)
    else:
        for i in range(m):
            step[level, i] = step_to_known(on_left[level, i], 1.0, share)


@inner
def flow_left(program, splits, split, n_points, work, with_pairs, m):
    """Let what arrives at a split go to its left child."""
    flow, step = work.flow, work.step
    level, share, passed = splits.level[split], splits.share[split], splits.passed[split]
    own, n_above = 1 + splits.slot[split], splits.n_above[split]
    begin = n_points * (n_points - 1) // 2
    for q in range(n_points):
        # The probability that the feature is known at this point of the quadrature, of those that
        # pass so far.
        known = known_share(program.points[begin + q], passed)
        for i in range(m):
            gone = left_share(share, step[level, i], known)
            flow[level + 1, 0, q, i] = flow[level, 0, q, i] * gone
        if not with_pairs:
            continue
        # The derivatives by the features above are passed on like the flow itself.
        for k in range(1, 1 + n_above):
            for i in range(m):
                gone = left_share(share, step[level, i], known)
                flow[level + 1, k, q, i] = flow[level, k, q, i] * gone
        # The first split by this feature: nothing depends on it before.
        if own > n_above:
            for i in range(m):
                flow[level, own, q, i] = 0.0
        d = known_slope(program.points[begin + q], passed)
        for i in range(m):
            gone = left_share(share, step[level, i], known)
            weight, before = flow[level, 0, q, i], flow[level, own, q, i]
            flow[level + 1, own, q, i] = flow_slope(before, gone, weight, d, step[level, i])


@inner
def flow_right(splits, split, n_points, work, with_pairs, m):
    """Turn what went to the left child of a split into the rest, which goes to its right child."""
    flow, path, on_left = work.flow, work.path, work.on_left
    level, before = splits.level[split], splits.before[split]
    n_flows = 1
    if with_pairs:
        n_flows = 1 + max(splits.n_above[split], splits.slot[split] + 1)
    for k in range(n_flows):
        for q in range(n_points):
            for i in range(m):
                # The right child takes the place of the left one, whose flow is not needed any
                # more.
                flow[level + 1, k, q, i] = flow[level, k, q, i] - flow[level + 1, k, q, i]
    if before >= 0:
        for i in range(m):
            path[level, i] = path[before, i] - on_left[level, i]
    else:
        for i in range(m):
            path[level, i] = 1.0 - on_left[level, i]


@inner
def set_value(value, side, n_points, leaf, m):
    """Write the value of a leaf."""
    for q in range(n_points):
        for i in range(m):
            value[side, q, i] = leaf


@inner
def add_slopes(program, splits, split, n_points, k, work, m):
    """Add up the derivative of a split over the points, for one of the flows."""
    flow, value, total = work.flow, work.value, work.total
    level, passed = splits.level[split], splits.passed[split]
    begin = n_points * (n_points - 1) // 2
    for i in range(m):
        total[i] = 0.0
    for q in range(n_points):
        d = known_slope(program.points[begin + q], passed)
        for i in range(m):
            left, right = value[2 * level, q, i], value[2 * level + 1, q, i]
            total[i] += slope(flow[level, k, q, i], d, left, right)


@inner
def add_leaves(program, splits, split, n_points, column, work, m):
    """Add slopes and mix as ``add_slopes`` and ``mix`` do, where both children are leaves."""
    flow, value, total, step = work.flow, work.value, work.total, work.step
    left = program.value[splits.left[split], column]
    right = program.value[splits.right[split], column]
    level, share, passed = splits.level[split], splits.share[split], splits.passed[split]
    side = splits.side[split]
    begin = n_points * (n_points - 1) // 2
    for i in range(m):
        total[i] = 0.0
    for q in range(n_points):
        d = known_slope(program.points[begin + q], passed)
        known = known_share(program.points[begin + q], passed)
        for i in range(m):
            # One pass for both: values of leaves are constants, which need no lines of memory.
            total[i] += slope(flow[level, 0, q, i], d, left, right)
            if side >= 0:
                value[side, q, i] = mixed(left, right, left_share(share, step[level, i], known))


@inner
def mix(program, splits, split, n_points, work, m):
    """Hand the expected value of a split to the one above."""
    value, step = work.value, work.step
    level, share, passed = splits.level[split], splits.share[split], splits.passed[split]
    side = splits.side[split]
    begin = n_points * (n_points - 1) // 2
    for q in range(n_points):
        known = known_share(program.points[begin + q], passed)
        for i in range(m):
            left, right = value[2 * level, q, i], value[2 * level + 1, q, i]
            value[side, q, i] = mixed(left, right, left_share(share, step[level, i], known))


@inner
def add_total(sums, cell, step, level, total, m):
    for i in range(m):
        sums[cell, i] += step[level, i] * total[i]


@inner
def finish(program, splits, split, n_points, column, work, with_pairs, m):
    """Add the derivatives by a split whose children are done."""
    level, f, own = splits.level[split], splits.feature[split], splits.slot[split]
    left, right = splits.left[split], splits.right[split]
    # Both children are leaves, as at the end of most paths.
    if left >= 0 and right >= 0 and not with_pairs:
        add_leaves(program, splits, split, n_points, column, work, m)
        add_total(work.sums, f, work.step, level, work.total, m)
        return
    if left >= 0:
        set_value(work.value, 2 * level, n_points, program.value[left, column], m)
    if right >= 0:
        set_value(work.value, 2 * level + 1, n_points, program.value[right, column], m)
    add_slopes(program, splits, split, n_points, 0, work, m)
    add_total(work.sums, f, work.step, level, work.total, m)
    if with_pairs:
        n_features = work.x.shape[0]
        # Pairs with each feature above: the derivative of the flow by that feature in place of the
        # flow.
        for slot in range(splits.n_above[split]):
            if slot != own:
                add_slopes(program, splits, split, n_points, 1 + slot, work, m)
                low, high = min(f, work.feature_of[slot]), max(f, work.feature_of[slot])
                cell = n_features + low * n_features + high
                add_total(work.sums, cell, work.step, level, work.total, m)
    # The split above needs the expected value; the root's is not used.
    if splits.side[split] >= 0:
        mix(program, splits, split, n_points, work, m)
