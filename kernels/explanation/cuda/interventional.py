"""Shapley values against background rows: one row and group of trees a thread.

The patterns of the background at all leaves of some groups are found first, one background row and
tree a thread, and sorted leaf by leaf. Then each thread compares its row with them. Neither has
been measured on hardware.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...prediction.cuda.rows import cells_of
from ...runtime.arrays import Array
from ...runtime.cuda.target import (
    block_size,
    blocks_for,
    blocks_for_rows,
    cuda,
    device_function,
    download,
    empty,
    kernel,
    launch,
    upload,
    zeros,
)
from ...scalars.primitives import mul
from ..interventional import pattern_weights
from ..program import Program, Size
from .contributions import add_groups, goes_left_at

u64, f64, i64 = np.uint64, np.float64, np.int64
ONE, ZERO = u64(1), u64(0)
BLOCK = block_size(128)
MEMORY = 2**28
"""Bytes for the patterns of the background, and for the sums of groups, of one launch."""


@device_function
def pattern_at(passed, t, level, side, slot, is_new, goes_left):
    """Write the patterns of a row in the children of a split."""
    shift = u64(slot)
    arrived = passed[side, t] if side >= 0 else ZERO
    kept = u64(arrived & u64(~u64(ONE << shift)))
    stays = ONE if is_new else u64(u64(arrived >> shift) & ONE)
    bit = u64(stays << shift)
    passed[2 * level, t] = u64(kept | bit) if goes_left else kept
    passed[2 * level + 1, t] = kept if goes_left else u64(kept | bit)


@kernel
def find_patterns(
    feature, threshold, missing_left, category_begin, before, left, right, side, slot, level,
    split_begin, trees, categories, n_categories, cells, row, column, first_entry, leaf_begin,
    passed, patterns,
):  # fmt: skip
    """One entry of ``trees`` and background row a thread; ``patterns`` has the shape
    (n_leaves, n_background), ``leaf_begin`` one entry a tree and one more."""
    n, t = patterns.shape[1], cuda.grid(1)
    at = i64(t)
    while at < (leaf_begin.shape[0] - 1) * n:
        entry = at // n
        i = at - entry * n
        # Leaves are numbered in the order in which the walk passes them, as ``compare_rows`` does.
        tree = trees[first_entry + entry]
        leaf = leaf_begin[entry]
        for s in range(split_begin[tree], split_begin[tree + 1]):
            f = feature[s]
            goes_left = goes_left_at(
                threshold[s], missing_left[s] != 0, category_begin[s], categories, n_categories[f],
                f64(cells[i * row + f * column]),
            )  # fmt: skip
            pattern_at(passed, t, level[s], side[s], slot[s], before[s] < 0, goes_left)
            if left[s] >= 0:
                patterns[leaf, i] = passed[2 * level[s], t]
                leaf += 1
            if right[s] >= 0:
                patterns[leaf, i] = passed[2 * level[s] + 1, t]
                leaf += 1
        at += i64(cuda.gridsize(1))


@device_function
def add_pattern(found, t, of_row, of_other, count, weights):
    """Add the share of every feature that only the row or only the background passes."""
    u, v = cuda.popc(of_row), cuda.popc(of_other)
    gain, loss = mul(count, weights[u, v]), mul(count, weights[v, u])
    line = 0
    while u64(of_row | of_other) != ZERO:
        if u64(of_row & ONE) != ZERO:
            found[line, t] += gain
        elif u64(of_other & ONE) != ZERO:
            found[line, t] -= loss
        of_row, of_other = u64(of_row >> ONE), u64(of_other >> ONE)
        line += 1


@device_function
def add_leaf(patterns, leaf, row, n_slots, value, weights, found, t, sums, group, i):
    """Compare a row with the background at a leaf; the second half of the lines of ``found`` are
    the features of the path."""
    n, n_lines = patterns.shape[1], weights.shape[0] - 1
    full = u64(u64(ONE << u64(n_slots)) - ONE)
    for line in range(n_slots):
        # Lines of one number for each thread: neighbours write neighbours.
        found[line, t] = 0.0
    k = 0
    while k < n:
        other, count = patterns[leaf, k], 0.0
        # Patterns are sorted: equal ones follow each other, and count once with their number.
        while k < n and patterns[leaf, k] == other:
            count += 1.0
            k += 1
        # Together they pass all splits of the path.
        if u64(row | other) == full:
            of_row, of_other = u64(row & u64(~other)), u64(other & u64(~row))
            add_pattern(found, t, of_row, of_other, count, weights)
    for line in range(n_slots):
        sums[group, i64(found[n_lines + line, t]), i] += mul(value, found[line, t])


@kernel
def compare_rows(
    feature, threshold, missing_left, category_begin, before, left, right, side, slot, level,
    split_begin, trees, categories, n_categories, cells, row, column, first_entry, leaf_begin,
    passed, patterns, n_above, group_begin, group_output, first_output, value, weights, first_group,
    found, sums,
):  # fmt: skip
    """``sums`` has the shape (n_groups of the launch, n_features, n_rows)."""
    n_groups, n, t = sums.shape[0], sums.shape[2], cuda.grid(1)
    n_tiles = (n + BLOCK - 1) // BLOCK
    tile = cuda.blockIdx.x
    while tile < n_groups * n_tiles:
        group = tile // n_tiles
        i = (tile - group * n_tiles) * BLOCK + cuda.threadIdx.x
        begin, end = group_begin[first_group + group], group_begin[first_group + group + 1]
        # All threads walk through the same trees: those of a warp part only inside of a leaf.
        for entry in range(begin, end if i < n else begin):
            tree, leaf = trees[entry], leaf_begin[entry - first_entry]
            output = group_output[first_group + group] - first_output[tree]
            for s in range(split_begin[tree], split_begin[tree + 1]):
                f = feature[s]
                goes_left = goes_left_at(
                    threshold[s], missing_left[s] != 0, category_begin[s], categories,
                    n_categories[f], f64(cells[i * row + f * column]),
                )  # fmt: skip
                pattern_at(passed, t, level[s], side[s], slot[s], before[s] < 0, goes_left)
                found[weights.shape[0] - 1 + slot[s], t] = f
                n_slots = max(n_above[s], slot[s] + 1)
                for k in range(2):
                    at = left[s] if k == 0 else right[s]
                    if at >= 0:
                        add_leaf(
                            patterns, leaf, passed[2 * level[s] + k, t], n_slots,
                            value[at, output], weights, found, t, sums, group, i,
                        )  # fmt: skip
                        leaf += 1
        tile += cuda.gridDim.x


def add_interventional(
    program: Program, size: Size, X: Array, background: Array, phi: Array
) -> None:
    group_begin, trees = download(program.group_begin), download(program.trees)
    n_leaves = np.diff(download(program.split_begin))[trees] + 1
    leaves_before = np.concatenate([[0], np.cumsum(n_leaves)])
    begins = leaves_before[group_begin]
    (weights,) = upload(pattern_weights(size.n_slots))
    room = MEMORY // (8 * background.shape[0])
    first, n_groups = 0, group_begin.size - 1
    while first < n_groups:
        # As many groups at a time as the patterns of their leaves have room, one at least.
        fit = int(np.searchsorted(begins, begins[first] + room, side="right")) - 1
        groups = range(first, min(max(fit, first + 1), n_groups))
        entries = slice(int(group_begin[groups.start]), int(group_begin[groups.stop]) + 1)
        (leaf_begin,) = upload(leaves_before[entries] - begins[first])
        patterns = _patterns(program, size, background, entries.start, leaf_begin)
        _add_groups(program, size, X, groups, (np.int64(entries.start), leaf_begin, patterns),
                    weights, phi)  # fmt: skip
        first = groups.stop


def _patterns(
    program: Program, size: Size, background: Array, first_entry: int, leaf_begin: Array
) -> Array:
    """Return the patterns of the background at the leaves of some trees, ascending by leaf: uint64,
    shape (n_leaves, n_background)."""
    n = background.shape[0]
    patterns = empty((int(leaf_begin[-1]), n), np.uint64)
    blocks = blocks_for_rows((leaf_begin.shape[0] - 1) * n, BLOCK)
    passed = empty((2 * size.n_levels, blocks * BLOCK), np.uint64)
    launch(
        find_patterns, blocks, BLOCK, *_splits(program), *cells_of(background),
        np.int64(first_entry), leaf_begin, passed, patterns,
    )  # fmt: skip
    # Sorted, so that equal patterns are neighbours.
    patterns.sort(axis=1)
    return patterns


def _add_groups(
    program: Program, size: Size, X: Array, groups: range, leaves: Any, weights: Array, phi: Array
) -> None:
    """Add the values of some groups of trees."""
    n_rows, n_features, n_groups = X.shape[0], X.shape[1], len(groups)
    first_entry, leaf_begin, patterns = leaves
    outputs = program.group_output[groups.start : groups.stop]
    most = max(1, MEMORY // (8 * n_groups * n_features))
    for first in range(0, n_rows, most):
        rows = X[first : first + most]
        sums = zeros((n_groups, n_features, rows.shape[0]), np.float64)
        blocks = blocks_for(n_groups * -(-rows.shape[0] // BLOCK))
        passed = empty((2 * size.n_levels, blocks * BLOCK), np.uint64)
        found = empty((2 * size.n_slots, blocks * BLOCK), np.float64)
        launch(
            compare_rows, blocks, BLOCK, *_splits(program), *cells_of(rows), first_entry,
            leaf_begin, passed, patterns, program.splits.n_above, program.group_begin,
            program.group_output, program.first_output, program.value, weights,
            np.int64(groups.start), found, sums,
        )  # fmt: skip
        blocks = blocks_for_rows(n_features * rows.shape[0], BLOCK)
        launch(add_groups, blocks, BLOCK, outputs, sums, np.int64(first), phi)


def _splits(program: Program) -> tuple[Array, ...]:
    s = program.splits
    return (
        s.feature, s.threshold, s.missing_left, s.category_begin, s.before, s.left, s.right, s.side,
        s.slot, s.level, program.split_begin, program.trees, program.category_words,
        program.n_categories,
    )  # fmt: skip
