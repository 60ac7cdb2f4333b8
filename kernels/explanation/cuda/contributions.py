"""Shapley values by quadrature: one row and group of trees a thread.

All threads of a block walk through the same trees, so none waits for the branch of another one, and
what a step reads of the forest is read once for all. A thread has working memory to itself, in
lines of one number for every thread. Groups are summed up side by side, and added up in order
afterwards.

GPUTreeShap (Mitchell, Frank and Holmes 2022) packs paths into warps instead, one feature a lane:
for a tree of L leaves and depth D that is about L D² steps, here it is L ceil(D / 2). Neither has
been measured on hardware.
"""

from __future__ import annotations

import numpy as np

from ...prediction.cuda.rows import cells_of
from ...runtime.arrays import Array
from ...runtime.cuda.loops import rolled
from ...runtime.cuda.target import (
    block_size,
    blocks_for,
    blocks_for_rows,
    cuda,
    device_function,
    empty,
    kernel,
    launch,
    zeros,
)
from ...scalars.explanation import (
    flow_slope,
    known_share,
    known_slope,
    left_share,
    mixed,
    slope,
    step_to_known,
)
from ...scalars.primitives import mul
from ...scalars.routing import is_left_category, names_category, value_goes_left
from ..program import ACROSS, DOWN, FIRST, KIND, SPLIT_SHIFT, UP, Program, Size

u32, f64, i64 = np.uint32, np.float64, np.int64
BLOCK = block_size(128)
SUMS_BYTES = 2**28
"""Memory for the sums of groups; rows beyond it are explained by further launches."""


@device_function
def goes_left_at(threshold, missing_left, begin, categories, n_categories, x):
    """Return whether a value goes left at a split."""
    if begin < 0:
        return value_goes_left(x, threshold, missing_left)
    if names_category(x, n_categories):
        category = u32(x)
        return is_left_category(categories[u32(u32(begin) + (category >> u32(5)))], category)
    return missing_left


@device_function
def flow_left(work, t, here, line, n_points, share, passed, step, points, own, n_above, pairs):
    """Let what arrives at a split go to its left child. The lines of a level begin at ``here`` and
    are ``line`` many; ``points`` begins with those of the quadrature."""
    for q in rolled(range(n_points)):
        known = known_share(points[q], passed)
        gone = left_share(share, step, known)
        weight = work[here + q, t]
        work[here + line + q, t] = mul(weight, gone)
        if pairs:
            for k in rolled(range(1, 1 + n_above)):
                at = here + k * n_points + q
                work[at + line, t] = mul(work[at, t], gone)
            at = here + own * n_points + q
            if own > n_above:
                work[at, t] = 0.0
            d = known_slope(points[q], passed)
            work[at + line, t] = flow_slope(work[at, t], gone, weight, d, step)


@device_function
def total_slope(work, t, flow, values, most, n_points, passed, points):
    """Return the derivative by a split, added up over the points."""
    total = 0.0
    for q in rolled(range(n_points)):
        d = known_slope(points[q], passed)
        total += slope(work[flow + q, t], d, work[values + q, t], work[values + most + q, t])
    return total


@device_function
def set_values(work, t, values, n_points, value, leaf, output):
    """Write the value of a child that is a leaf."""
    if leaf >= 0:
        for q in rolled(range(n_points)):
            work[values + q, t] = value[leaf, output]


@device_function
def mix(work, t, values, to, most, n_points, share, passed, step, points):
    """Hand the expected value of a split to the one above."""
    for q in rolled(range(n_points)):
        gone = left_share(share, step, known_share(points[q], passed))
        work[to + q, t] = mixed(work[values + q, t], work[values + most + q, t], gone)


@device_function
def add_pairs(work, t, here, values, most, n_points, passed, points, step, features, f, own,
              n_above, n_features, group, i, pair_sums):  # fmt: skip
    """Add the derivatives of what arrives at a split, times that of the split."""
    for k in rolled(range(1, 1 + n_above)):
        if k != own:
            other = i64(work[features + k, t])
            flow = here + k * n_points
            total = total_slope(work, t, flow, values, most, n_points, passed, points)
            cell = min(f, other) * n_features + max(f, other)
            pair_sums[group, cell, i] += mul(step, total)


@device_function
def visit(work, t, on_left, step, before, goes_left, share):
    """Write on which side of a split the row stays on the path."""
    work[on_left, t] = before if goes_left else 0.0
    work[step, t] = step_to_known(work[on_left, t], before, share)


@device_function
def flow_right(work, t, here, line, n_lines):
    """Turn what went to the left child of a split into the rest, which goes to its right child."""
    for at in rolled(range(here, here + n_lines)):
        work[at + line, t] = work[at, t] - work[at + line, t]


