"""The candidates of a feature with more bins than there is shared memory for: an exact tree's,
where every value is a bin.

The records of each such feature are sorted once, by tree and code, into a list of their own. Every
partition is stable, so that the records of a node stay sorted, at the places that the node has in
the records themselves (list 0)::

    records            r0 r1 r2 | r3 r4 r5
    list of feature 7  r2 r0 r1 | r5 r3 r4        missing values last

A block walks along a list in steps, a record a thread, and scores the cuts between unequal
neighbours; a cut has the number ``2 * last code on the left + side of the missing rows``. A cut
that is drawn at random needs the smallest and the largest code alone, and no list.
"""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace

from ...runtime.arrays import Array
from ...runtime.cuda.blocks import inclusive_scan
from ...runtime.cuda.loops import rolled
from ...runtime.cuda.target import cuda, device_function, empty, upload
from ...runtime.dtypes import RECORD
from ...scalars.rng import PURPOSE_THRESHOLD, draw, subkey
from ...scalars.routing import random_cut
from ..problem import CartParams, CartTable, has_many_bins, n_sorted_features
from .candidates import EVERY_CUT, is_classification
from .rows import MULTIPLICITY_SHIFT, ONE_ROW, ROW_MASK, add_row
from .tables import BEGIN, LIST, N_BINS

i32, i64, u64, f64 = np.int32, np.int64, np.uint64, np.float64

LEFT, MISSING, NONE = 0, 1, 2
"""Slots of a line: the statistics of the rows on the left or before those at hand, of the rows
with missing values, and zeros."""
LOWEST, HIGHEST, HAS_MISSING = 0, 1, 2
"""Entries of the shared array with the range of the codes."""
MISSING_SEEN, DOWN_TO, UP_TO, DOWN_TO_RIGHT, UP_TO_LEFT, N_LINE_SLOTS = range(2, 8)
"""Slots of the line of a huge node and feature (see ``tiles``) with numbers of codes, found as the
maxima of several blocks: 1 if values are missing, how far from the end the lowest code is, how far
from the beginning the highest, and the same of those on the right and on the left of a random
cut."""


def sorted_lists(
    table: CartTable, records: Array, begin: np.ndarray, end: np.ndarray, params: CartParams
) -> Array:
    """Return the records, and behind them those of each feature with many bins, sorted by tree and
    code: uint64, shape (1 + lists, n_records). Where there are no lists, they are the records
    themselves."""
    n_lists = n_sorted_features(table, params)
    if not n_lists:
        return records.reshape(1, -1)
    xp = array_namespace(records)
    lists = empty((1 + n_lists, records.shape[0]), RECORD)
    lists[0] = records
    row = xp.astype(records & np.uint64(ROW_MASK), xp.int64)
    last = upload(end - 1)[0]
    tree = xp.searchsorted(last, xp.arange(records.shape[0], dtype=xp.int64))
    # Tree and code in one key; the sort is stable, so that rows ascend within a code.
    tree = xp.astype(tree, xp.uint64) << np.uint64(32)
    for to, f in enumerate(np.flatnonzero(has_many_bins(table)).tolist(), start=1):
        code = xp.astype(table.codes[f, :][row], xp.uint64)
        lists[to] = records[xp.argsort(tree | code)]
    return lists


@device_function
def code_at(codes, lists, place, i):
    """Return the code of a feature's record, ``place`` being the feature and its list."""
    return i64(codes[place[0], i64(lists[place[1], i]) & ROW_MASK])


@device_function
def first_missing(codes, lists, place, begin, end, n_bins):
    """Return where the records with missing values begin in a node's part of a list."""
    # The list is sorted, with missing values last: a binary search.
    while begin < end:
        middle = (begin + end) >> 1
        if code_at(codes, lists, place, middle) < n_bins:
            begin = middle + 1
        else:
            end = middle
    return begin


@device_function
def own_statistic(of_rows, record, s, entry_begin):
    """Return what a record adds to entry s of the statistics."""
    classes, values, weight = of_rows
    row = record & ROW_MASK
    own_weight = weight[row] * (record >> MULTIPLICITY_SHIFT)
    if is_classification(entry_begin):
        # Entries of all outputs are numbered through, so that at most one output matches.
        for output in rolled(range(classes.shape[0])):
            if classes[output, row] == s:
                return ONE_ROW + own_weight
        return i64(0)
    if s == 0:
        return ONE_ROW + own_weight
    return values[s - 1, row] * own_weight


