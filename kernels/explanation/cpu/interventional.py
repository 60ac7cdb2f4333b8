"""Shapley values against background rows: leaf by leaf, a group of trees a thread.

The patterns of all rows go down a tree together. At a leaf the sums over the background are either
computed for every pattern that a row can have, and looked up, or for each row; whatever is less.
Both add up the same numbers in the same order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...runtime.arrays import Array
from ...runtime.compilation import inner, kernel
from ...runtime.cpu.table import TableMemory, cell, table_of
from ...runtime.cpu.team import CACHE_LINE, atomic_add, run, threads_for
from ..interventional import pattern_weights
from ..program import DepthFirstSplits, Program, Size
from .walk import send

u64, i64 = np.uint64, np.int64
ONE, ZERO = u64(1), u64(0)
TABLE_BITS = 12
"""Features of a path up to which there may be a table of all patterns."""
SUMS_BYTES = 2**26
"""Memory for sums of groups; rows that do not fit are explained afterwards."""


class DescendingRows(NamedTuple):
    """Rows on their way down a tree.

    x : float64, shape (n_features, n)
    pattern : uint64, shape (2 * n_levels, n)
        In the left and right children of the split at each level.
    on_left : float64, shape (1, n)
    """

    x: np.ndarray
    pattern: np.ndarray
    on_left: np.ndarray


class Leaf(NamedTuple):
    """Working memory of a leaf.

    bits : uint64, shape (n_background,)
        Their patterns; then the different ones, ascending.
    count : float64, shape (n_background,)
        Background rows of each pattern.
    table : float64, shape (2**bits, n_slots)
        Sums for each pattern of a row.
    found : float64, shape (n_slots,)
        Sums of one row.
    feature_of : int64, shape (n_slots,)
    """

    bits: np.ndarray
    count: np.ndarray
    table: np.ndarray
    found: np.ndarray
    feature_of: np.ndarray


@inner
def _ones(bits):
    """Return the number of set bits."""
    n = 0
    while bits:
        bits &= bits - ONE
        n += 1
    return n


@inner
def _pass_on(program, splits, split, rows, n):
    """Send rows down both sides of a split."""
    level, slot, side = splits.level[split], u64(splits.slot[split]), splits.side[split]
    is_new = splits.before[split] < 0
    pattern, on_left = rows.pattern, rows.on_left
    send(program, splits, split, rows.x, on_left, 0, n)
    for i in range(n):
        # A pattern has a bit for each feature of the path: whether the row passes all splits by it.
        arrived = pattern[side, i] if side >= 0 else ZERO
        left = ONE if on_left[0, i] > 0.5 else ZERO
        kept = arrived & ~(ONE << slot)
        # At a first split by a feature all rows pass so far.
        passed = ONE if is_new else (arrived >> slot) & ONE
        pattern[2 * level, i] = kept | ((left & passed) << slot)
        pattern[2 * level + 1, i] = kept | (((left ^ ONE) & passed) << slot)


@inner
def _group(leaf, pattern, side, n):
    """Find the different patterns of the background, ascending, and count them."""
    bits, count = leaf.bits, leaf.count
    n_different = 0
    for i in range(n):
        mine = pattern[side, i]
        low, high = 0, n_different
        # The patterns found are kept sorted: a binary search.
        while low < high:
            middle = (low + high) // 2
            if bits[middle] < mine:
                low = middle + 1
            else:
                high = middle
        if low < n_different and bits[low] == mine:
            count[low] += 1.0
            continue
        # A new one: those above make room. Patterns are few, if background rows are many.
        for k in range(n_different, low, -1):
            bits[k], count[k] = bits[k - 1], count[k - 1]
        bits[low], count[low] = mine, 1.0
        n_different += 1
    return n_different


@inner
def _add_pattern(target, line, full, row, other, count, weights):
    """Add what a pattern of the background means for one of a row; together they cover all
    features."""
    of_row, of_other = row & ~other, other & ~row
    # The weights depend on how many features only the row passes, and only the background.
    u, v = _ones(of_row), _ones(of_other)
    gain, loss = count * weights[u, v], count * weights[v, u]
    slot = 0
    while of_row | of_other:
        if of_row & ONE:
            target[line, slot] += gain
        elif of_other & ONE:
            target[line, slot] -= loss
        of_row >>= ONE
        of_other >>= ONE
        slot += 1


@inner
def _fill_table(leaf, n_slots, n_different, weights):
    """Write the sums of every pattern that a row can have."""
    table, full = leaf.table, (ONE << u64(n_slots)) - ONE
    for line in range(1 << n_slots):
        for slot in range(n_slots):
            table[line, slot] = 0.0
    for k in range(n_different):
        other = leaf.bits[k]
        shared = other
        while True:  # over all subsets of the pattern
            # Only rows that pass whatever this pattern does not can meet it at the leaf.
            row = (full & ~other) | shared
            _add_pattern(table, i64(row), full, row, other, leaf.count[k], weights)
            if shared == ZERO:
                break
            # Subtracting 1 within the bits of a mask steps through its subsets, downward.
            shared = (shared - ONE) & other


@inner
def _look_up(leaf, n_slots, value, pattern, side, sums, n):
    for slot in range(n_slots):
        f = leaf.feature_of[slot]
        for i in range(n):
            sums[f, i] += value * leaf.table[i64(pattern[side, i]), slot]


@inner
def _compare(leaf, n_slots, n_different, value, pattern, side, sums, weights, n):
    """Compare each row with all patterns of the background."""
    full = (ONE << u64(n_slots)) - ONE
    for i in range(n):
        row = pattern[side, i]
        n_found = 0
        for k in range(n_different):
            # Together they pass all splits: otherwise no mixture of both reaches the leaf.
            if row | leaf.bits[k] == full:
                # Most rows meet no pattern at all, and clear nothing.
                if n_found == 0:
                    for slot in range(n_slots):
                        leaf.found[0, slot] = 0.0
                n_found += 1
                _add_pattern(leaf.found, 0, full, row, leaf.bits[k], leaf.count[k], weights)
        if n_found:
            for slot in range(n_slots):
                sums[leaf.feature_of[slot], i] += value * leaf.found[0, slot]


@inner
def _add_leaf(leaf, n_slots, value, side, rows, others, sums, weights):
    n, n_others = rows.x.shape[1], others.x.shape[1]
    n_different = _group(leaf, others.pattern, side, n_others)
    n_subsets = 1 << n_slots
    if n_slots <= TABLE_BITS:
        # How many entries of a table would be filled in, against comparisons without one.
        for k in range(n_different):
            n_subsets += 1 << _ones(leaf.bits[k])
    if n_slots <= TABLE_BITS and n_subsets < n * n_different // 4:
        _fill_table(leaf, n_slots, n_different, weights)
        _look_up(leaf, n_slots, value, rows.pattern, side, sums, n)
    else:
        _compare(leaf, n_slots, n_different, value, rows.pattern, side, sums, weights, n)


@kernel
def _worker(
    thread, n_threads, barrier, program, splits, table, background, weights, sums, n_levels, queue
):
    program, splits = Program(*program), DepthFirstSplits(*splits)
    n_features, n = sums.shape[1], sums.shape[2]
    n_slots = weights.shape[0] - 1
    rows = _rows(TableMemory(*table), n, n_features, n_levels)
    others = _rows(TableMemory(*background[0]), background[1], n_features, n_levels)
    lines = 1 << min(n_slots, TABLE_BITS)
    leaf = Leaf(
        np.zeros(background[1], np.uint64), np.zeros(background[1]), np.zeros((lines, n_slots)),
        np.zeros((1, n_slots)), np.zeros(n_slots, np.int64),
    )  # fmt: skip
    while True:
        # A group of trees is one thread's, so that its sums have an order.
        group = atomic_add(queue, 0, 1)
        if group >= sums.shape[0]:
            break
        for entry in range(program.group_begin[group], program.group_begin[group + 1]):
            tree = program.trees[entry]
            column = program.group_output[group] - program.first_output[tree]
            for split in range(program.split_begin[tree], program.split_begin[tree + 1]):
                _pass_on(program, splits, split, rows, n)
                _pass_on(program, splits, split, others, background[1])
                slot, level = splits.slot[split], splits.level[split]
                leaf.feature_of[slot] = splits.feature[split]
                n_bits = max(splits.n_above[split], slot + 1)
                # Leaves are dealt with as the walk passes them: patterns of deeper levels are
                # overwritten.
                for side, at in enumerate((splits.left[split], splits.right[split])):
                    if at >= 0:
                        value = program.value[at, column]
                        place = 2 * level + side
                        _add_leaf(leaf, n_bits, value, place, rows, others, sums[group], weights)


@kernel
def _rows(table, n, n_features, n_levels):
    x = np.empty((n_features, n))
    for i in range(n):
        for f in range(n_features):
            x[f, i] = cell(table, i, f)
    return DescendingRows(x, np.zeros((2 * n_levels, n), np.uint64), np.zeros((1, n)))


def add_interventional(
    program: Program, size: Size, X: Array, background: Array, phi: Array
) -> None:
    n_groups, n_features, n_rows = program.group_output.size, X.shape[1], X.shape[0]
    weights = pattern_weights(size.n_slots)
    most_rows = max(1, SUMS_BYTES // (8 * max(1, n_groups * n_features)))
    others = (table_of(background.astype(np.float64, copy=False)), background.shape[0])
    threads = min(threads_for(n_rows * program.steps.size), max(1, n_groups))
    for first in range(0, n_rows, most_rows):
        chunk = X[first : first + most_rows].astype(np.float64, copy=False)
        sums = np.zeros((n_groups, n_features, len(chunk)))
        run(
            _worker, threads, tuple(program), tuple(program.splits), table_of(chunk), others,
            weights, sums, size.n_levels, np.zeros(CACHE_LINE, np.int64),
        )  # fmt: skip
        # In the order of the groups, whichever thread was first.
        for group, output in enumerate(program.group_output.tolist()):
            phi[output, :, first : first + most_rows] += sums[group]
