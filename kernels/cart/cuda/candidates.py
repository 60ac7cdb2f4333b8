"""The candidates of a node for one of its features: the orders of bins that they cut in two, and
the scores of the resulting children.

Only the bins that hold rows of the node are looked at. They have slots 0, 1, ... in ascending
order; the missing rows have the slot behind them. In an order of the bins each has a place. The
functions are called by a whole block, whose ``line`` is its part of the scratch memory; ``scan``
has an entry a thread, the other shared arrays have one a bin.

The functions of children take ``data``, the arrays (statistics of the rows up to each place of a
line, statistics of its slots, statistics of the nodes, where the outputs' entries begin), and a
child: (line, node, last place on the left, slot of the missing rows if they are on the left or -1,
whether it is the right child).
"""

from __future__ import annotations

import numpy as np

from ...runtime.cuda.blocks import NOWHERE, best_to_front, inclusive_scan
from ...runtime.cuda.loops import rolled
from ...runtime.cuda.target import cuda, device_function
from ...scalars.gain import poisson_score, square, x_log_x
from ...scalars.rng import draw
from ...scalars.routing import random_cut
from ..problem import COUNT_SHIFT, ENTROPY, MISCLASSIFICATION, POISSON, WEIGHT_MASK
from .rows import ROW_MASK, add_row
from .tables import N_BINS

u64, i32, i64, f64 = np.uint64, np.int32, np.int64, np.float64

NO_SPLIT = -np.inf
SHIFT = i64(COUNT_SHIFT)
MASK = i64(WEIGHT_MASK)
MOST_BINS = 256
"""Bins of a feature, the missing values included."""
NO_PLACE = -1
EVERY_CUT = -1
FEW_PLACES = 16
"""Places up to which one thread adds up an entry of the statistics by itself."""


@device_function
def feature_after(stream, j, n_features, shuffle):
    """Return the feature that a node looks at in step j.

    Of the entries that the steps have swapped, the one that step j takes is followed back.
    """
    if shuffle == 0:
        return i64(j)
    # The reference swaps entries of an array that a node would need for itself. Here the swaps are
    # followed back: where step j takes its entry from is where an earlier step has put it.
    place = j + i64((draw(stream, u64(j)) * u64(n_features - j)) >> u64(32))
    for step in rolled(range(j)):
        before = j - 1 - step
        other = before + i64((draw(stream, u64(before)) * u64(n_features - before)) >> u64(32))
        if other == place:
            place = i64(before)
    return place


@device_function
def statistic(data, child, s):
    """Return entry s of the statistics of a child."""
    up_to, sums, totals, _ = data
    line, node, place, missing, is_right = child
    left = up_to[line, place, s]
    if missing >= 0:
        # The sums up to a place are of values alone.
        left += sums[line, missing, s]
    return totals[node, s] - left if is_right else left


@device_function
def is_classification(entry_begin):
    """Return whether the statistics are classes: the entries of regression follow the packed
    weight."""
    return entry_begin[0] == 0


@device_function
def n_packed(entry_begin):
    """Return over how many entries rows and weight are spread."""
    return entry_begin[1] if is_classification(entry_begin) else i64(1)


@device_function
def packed_weight(data, child):
    """Return rows and weight of a child."""
    packed = i64(0)
    for s in rolled(range(n_packed(data[3]))):
        packed += statistic(data, child, s)
    return packed


@device_function
def packed_weight_of_slot(sums, line, slot, entry_begin):
    """Return rows and weight of a bin."""
    packed = i64(0)
    for s in rolled(range(n_packed(entry_begin))):
        packed += sums[line, slot, s]
    return packed


@device_function
def as_real(x, entry_begin):
    """Return the weight of a class, or the sum of an output."""
    return f64(x & MASK) if is_classification(entry_begin) else f64(x)


@device_function
def score_of(data, child, weight, criterion):
    """Return the score of a child, ``NO_SPLIT`` where it has none (POISSON)."""
    entry_begin = data[3]
    total = 0.0
    # In the order of the contract: float64 sums depend on it, and so do ties.
    for output in rolled(range(entry_begin.shape[0] - 1)):
        score = 0.0
        for s in rolled(range(entry_begin[output], entry_begin[output + 1])):
            x = as_real(statistic(data, child, s), entry_begin)
            if criterion == ENTROPY:
                score += x_log_x(x)
            elif criterion == MISCLASSIFICATION:
                score = max(score, x)
            elif criterion != POISSON:
                score += square(x)
            elif x > 0.0:
                score = poisson_score(x, weight)
            else:
                return NO_SPLIT
        if criterion == ENTROPY:
            score -= x_log_x(weight)
        elif criterion != POISSON and criterion != MISCLASSIFICATION:
            score /= weight
        total += score
    return total