@device_function
def clear_slots(sums, line, n_slots, n_threads, t):
    """Fill the first slots of a line with zeros."""
    n_statistics = sums.shape[2]
    for entry in rolled(range(t, n_slots * n_statistics, n_threads)):
        sums[line, entry // n_statistics, entry % n_statistics] = 0
    cuda.syncthreads()


@device_function
def children_at(line, x, place, side, missing):
    """Return the children of a cut behind a place of the line; the missing rows, if there are any,
    are on its left if the side is 1."""
    slot = i32(MISSING) if missing and side == 1 else i32(-1)
    return (line, x, place, slot, False), (line, x, place, slot, True)


@device_function
def running_sums(of_rows, record, entry_begin, lines, scan, t):
    """Write the statistics of the rows up to each thread's record (0: none), and add all to
    those before them."""
    sums, up_to, line = lines
    for s in rolled(range(sums.shape[2])):
        own = i64(0)
        if record != 0:
            own = own_statistic(of_rows, record, s, entry_begin)
        scan[t] = own
        inclusive_scan(scan, t)
        up_to[line, t, s] = sums[line, LEFT, s] + scan[t]
        # All have read the sums before this step, to which its last thread adds the whole step.
        cuda.syncthreads()
        if t == scan.shape[0] - 1:
            sums[line, LEFT, s] += scan[t]


@device_function
def find_range(codes, records, begin, end, f, n_bins, found, n_threads, t):
    """Find the lowest and the highest code of a node, and whether values are missing."""
    if t == 0:
        found[LOWEST] = n_bins
        found[HIGHEST] = -1
        found[HAS_MISSING] = 0
    cuda.syncthreads()  # the shared range is empty before the first thread widens it
    i = begin + t
    while i < end:
        code = i32(codes[f, i64(records[i]) & ROW_MASK])
        if code == n_bins:
            cuda.atomic.max(found, HAS_MISSING, i32(1))
        else:
            cuda.atomic.min(found, LOWEST, code)
            cuda.atomic.max(found, HIGHEST, code)
        i += n_threads
    cuda.syncthreads()
    # All have looked at their rows.
    low, high, missing = found[LOWEST], found[HIGHEST], found[HAS_MISSING] != 0
    cuda.syncthreads()
    # All have read the range before the array is used again.
    return low, high, missing


@device_function
def summed_range(summed, n_bins):
    """Return the lowest and the highest code of a huge node, and whether values are missing."""
    lines, at = summed
    low, high = n_bins - i32(lines[at, DOWN_TO, 0]), i32(lines[at, UP_TO, 0]) - i32(1)
    return low, high, lines[at, MISSING_SEEN, 0] != 0


@device_function
def summed_sides(summed, n_bins, lines, n_threads, t):
    """Copy the sums of both sides of a random cut of a huge node to a line, and return what
    ``add_up_sides`` does."""
    sums, _, line = lines
    of_huge, at = summed
    for s in rolled(range(t, sums.shape[2], n_threads)):
        sums[line, LEFT, s] = of_huge[at, LEFT, s]
        sums[line, MISSING, s] = of_huge[at, MISSING, s]
        sums[line, NONE, s] = 0
    cuda.syncthreads()
    from_end = i32(of_huge[at, DOWN_TO_RIGHT, 0])
    first_right = n_bins - from_end if from_end > 0 else i32(-1)
    last_left = i32(of_huge[at, UP_TO_LEFT, 0]) - i32(1)
    return last_left, first_right, of_huge[at, MISSING_SEEN, 0] != 0


@device_function
def cut_at_random(key, f, low, high, begin, lower, upper):
    """Return the value of a random cut, the last code below it (at least ``low``, below ``high``),
    and the side of missing rows."""
    bits = draw(subkey(key, PURPOSE_THRESHOLD, u64(f)), u64(0))
    if low == high:
        return np.nan, low, i32(0)
    cut = random_cut(lower[begin + low], upper[begin + high], f64(bits))
    # The last bin whose middle is not above the cut; bins ascend.
    while high - low > 1:
        middle = (low + high) >> 1
        if lower[begin + middle] / 2.0 + upper[begin + middle] / 2.0 <= cut:
            low = middle
        else:
            high = middle
    return cut, low, i32(bits & u64(1))


@device_function
def add_up_sides(table, of_rows, node, f, n_bins, last, lines, found, n_threads, t):
    """Fill the statistics of the rows on the left of a cut behind a code, and of the missing rows.
    Return the last code on the left with rows, the first one on the right (-1: none), and
    whether values are missing."""
    codes, records = table[0], table[1]
    sums, _, line = lines
    begin, end = node
    if t == 0:
        found[LOWEST] = n_bins
        found[HIGHEST] = -1
        found[HAS_MISSING] = 0
    # Its barrier is also the one behind which the range is empty.
    clear_slots(sums, line, NONE + 1, n_threads, t)
    i = begin + t
    while i < end:
        # Atomic additions of integers: rows may come in any order.
        record = i64(records[i])
        code = i32(codes[f, record & ROW_MASK])
        if code == n_bins:
            cuda.atomic.max(found, HAS_MISSING, i32(1))
            add_row(*of_rows, record, line, MISSING, sums)
        elif code <= last:
            cuda.atomic.max(found, HIGHEST, code)
            add_row(*of_rows, record, line, LEFT, sums)
        else:
            cuda.atomic.min(found, LOWEST, code)
        i += n_threads
    cuda.syncthreads()
    # All rows are added, and the range is final.
    last_left, first_right, missing = found[HIGHEST], found[LOWEST], found[HAS_MISSING] != 0
    cuda.syncthreads()
    # All have read it.
    return last_left, first_right if first_right < n_bins else i32(-1), missing


@device_function
def begin_random_cut(table, of_rows, bins, node, f, lines, summed, shared):
    """Add up the sides of a random cut. Return how many steps there are, the slot of missing rows
    (-1: none), the last code on the left, and the number of the candidate."""
    features, lower, upper = bins[0], bins[1], bins[2]
    sums, up_to, line = lines
    found, n_threads = shared[1], shared[4].shape[0]
    begin, end, key = node
    t = cuda.threadIdx.x
    n_bins = i32(features[f, N_BINS])
    if summed[1] >= 0:
        # The range: of a huge node it was found tile by tile.
        low, high, missing = summed_range(summed, n_bins)
    else:
        codes, records = table[0], table[1]
        low, high, missing = find_range(codes, records, begin, end, f, n_bins, found, n_threads, t)
    if high < 0 or low == high and not missing:
        return i64(0), i32(-1), i64(0), i64(0)
    # The sides of the cut, and their sums.
    _, last, side = cut_at_random(key, f, low, high, features[f, BEGIN], lower, upper)
    if summed[1] >= 0:
        summed_sides(summed, n_bins, lines, n_threads, t)
    else:
        own = (begin, end)
        add_up_sides(table, of_rows, own, f, n_bins, last, lines, found, n_threads, t)
    # The cut is place 0 of the line, the only one.
    for s in rolled(range(t, sums.shape[2], n_threads)):
        up_to[line, 0, s] = sums[line, LEFT, s]
    if not missing:
        return i64(1), i32(-1), i64(last), i64(0)
    return i64(1), i32(MISSING), i64(last), i64(side)


@device_function
def begin_cuts(table, of_rows, bins, node, f, random_splits, lines, summed, shared):
    """Add up what all cuts need. Return how many steps there are, the slot of missing rows (-1:
    none), and for a list where it begins and where the missing rows do."""
    if random_splits != 0:
        return begin_random_cut(table, of_rows, bins, node, f, lines, summed, shared)
    codes, _, lists = table
    features = bins[0]
    sums, _, line = lines
    n_threads = shared[4].shape[0]
    begin, end, _ = node
    place = (f, features[f, LIST])
    last = first_missing(codes, lists, place, begin, end, features[f, N_BINS])
    # Some values and some missing ones, or two codes: the ends of a sorted list show it.
    varies = begin < last < end
    if last == end:
        varies = code_at(codes, lists, place, begin) != code_at(codes, lists, place, end - 1)
    if not varies:
        return i64(0), i32(-1), i64(0), i64(0)
    t = cuda.threadIdx.x
    # The missing rows, which every cut adds to one of its sides.
    clear_slots(sums, line, NONE, n_threads, t)
    i = last + t
    while i < end:
        add_row(*of_rows, i64(lists[place[1], i]), line, MISSING, sums)
        i += n_threads
    cuda.syncthreads()  # the missing rows are added up before the first cut is scored
    n_steps = (last - begin + n_threads - 1) // n_threads
    return n_steps, i32(MISSING) if last < end else i32(-1), begin, last


@device_function
def next_cuts(table, of_rows, bins, f, random_splits, at, last, step, lines, shared):
    """Write the sums up to the places of a step: the next records of a list, or the random cut.
    Return how many they are, and the number of the only candidate, or ``EVERY_CUT``. Behind the
    codes of the places is the one that follows (-1: none)."""
    codes, _, lists = table
    here, scan = shared[1], shared[4]
    n_threads = scan.shape[0]
    t = cuda.threadIdx.x
    if random_splits != 0:
        if t == 0:
            here[0], here[1] = i32(at), i32(-1)
        cuda.syncthreads()
        return i32(1), i32(last)
    place = (f, bins[0][f, LIST])
    i = at + step * n_threads + t
    record = i64(0)
    # Behind the end of the values.
    here[t] = i32(-1)
    if i < last:
        record = i64(lists[place[1], i])
        here[t] = i32(codes[f, record & ROW_MASK])
    if t == n_threads - 1:
        # A cut behind the last record of the step needs the code that comes after it.
        here[n_threads] = i32(code_at(codes, lists, place, i + 1)) if i + 1 < last else i32(-1)
    running_sums(of_rows, record, bins[3], lines, scan, t)
    return i32(min(i64(n_threads), last - at - step * n_threads)), i32(EVERY_CUT)
