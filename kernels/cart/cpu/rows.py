"""The rows of one node: collected, and grouped by the codes of a feature
(contract: ``kernels.cart.grow_cart``).

Where codes are few, the statistics of all codes are added up in a table, and the codes that
occurred are read off a table of flags, so nothing is sorted and only what was touched is cleared.
Where codes are many (exact thresholds at small nodes), the rows are sorted by code instead.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...runtime.compilation import inlined, inner
from ...runtime.cpu.lanes import count_bits
from ...runtime.cpu.team import prefetch
from ..problem import COUNT_SHIFT, SPARSE
from .scores import MASK

u64, i64 = np.uint64, np.int64

LOW_32 = u64(0xFFFFFFFF)
S32, S63 = u64(32), u64(63)
ONE_ROW = i64(1) << i64(COUNT_SHIFT)
PREFETCH_DISTANCE = u64(16)


class RowArrays(NamedTuple):
    """The arrays of rows that the threads read (see ``CartTarget``).

    values : int64, (n_outputs, n_rows); value_rank : uint32, the same shape
        The latter only for the absolute error: rank among the ``n_ranks`` distinct values.
    unit : int
        The packed weight of each row of two classes, if they all have the same and only random
        splits of numeric features are looked at; then a node collects a bit for each row. Else 0.
    by_feature, by_row : uint8 or uint32, 1-D
        The codes of the table, feature by feature and, if this pays, row by row; else empty.
    middle : float64
        The number half-way between the ends of each bin (see ``middles_of_bins``), where random
        cuts read ``by_row``, or where subtrees of few rows are grown on lanes: they are if this is
        not empty and ``by_row`` is. Else empty.
    """

    classes: np.ndarray
    values: np.ndarray
    value_rank: np.ndarray
    n_ranks: int
    weight: np.ndarray
    unit: int
    output_begin: np.ndarray
    records: np.ndarray
    by_feature: np.ndarray
    by_row: np.ndarray
    middle: np.ndarray


@inlined
def codes_of_rows(rows, n, shape):
    """Return the codes of the table in the order in which those of n rows are read faster, and how
    many places two rows, and two features, are apart."""
    if rows.by_row.size > 0 and n * SPARSE <= shape[1]:
        return rows.by_row, u64(shape[0]), u64(1)
    return rows.by_feature, u64(1), u64(shape[1])


@inlined
def collect(rows, begin, end, groups, statistics):
    """Gather the weights and classes (or values) of a node's rows, add them up, and return
    whether all rows are alike. With ``rows.unit`` only the classes are gathered, as bits."""
    records = rows.records[begin:end]
    if rows.unit != 0:
        n_ones = _collect_bits(records, groups.ones)
        statistics[0], statistics[1] = (records.size - n_ones) * rows.unit, n_ones * rows.unit
        return (n_ones == 0) | (n_ones == records.size)
    if rows.classes.shape[0] == 1 and statistics.size == 2:
        statistics[0], statistics[1] = _collect_two_classes(
            rows.weight, rows.classes[0], records, groups.weights, groups.items[0]
        )
        return (statistics[0] & MASK == 0) | (statistics[1] & MASK == 0)
    total = _collect_weights(rows.weight, records, groups.weights)
    if rows.classes.shape[0] == 0:
        pure = True
        statistics[0] = total
        for o in range(rows.values.shape[0]):
            # Alike in every output: then no split could lower the impurity.
            first = rows.values[o, records[0] & LOW_32]
            alike, statistics[1 + o] = _collect_values(
                rows.values[o], records, first, groups.weights, groups.items[o]
            )
            pure = pure and alike
        return pure
    statistics[:] = 0
    for o in range(rows.classes.shape[0]):
        _collect_classes(rows.classes[o], records, groups.weights, groups.items[o], statistics)
    return _one_class_each(statistics, rows.output_begin)


@inner
def _collect_weights(weight, records, weights):
    total = i64(0)
    for i in range(u64(records.size)):
        record = records[i]
        # Count and weight share a word, so that one addition keeps both.
        weights[i] = ONE_ROW + weight[record & LOW_32] * i64(record >> S32)
        total += weights[i]
    return total


@inner
def mark_classes(classes, records):
    """Write the class of each row, 0 or 1, to the highest bit of its record: nodes then read their
    records alone, in order."""
    for i in range(u64(records.size)):
        records[i] |= u64(classes[records[i] & LOW_32]) << S63


@inner
def _collect_bits(records, ones):
    """Collect the classes, 0 or 1, as a bit for each row, and return how many are 1.

    They are the highest bits of the records (see ``mark_classes``).
    """
    n_ones = i64(0)
    n = u64(records.size)
    for first in range(u64(0), n, u64(64)):
        word = u64(0)
        for i in range(first, min(first + u64(64), n)):
            word |= (records[i] >> S63) << (i & u64(63))
        ones[first >> u64(6)] = word
        n_ones += i64(count_bits(word))
    return n_ones


@inner
def _collect_two_classes(weight, classes, records, weights, items):
    """Collect as ``_collect_weights`` and ``_collect_classes`` do, in one loop whose sums stay in
    registers."""
    total, ones = i64(0), i64(0)
    for i in range(u64(records.size)):
        record = records[i]
        c = i64(classes[record & LOW_32])
        packed = ONE_ROW + weight[record & LOW_32] * i64(record >> S32)
        weights[i] = packed
        items[i] = c
        total += packed
        ones += packed & -c
    return total - ones, ones


@inner
def _collect_values(values, records, first, weights, items):
    alike = True
    total = i64(0)
    for i in range(u64(records.size)):
        value = values[records[i] & LOW_32]
        if value != first:
            alike = False
        items[i] = value * (weights[i] & MASK)
        total += items[i]
    return alike, total


@inner
def _collect_classes(classes, records, weights, items, statistics):
    for i in range(u64(records.size)):
        c = classes[records[i] & LOW_32]
        items[i] = c
        statistics[c] += weights[i]


@inlined
def _one_class_each(statistics, output_begin):
    for o in range(output_begin.size - 1):
        n_classes = 0
        for s in range(output_begin[o], output_begin[o + 1]):
            # Rows have positive weights: a class without weight is a class without rows.
            if statistics[s] & MASK != 0:
                n_classes += 1
        if n_classes > 1:
            return False
    return True


CODES_PER_ROW = 4
"""Codes of a feature for each row of a node beyond which its rows are sorted."""


@inlined
def fits_table(n_bins, n, n_statistics, most_entries):
    """Return whether n rows are added up by code; otherwise they are sorted."""
    # A table is read flag by flag: with far more codes than rows this takes longer than a sort.
    is_small = n_bins <= CODES_PER_ROW * n or n_bins <= 255
    return is_small and (n_bins + 1) * n_statistics <= most_entries


@inlined
def group_rows(n_bins, n, groups, is_regression, by_table):
    """Fill the groups of values and the statistics of the missing ones and return (number of
    groups, number of rows with missing values).

    by_table : bool
        The rows are in the table (``add_rows``); else the keys of n rows are sorted.
    """
    if by_table:
        groups.by_rows[0] = 0
        return _read_groups(n_bins, groups)
    groups.by_rows[0] = 1
    return _read_runs(n, n_bins, groups, is_regression)


@inlined
def add_rows(column, rows, groups, is_regression):
    """Add the rows of a node up by code."""
    items, weights, histogram, seen = groups.items, groups.weights, groups.histogram, groups.seen
    n_statistics = u64(groups.total.size)
    if is_regression:
        # The first output also counts the rows and marks their codes; the others only add.
        _add_sums(column, rows, weights, items[0], histogram, seen, n_statistics)
        for o in range(1, items.shape[0]):
            _add_values(column, rows, items[o], histogram[1 + o :], n_statistics)
        return
    for o in range(items.shape[0]):
        _add_classes(column, rows, weights, items[o], histogram, seen, n_statistics)


# These loops are functions of their own, and count in uint64, for the sake of registers.


@inner
def _add_classes(column, rows, weights, items, histogram, seen, n_statistics):
    last = u64(rows.size - 1)
    for i in range(u64(rows.size)):
        prefetch(column, rows[min(i + PREFETCH_DISTANCE, last)] & LOW_32)
        code = u64(column[rows[i] & LOW_32])
        seen[code] = 1
        histogram[code * n_statistics + u64(items[i])] += weights[i]


@inner
def _add_sums(column, rows, weights, values, histogram, seen, n_statistics):
    last = u64(rows.size - 1)
    for i in range(u64(rows.size)):
        prefetch(column, rows[min(i + PREFETCH_DISTANCE, last)] & LOW_32)
        code = u64(column[rows[i] & LOW_32])
        seen[code] = 1
        histogram[code * n_statistics] += weights[i]
        histogram[code * n_statistics + u64(1)] += values[i]


@inner
def _add_values(column, rows, values, histogram, n_statistics):
    for i in range(u64(rows.size)):
        histogram[u64(column[rows[i] & LOW_32]) * n_statistics] += values[i]


@inlined
def _read_groups(n_bins, groups):
    """List the codes that were seen, ascending; flags are cleared, missing values taken out."""
    n_groups = i64(0)
    # Eight flags at a time: most codes have no rows at a small node.
    for w in range((n_bins + 7) >> 3):
        if groups.seen_words[w] != 0:
            for code in range(8 * w, min(8 * w + 8, n_bins)):
                groups.code[n_groups] = code  # overwritten by the next one if it was not seen
                groups.order[n_groups] = n_groups
                n_groups += i64(groups.seen[code])
    # Missing values do not form a group: they are added to one side of a cut or the other.
    n_missing = 0
    groups.missing[:] = 0
    if groups.seen[n_bins] != 0:
        n_missing = 1
        start = n_bins * groups.missing.size
        for s in range(groups.missing.size):
            groups.missing[s] = groups.histogram[start + s]
            groups.histogram[start + s] = 0
    # The flag of missing values may be in a word of its own.
    for w in range((n_bins + 8) >> 3):
        groups.seen_words[w] = 0
    return n_groups, i64(n_missing)


@inlined
def clear_groups(groups, n_groups):
    """Restore the table of statistics to zeros after a feature."""
    if groups.by_rows[0] == 0:
        n_statistics = groups.total.size
        # Only what was touched: a table has far more entries than a node has groups.
        for g in range(n_groups):
            start = groups.code[g] * n_statistics
            for s in range(n_statistics):
                groups.histogram[start + s] = 0


@inlined
def fill_keys(column, records, begin, n, keys):
    last = begin + n - 1
    for i in range(n):
        at = begin + i
        prefetch(column, records[min(at + PREFETCH_DISTANCE, last)] & LOW_32)
        keys[i] = (u64(column[records[at] & LOW_32]) << u64(32)) | u64(i)


@inlined
def _read_runs(n, n_bins, groups, is_regression):
    """List the groups of sorted keys; the keys of missing values come last."""
    n_groups = 0
    before = i64(-1)
    n_values = n
    for k in range(n):
        code = i64(groups.keys[k] >> u64(32))
        if code == n_bins:
            n_values = k
            break
        if code != before:
            groups.code[n_groups] = code
            groups.first[n_groups] = k
            groups.order[n_groups] = n_groups
            n_groups += 1
            before = code
    # The end of the last group, so that group g has the keys ``first[g]`` to ``first[g + 1] - 1``.
    groups.first[n_groups] = n_values
    groups.missing[:] = 0
    for k in range(n_values, n):
        i = groups.keys[k] & LOW_32
        if is_regression:
            groups.missing[0] += groups.weights[i]
            for o in range(groups.items.shape[0]):
                groups.missing[1 + o] += groups.items[o, i]
        else:
            for o in range(groups.items.shape[0]):
                groups.missing[groups.items[o, i]] += groups.weights[i]
    return i64(n_groups), i64(n - n_values)


FEW_KEYS = 40
"""Keys that are sorted faster by insertion."""
MANY_KEYS = 4096
"""Keys from which on digits of eleven bits pay."""
N_COUNTERS = 2048


@inner
def sort_by_high_word(keys, buffer, n, n_values, counters):
    """Sort the first n of ``keys`` (high 32 bits: a value below ``n_values``; low 32: anything),
    keeping the order of equal values. Radix sort, the lowest digit first."""
    if n <= FEW_KEYS:
        insertion_sort(keys, n)
        return
    n_bits = i64(0)
    while (n_values - 1) >> n_bits > 0:
        n_bits += 1
    # As few passes as possible, by digits as short as these allow.
    most_bits = i64(11 if n >= MANY_KEYS else 9)
    n_passes = max(i64(1), (n_bits + most_bits - 1) // most_bits)
    digit_bits = u64((n_bits + n_passes - 1) // n_passes)
    n_digits = i64(1) << i64(digit_bits)
    shift = u64(32)
    moved = 0
    # Digits above the largest value are zero in all keys.
    while (n_values - 1) >> i64(shift - u64(32)) > 0:
        source, target = (keys, buffer) if moved & 1 == 0 else (buffer, keys)
        if _sort_by_digit(source, target, n, shift, n_digits, counters):
            moved += 1
        shift += digit_bits
    if moved & 1:
        # After an odd number of passes the keys are in the buffer.
        for i in range(n):
            keys[i] = buffer[i]


@inner
def insertion_sort(keys, n):
    """Sort a few keys by their high words."""
    for i in range(1, n):
        key = keys[i]
        value = key >> u64(32)
        j = i - 1
        while j >= 0 and keys[j] >> u64(32) > value:
            keys[j + 1] = keys[j]
            j -= 1
        keys[j + 1] = key


@inner
def _sort_by_digit(source, target, n, shift, n_digits, counters):
    """Sort by one digit; return False, with nothing done, where all keys have the same one."""
    mask = u64(n_digits - 1)
    counters[:n_digits] = 0
    for i in range(n):
        counters[(source[i] >> shift) & mask] += 1
    # Nothing would move, so that both arrays keep their roles.
    if counters[(source[0] >> shift) & mask] == n:
        return False
    total = i64(0)
    # The counts become the places where the keys of each digit begin.
    for d in range(n_digits):
        count = counters[d]
        counters[d] = total
        total += count
    for i in range(n):
        key = source[i]
        digit = (key >> shift) & mask
        # In the order of the keys, which keeps equal digits as earlier passes have sorted them.
        target[counters[digit]] = key
        counters[digit] += 1
    return True


@inner
def merge_argsort(values, order, buffer, n):
    """Put the numbers 0 ... n - 1 into ``order`` so that ``values`` ascends along it, equal ones
    in the order of their numbers. Bottom-up merge sort."""
    for i in range(n):
        order[i] = i
    width = 1
    while width < n:
        for low in range(0, n, 2 * width):
            middle, high = min(low + width, n), min(low + 2 * width, n)
            i, j = low, middle
            for k in range(low, high):
                # ``<=``: of equal values the lower number comes first.
                if i < middle and (j >= high or values[order[i]] <= values[order[j]]):
                    buffer[k] = order[i]
                    i += 1
                else:
                    buffer[k] = order[j]
                    j += 1
        for k in range(n):
            order[k] = buffer[k]
        width *= 2