@device_function
def value_of(data, child):
    """Return the number that monotone constraints compare: the mean, or the share of class 1."""
    entry_begin = data[3]
    x = as_real(statistic(data, child, entry_begin[1] - 1), entry_begin)
    return x / f64(packed_weight(data, child) & MASK)


@device_function
def score_of_cut(data, left, right, limits, criterion):
    """Return the score of a candidate, ``NO_SPLIT`` where it is struck out."""
    least_rows, least_weight, constrained, direction, low, high = limits
    # The cheap limits come first; most struck-out candidates end here.
    packed_left = packed_weight(data, left)
    packed_right = packed_weight(data, right)
    if min(packed_left >> SHIFT, packed_right >> SHIFT) < least_rows:
        return NO_SPLIT
    weight_left = f64(packed_left & MASK)
    weight_right = f64(packed_right & MASK)
    if min(weight_left, weight_right) < least_weight:
        return NO_SPLIT
    if constrained != 0 and direction != 0:
        value_left = value_of(data, left)
        value_right = value_of(data, right)
        if min(value_left, value_right) < low or max(value_left, value_right) > high:
            return NO_SPLIT
        if direction > 0 and value_left > value_right or direction < 0 and value_left < value_right:
            return NO_SPLIT
    # Left, then right: every implementation adds them in this order.
    return score_of(data, left, weight_left, criterion) + score_of(
        data, right, weight_right, criterion
    )


@device_function
def children_of(line, node, number, missing):
    """Return the children of candidate ``2 * place + side``; the missing rows are on its left if
    the side is 1."""
    slot = missing if number & 1 else -1
    return (line, node, number >> 1, slot, False), (line, node, number >> 1, slot, True)


@device_function
def left_is_larger(data, left, right):
    """Return whether the left child has more rows."""
    return packed_weight(data, left) >> SHIFT > packed_weight(data, right) >> SHIFT


@device_function
def mark_bins(codes, records, begin, end, feature, n_bins, place_of, n_threads, t):
    """Mark the bins that hold rows."""
    for b in rolled(range(t, n_bins + 1, n_threads)):
        place_of[b] = 0
    cuda.syncthreads()  # all flags are clear
    i = begin + t
    while i < end:
        # Any thread may set a flag: all write the same 1.
        cuda.atomic.max(place_of, i64(codes[feature, i64(records[i]) & ROW_MASK]), i32(1))
        i += n_threads
    cuda.syncthreads()  # all flags are set


@device_function
def mark_summed(summed, at, entry_begin, n_bins, place_of, n_threads, t):
    """Mark the bins that hold rows, of a huge node."""
    for b in rolled(range(t, n_bins + 1, n_threads)):
        is_empty = packed_weight_of_slot(summed, at, b, entry_begin) == 0
        place_of[b] = i32(0) if is_empty else i32(1)
    cuda.syncthreads()


@device_function
def list_bins(n_bins, place_of, ascending, scan, t):
    """List the bins that are marked, and behind them -1. Return how many they are, and the slot of
    the missing rows, or -1 if there are none."""
    n_threads = scan.shape[0]
    has_missing = place_of[n_bins] != 0
    # A run of bins a thread, so that slots ascend with the bins.
    share = (n_bins + n_threads - 1) // n_threads
    first = min(t * share, n_bins)
    last = min(first + share, n_bins)
    own = 0
    for b in rolled(range(first, last)):
        own += place_of[b]
    scan[t] = own
    inclusive_scan(scan, t)
    n_places = i32(scan[n_threads - 1])
    place = i32(scan[t] - own)
    for b in rolled(range(first, last)):
        if place_of[b] != 0:
            ascending[place] = b
            # The flag turns into the slot.
            place_of[b] = place
            place += 1
        else:
            place_of[b] = NO_PLACE
    if t == 0:
        # Missing rows have the slot behind the bins; the list ends with a mark.
        place_of[n_bins] = n_places
        ascending[n_places] = NO_PLACE
    cuda.syncthreads()
    return n_places, n_places if has_missing else i32(-1)


