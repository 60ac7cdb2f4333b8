"""The rows of a node in groups of equal codes, for one feature.

Where codes are few, the statistics of all codes are added up in a table, and the codes that
occurred are read off a table of flags, so nothing is sorted and only what was touched is cleared.
Where codes are many (exact thresholds at small nodes), the rows are sorted by code instead.
"""

from __future__ import annotations

import numpy as np

from ...runtime.compilation import inlined, inner
from ...runtime.cpu.team import prefetch
from .sorting import sort_by_high_word

u32, u64, i64 = np.uint32, np.uint64, np.int64
LOW_32 = u64(0xFFFFFFFF)
PREFETCH_DISTANCE = u64(16)
CODES_PER_ROW = 4
"""Codes of a feature for each row of a node beyond which its rows are sorted."""


@inlined
def group_rows(
    column, n_bins, records, begin, end, groups, is_regression, most_entries, always_sort
):
    """Fill the groups of values and the statistics of the missing ones; (number of groups,
    number of rows with missing values)."""
    n = end - begin
    n_statistics = groups.total.size
    few = n_bins <= CODES_PER_ROW * n or n_bins <= 255
    if few and not always_sort and (n_bins + 1) * n_statistics <= most_entries:
        groups.by_rows[0] = 0
        _add_rows(column, n_bins, records, begin, n, groups, is_regression)
        return _read_groups(n_bins, groups)
    groups.by_rows[0] = 1
    fill_keys(column, records, begin, n, groups.keys)
    sort_by_high_word(groups.keys, groups.buffer, n, n_bins + 1, groups.counters)
    return _read_runs(n, n_bins, groups, is_regression)


@inlined
def _add_rows(column, n_bins, records, begin, n, groups, is_regression):
    """Add the rows up by code."""
    items, weights, histogram, seen = groups.items, groups.weights, groups.histogram, groups.seen
    n_statistics = u64(groups.total.size)
    rows = records[begin : begin + n]
    if is_regression:
        _add_weights(column, rows, weights, histogram, seen, n_statistics)
        for o in range(items.shape[0]):
            _add_values(column, rows, items[o], histogram[1 + o :], n_statistics)
        return
    if n_bins == 2 and items.shape[0] == 1:
        n_others = _add_second_code(column, rows, weights, items[0], histogram, seen, n_statistics)
        if n_others < n:
            seen[0] = 1
            for s in range(n_statistics):
                others = histogram[n_statistics + s] + histogram[2 * n_statistics + s]
                histogram[s] = groups.total[s] - others
        return
    _add_classes(column, rows, weights, items[0], histogram, seen, n_statistics)
    for o in range(1, items.shape[0]):
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
def _add_second_code(column, rows, weights, items, histogram, seen, n_statistics):
    """``_add_classes`` without the rows of code 0; the number of the others.

    Adding row after row to the same few entries, each addition waits for the one before; and
    of two codes the first is mostly the more frequent by far.
    """
    last = u64(rows.size - 1)
    n_others = 0
    for i in range(u64(rows.size)):
        prefetch(column, rows[min(i + PREFETCH_DISTANCE, last)] & LOW_32)
        code = u64(column[rows[i] & LOW_32])
        if code != 0:
            n_others += 1
            seen[code] = 1
            histogram[code * n_statistics + u64(items[i])] += weights[i]
    return n_others


@inner
def _add_weights(column, rows, weights, histogram, seen, n_statistics):
    last = u64(rows.size - 1)
    for i in range(u64(rows.size)):
        prefetch(column, rows[min(i + PREFETCH_DISTANCE, last)] & LOW_32)
        code = u64(column[rows[i] & LOW_32])
        seen[code] = 1
        histogram[code * n_statistics] += weights[i]


@inner
def _add_values(column, rows, values, histogram, n_statistics):
    for i in range(u64(rows.size)):
        histogram[u64(column[rows[i] & LOW_32]) * n_statistics] += values[i]


@inlined
def _read_groups(n_bins, groups):
    """The codes that were seen, ascending; flags are cleared, missing values taken out."""
    n_groups = i64(0)
    for w in range((n_bins + 7) >> 3):
        if groups.seen_words[w] != 0:
            for code in range(8 * w, min(8 * w + 8, n_bins)):
                groups.code[n_groups] = code  # overwritten by the next one if it was not seen
                groups.order[n_groups] = n_groups
                n_groups += i64(groups.seen[code])
    n_missing = 0
    groups.missing[:] = 0
    if groups.seen[n_bins] != 0:
        n_missing = 1
        start = n_bins * groups.missing.size
        for s in range(groups.missing.size):
            groups.missing[s] = groups.histogram[start + s]
            groups.histogram[start + s] = 0
    for w in range((n_bins + 8) >> 3):
        groups.seen_words[w] = 0
    return n_groups, i64(n_missing)


@inlined
def clear_groups(groups, n_groups):
    """Leave the table of statistics as it was before this feature."""
    if groups.by_rows[0] == 0:
        n_statistics = groups.total.size
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
    """Groups of sorted keys; the keys of missing values come last."""
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