@kernel
def walk_trees(
    feature, threshold, missing_left, category_begin, share_of, level_of, before_of, passed_of,
    left, right, side, slot, n_above_of, steps, step_begin, split_begin, n_points_of, trees,
    group_begin, group_output, categories, n_categories, value, first_output, points, weights,
    cells, row, column, n_levels, n_flows, most, work, sums, pair_sums,
):  # fmt: skip
    """``sums`` has the shape (n_groups, n_features, n_rows), ``pair_sums`` (n_groups, n_features²
    or 0, n_rows), ``work`` (n_lines, n_threads). Lines are those of flows, level by level; of
    values; of paths, of rows on the left and of steps; of the features of the path."""
    n_groups, n, t, pairs = sums.shape[0], sums.shape[2], cuda.grid(1), pair_sums.shape[1] > 0
    # Where the lines of each kind begin.
    values = (n_levels + 1) * n_flows * most
    paths = values + 2 * n_levels * most
    features = paths + 3 * n_levels
    n_tiles = (n + BLOCK - 1) // BLOCK
    tile = cuda.blockIdx.x
    # A tile of rows with a group of trees a block at a time.
    while tile < n_groups * n_tiles:
        group = tile // n_tiles
        i = (tile - group * n_tiles) * BLOCK + cuda.threadIdx.x
        for entry in range(group_begin[group], group_begin[group + 1] if i < n else 0):
            tree = trees[entry]
            output, n_points = group_output[group] - first_output[tree], n_points_of[tree]
            line, rule = n_flows * n_points, points[n_points * (n_points - 1) // 2 :]
            for q in rolled(range(n_points)):
                # A tree: what arrives at its root, then step by step as on the CPU.
                work[q, t] = weights[n_points * (n_points - 1) // 2 + q]
            for s in range(step_begin[tree], step_begin[tree + 1]):
                kind, first, at = steps[s] & KIND, steps[s] & FIRST, steps[s] >> SPLIT_SHIFT
                level, f, own, n_above = level_of[at], feature[at], 1 + slot[at], n_above_of[at]
                share, passed, here = share_of[at], passed_of[at], level * line
                of_left, path = values + 2 * level * most, paths + level
                on_left, own_step = path + n_levels, path + 2 * n_levels
                # Where the row is on the path of the split's feature, by the closest split by it
                # above.
                before = work[paths + before_of[at], t] if before_of[at] >= 0 else 1.0
                if first:
                    # First visit: which way the row goes. Nothing else differs from row to row but
                    # numbers.
                    goes_left = goes_left_at(threshold[at], missing_left[at] != 0,
                        category_begin[at], categories, n_categories[f],
                        f64(cells[i * row + f * column]))  # fmt: skip
                    visit(work, t, on_left, own_step, before, goes_left, share)
                    work[features + own, t] = f
                step = work[own_step, t]
                if kind == DOWN or (kind == ACROSS and first):
                    # Down, or across for the first time: the flow to the left child.
                    flow_left(work, t, here, line, n_points, share, passed, step, rule, own,
                        n_above, pairs)  # fmt: skip
                    work[path, t] = work[on_left, t]
                if kind == ACROSS:
                    # Across: the rest, to the right child.
                    work[path, t] = before - work[on_left, t]
                    n_used = 1 + (max(n_above, own) if pairs else 0)
                    flow_right(work, t, here, line, n_used * n_points)
                elif kind == UP:
                    # Up: the derivative by the split, and its expected value for the split above.
                    set_values(work, t, of_left, n_points, value, left[at], output)
                    set_values(work, t, of_left + most, n_points, value, right[at], output)
                    total = total_slope(work, t, here, of_left, most, n_points, passed, rule)
                    sums[group, f, i] += mul(step, total)
                    if pairs:
                        add_pairs(work, t, here, of_left, most, n_points, passed, rule, step,
                            features, f, own, n_above, sums.shape[1], group, i,
                            pair_sums)  # fmt: skip
                    if side[at] >= 0:
                        mix(work, t, of_left, values + side[at] * most, most, n_points, share,
                            passed, step, rule)  # fmt: skip
        tile += cuda.gridDim.x


@kernel
def add_groups(group_output, sums, first_row, target):
    """One feature or pair and row a thread."""
    n_cells, n = sums.shape[1], sums.shape[2]
    at = cuda.grid(1)
    while at < n_cells * n:
        cell = at // n
        i = at - cell * n
        # In the order of the groups, by one thread for each result.
        for group in range(sums.shape[0]):
            target[group_output[group], cell, first_row + i] += sums[group, cell, i]
        at += cuda.gridsize(1)


def add_contributions(
    program: Program, size: Size, X: Array, phi: Array, pairs: Array | None = None
) -> None:
    n_rows, n_groups = X.shape[0], program.group_output.shape[0]
    if n_rows == 0 or n_groups == 0:
        return
    if pairs is None:
        pairs = empty((phi.shape[0], 0, n_rows), np.float64)
    n_flows = 1 + size.n_slots if pairs.shape[1] else 1
    n_lines = ((size.n_levels + 1) * n_flows + 2 * size.n_levels) * size.n_points
    n_lines += 3 * size.n_levels + 1 + size.n_slots
    n_cells = phi.shape[1] + pairs.shape[1]
    most_rows = max(1, min(n_rows, SUMS_BYTES // (8 * n_groups * n_cells)))
    for first in range(0, n_rows, most_rows):
        cells = cells_of(X[first : first + most_rows])
        n = min(most_rows, n_rows - first)
        blocks = blocks_for(n_groups * -(-n // BLOCK))
        work = empty((n_lines, blocks * BLOCK), np.float64)
        sums = [zeros((n_groups, target.shape[1], n), np.float64) for target in (phi, pairs)]
        launch(
            walk_trees, blocks, BLOCK,
            *program.splits, *program[1:], *cells,
            np.int64(size.n_levels), np.int64(n_flows), np.int64(size.n_points), work, *sums,
        )  # fmt: skip
        for target, part in zip((phi, pairs), sums, strict=True):
            if part.shape[1]:
                blocks = blocks_for_rows(part.shape[1] * n, BLOCK)
                launch(
                    add_groups, blocks, BLOCK, program.group_output, part, np.int64(first), target
                )