@device_function
def add_up_slots(codes, of_rows, records, begin, end, feature, place_of, n_slots, sums, line, scan):
    """Fill the statistics of the slots."""
    classes, values, weight = of_rows
    n_threads = scan.shape[0]
    t = cuda.threadIdx.x
    n_statistics = sums.shape[2]
    for entry in rolled(range(t, n_slots * n_statistics, n_threads)):
        sums[line, entry // n_statistics, entry % n_statistics] = 0
    cuda.syncthreads()  # all sums are zero
    i = begin + t
    while i < end:
        record = i64(records[i])
        slot = place_of[codes[feature, record & ROW_MASK]]
        # Atomic, in global memory: slots can have any number of statistics, and integers any order.
        add_row(classes, values, weight, record, line, slot, sums)
        i += n_threads
    cuda.syncthreads()


@device_function
def copy_slots(summed, at, n_bins, ascending, n_places, sums, line, n_threads, t):
    """Fill the statistics of the slots, of a huge node."""
    n_statistics = sums.shape[2]
    for entry in rolled(range(t, (n_places + 1) * n_statistics, n_threads)):
        slot = entry // n_statistics
        b = ascending[slot] if slot < n_places else n_bins
        sums[line, slot, entry % n_statistics] = summed[at, b, entry % n_statistics]
    cuda.syncthreads()


@device_function
def sort_by_keys(ascending, keys, n_places, order, place_of, scan, t):
    """Rank every bin; the lower one wins ties."""
    # The keys are there. Every thread counts the lower ones: at most 256 bins are ranked sooner
    # than they are sorted, and no thread waits for another.
    cuda.syncthreads()
    for p in rolled(range(t, n_places, scan.shape[0])):
        rank = 0
        for q in rolled(range(n_places)):
            if keys[q] < keys[p] or keys[q] == keys[p] and q < p:
                rank += 1
        order[rank] = p
        place_of[ascending[p]] = rank
    cuda.syncthreads()


@device_function
def sum_over_threads(own, scan, t):
    """Return the sum of the threads' numbers to all of them."""
    cuda.syncthreads()
    # Behind the barrier no thread still reads an earlier scan.
    scan[t] = own
    inclusive_scan(scan, t)
    return scan[scan.shape[0] - 1]


@device_function
def rank_by_statistic(sums, line, s, entry_begin, n_places, keys, scan, t):
    """Compute the keys of the categories: entry s of their statistics per unit of weight."""
    for p in rolled(range(t, n_places, scan.shape[0])):
        weight = f64(packed_weight_of_slot(sums, line, p, entry_begin) & MASK)
        keys[p] = as_real(sums[line, p, s], entry_begin) / weight


@device_function
def rank_at_random(stream, ascending, n_places, keys, scan, t):
    """Compute keys of the categories that put those on the left first, and return how many these
    are."""
    own = 0
    for p in rolled(range(t, n_places, scan.shape[0])):
        side = i32(draw(stream, u64(ascending[p] + 1)) & u64(1))
        keys[p] = 1.0 - side
        own += side
    n_left = sum_over_threads(own, scan, t)
    if t == 0 and n_left == 0:
        # One side would be empty: the lowest category changes to it. Thread 0 itself wrote its key.
        keys[0] = 0.0
    if t == 0 and n_left == n_places:
        keys[0] = 1.0
    return min(max(n_left, 1), n_places - 1)


@device_function
def bins_up_to(cut, lower, upper, begin, ascending, n_places, scan, t):
    """Return how many bins a random cut leaves on the left."""
    own = 0
    for p in rolled(range(t, n_places, scan.shape[0])):
        # Halved before they are added, as the sum could overflow.
        at = begin + ascending[p]
        if lower[at] / 2.0 + upper[at] / 2.0 <= cut:
            own += 1
    # The lowest bin always goes left, the highest never.
    return min(max(sum_over_threads(own, scan, t), 1), n_places - 1)


@device_function
def add_up_places(sums, line, order, n_places, up_to, scan, t):
    """Compute running sums over the bins in their order."""
    n_threads = scan.shape[0]
    if n_places <= FEW_PLACES:
        # An entry of the statistics a thread: no barriers.
        for s in rolled(range(t, sums.shape[2], n_threads)):
            total = i64(0)
            for p in rolled(range(n_places)):
                total += sums[line, order[p], s]
                up_to[line, p, s] = total
    else:
        # A run of places a thread: first the sums of runs, then those before them, then each place.
        share = (n_places + n_threads - 1) // n_threads
        first = min(t * share, n_places)
        last = min(first + share, n_places)
        for s in rolled(range(sums.shape[2])):
            own = i64(0)
            for p in rolled(range(first, last)):
                own += sums[line, order[p], s]
            cuda.syncthreads()
            # Behind the barrier the scan of the entry before has been read.
            scan[t] = own
            inclusive_scan(scan, t)
            total = scan[t] - own
            for p in rolled(range(first, last)):
                total += sums[line, order[p], s]
                up_to[line, p, s] = total
    cuda.syncthreads()


@device_function
def only_cut(stream, where, ascending, n_places, missing, keys, scan, t):
    """Return the number of a random split's one candidate, and where it cuts the values. Fills
    the keys of categories."""
    categorical, begin, lower, upper = where
    # One draw decides about the cut, and its lowest bit about the missing rows.
    bits = draw(stream, u64(0))
    side = i32(bits & u64(1)) if missing >= 0 else i32(0)
    cut = np.nan
    if n_places == 1:
        if t == 0:
            # One bin, which goes left, against the missing rows.
            keys[0] = 0.0
        return i32(0), cut
    if categorical != 0:
        n_left = rank_at_random(stream, ascending, n_places, keys, scan, t)
    else:
        low = lower[begin + ascending[0]]
        cut = random_cut(low, upper[begin + ascending[n_places - 1]], f64(bits))
        n_left = bins_up_to(cut, lower, upper, begin, ascending, n_places, scan, t)
    return i32(2 * (n_left - 1) + side), cut


@device_function
def arrange(categorical, ascending, keys, n_places, order, place_of, scan, t):
    """Fill ``order`` with slots: categories by their keys, other bins ascending."""
    if categorical != 0:
        sort_by_keys(ascending, keys, n_places, order, place_of, scan, t)
    else:
        for p in rolled(range(t, n_places, scan.shape[0])):
            order[p] = p
        cuda.syncthreads()


@device_function
def orders_of(categorical, random_splits, entry_begin):
    """Return the first statistic that the bins are put in order by, and how many there are."""
    n_outputs = entry_begin.shape[0] - 1
    first = entry_begin[0]
    n = entry_begin[n_outputs] - first
    if categorical == 0 or random_splits != 0:
        return first, i64(1)
    if n_outputs == 1 and n == 2:
        return first + 1, i64(1)
    return first, n


@device_function
def find_slots(table, of_rows, bins, f, begin, end, lines, summed, shared):
    """Find the bins of a feature and add up their statistics, or copy them from ``summed`` (see
    ``tiles``) where they are at a line of it. Return how many bins hold rows, and the slot of the
    missing rows (-1: none)."""
    codes, records, _ = table
    sums, _, line = lines
    place_of, ascending, scan = shared[0], shared[1], shared[4]
    t = cuda.threadIdx.x
    n_bins = i32(bins[0][f, N_BINS])
    n_threads = scan.shape[0]
    if summed[1] >= 0:
        mark_summed(summed[0], summed[1], bins[3], n_bins, place_of, n_threads, t)
    else:
        mark_bins(codes, records, begin, end, f, n_bins, place_of, n_threads, t)
    n, missing = list_bins(n_bins, place_of, ascending, scan, t)
    if summed[1] >= 0:
        copy_slots(summed[0], summed[1], n_bins, ascending, n, sums, line, n_threads, t)
    elif n > 1 or n == 1 and missing >= 0:
        add_up_slots(codes, of_rows, records, begin, end, f, place_of, n + 1, sums, line, scan)
    return n, missing


@device_function
def best_of_order(data, places, only, limits, criterion, ascending, scores, marks, t):
    """Bring the best candidate of an order, or the only one, to the front of ``scores`` and
    ``marks``. Cuts are between unequal neighbours."""
    line, x, n_places, missing = places
    best = NO_SPLIT
    best_number = NOWHERE
    # Runs of places ascend with the threads, so that the first of equals is the lowest place.
    share = (n_places + scores.shape[0] - 1) // scores.shape[0]
    for p in rolled(range(t * share, min((t + 1) * share, n_places))):
        for side in rolled(range(2 if missing >= 0 else 1)):
            number = i32(2 * p + side)
            # Neighbours in a list can have the same code; a cut must not part them.
            wanted = ascending[p + 1] != ascending[p]
            if ascending[p + 1] < 0:
                # Behind the last place only the missing rows are left for the right side.
                wanted = missing >= 0 and side == 0
            if only != EVERY_CUT:
                wanted = number == only
            if wanted:
                left, right = children_of(line, x, number, missing)
                score = score_of_cut(data, left, right, limits, criterion)
                if score > best:
                    best = score
                    best_number = number
    scores[t] = best
    marks[t] = best_number
    best_to_front(scores, marks, t)


@device_function
def best_item(scores_of, first, n_first, scan, scores, marks, t):
    """Return the first of the best items of a node, or tiles of a feature (-1: none has a split),
    and whether any has a candidate."""
    best = NO_SPLIT
    best_number = NOWHERE
    n_varied = 0
    for j in rolled(range(t, n_first, scan.shape[0])):
        score = scores_of[first + j]
        # Not NaN: the feature has a candidate, if perhaps none that is allowed.
        if score == score:
            n_varied += 1
        if score > best:
            best = score
            best_number = i32(j)
    n_varied = sum_over_threads(n_varied, scan, t)
    scores[t] = best
    marks[t] = best_number
    best_to_front(scores, marks, t)
    number = marks[0] if scores[0] > NO_SPLIT else i32(-1)
    cuda.syncthreads()  # all have read the winner before ``scores`` and ``marks`` are written again
    return number, n_varied > 0
