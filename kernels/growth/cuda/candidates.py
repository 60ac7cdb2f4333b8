"""The best split of one node by one feature, compared by a block in shared memory.

The sums of g and h of a bin are packed in one int64, ``g << 32 | h``: h is not negative and
neither sum leaves 32 bits, so one addition serves both. The codes of a feature with categories
are first arranged as bins, in the order in which they are cut.
"""

from __future__ import annotations

import numpy as np

from ...runtime.cuda.blocks import NOWHERE, best_to_front, inclusive_scan
from ...runtime.cuda.target import block_size, cuda, device_function
from ...runtime.dtypes import MISSING, N_SLOTS
from ...scalars.gain import bounded_score, bounded_value, category_key, keeps_order, newton_score

u32, i32, i64, f64 = np.uint32, np.int32, np.int64, np.float64

BLOCK = block_size(64)
"""Threads of a block that calls these functions."""
OWN = N_SLOTS // BLOCK
"""Neighbouring bins of one thread."""
NO_SPLIT = -np.inf
LOW = i64(0xFFFFFFFF)
S32 = i64(32)


@device_function
def packed(g, h):
    """Pack two sums into one."""
    return (i64(g) << S32) + i64(h)


@device_function
def score_of(left, total, limits):
    """Return the score of a split by its packed sums; ``NO_SPLIT`` if a child is too light."""
    least_h, l2, _, _, _, _ = limits
    right = total - left
    left_h = i32(left & LOW)
    right_h = i32(right & LOW)
    if left_h < least_h or right_h < least_h:
        return NO_SPLIT
    return newton_score(f64(i32(left >> S32)), f64(left_h), l2) + newton_score(
        f64(i32(right >> S32)), f64(right_h), l2
    )


@device_function
def bounded_score_of(left, total, limits):
    """Do the same where the children's values are bounded and ordered."""
    least_h, l2, _, low, high, direction = limits
    right = total - left
    left_h = i32(left & LOW)
    right_h = i32(right & LOW)
    if left_h < least_h or right_h < least_h:
        return NO_SPLIT
    left_g = f64(i32(left >> S32))
    right_g = f64(i32(right >> S32))
    left_value = bounded_value(left_g, f64(left_h), l2, low, high)
    right_value = bounded_value(right_g, f64(right_h), l2, low, high)
    if not keeps_order(left_value, right_value, direction):
        return NO_SPLIT
    return bounded_score(left_g, f64(left_h), l2, low, high) + bounded_score(
        right_g, f64(right_h), l2, low, high
    )


@device_function
def best_of_bins(bins, rows, least_rows, n_used, alone, total, limits, scratch, t):
    """Bring the score and the number of the best candidate to the front of ``scores`` and
    ``numbers``, and the packed sums on its left to ``lefts``.

    A thread owns ``OWN`` neighbouring bins. It adds them up, the threads scan their sums, and
    it walks through its bins again with the sums of all bins below them. The candidate with
    bin b and missing values on the right has number 2 b, on the left 2 b + 1. Where a category
    is cut off ``alone``, nothing below it counts.

    Parameters
    ----------
    bins : int64, shape (N_SLOTS,)
        Packed sums.
    rows : int32, shape (N_SLOTS,)
        Rows of each bin, of which a child needs ``least_rows``; not looked at if this is 0.
    n_used : int
        Bins that hold values.
    limits : tuple
        ``least_h``, ``l2``, whether values are bounded, their bounds, and the monotone
        constraint.
    scratch : tuple
        ``below`` and ``rows_below`` (int64), ``scores`` (float64), ``numbers`` (int32), an entry
        a thread, and ``lefts`` (int64), one entry.
    """
    below, rows_below, scores, numbers, lefts = scratch
    bounded = limits[2]
    counted = least_rows > 0
    best = NO_SPLIT
    best_number = NOWHERE
    best_left = i64(0)
    # The sums of all bins below those of this thread.
    own = i64(0)
    own_rows = i64(0)
    for b in range(t * OWN, min((t + 1) * OWN, MISSING)):
        own += bins[b]
        if counted:
            own_rows += i64(rows[b])
    below[t] = own
    inclusive_scan(below, t)
    left = below[t] - own
    missing = bins[MISSING]
    rows_left = i64(0)
    rows_missing = i64(0)
    rows_total = i64(0)
    if counted:
        rows_below[t] = own_rows
        inclusive_scan(rows_below, t)
        rows_left = rows_below[t] - own_rows
        rows_missing = i64(rows[MISSING])
        rows_total = rows_below[BLOCK - 1] + rows_missing
    # The candidates of this thread, in the order that decides ties.
    last = 2 * min((t + 1) * OWN, n_used)
    for number in range(2 * t * OWN, last):  # one loop: one copy of the scores' code
        b = number >> 1
        side = number & 1
        # The next bin, which both of its candidates have on the left.
        if side == 0:
            if alone:
                left = i64(0)
                rows_left = i64(0)
            left += bins[b]
            if counted:
                rows_left += i64(rows[b])
        # Without missing values both sides score alike: the heavier child gets unseen ones.
        if missing == 0:
            heavier = 1 if 2 * (left & LOW) > (total & LOW) else 0
            if side != heavier:
                continue
        candidate = left + side * missing
        on_left = rows_left + side * rows_missing
        if bounded:
            value = bounded_score_of(candidate, total, limits)
        else:
            value = score_of(candidate, total, limits)
        # Only a higher score replaces the best one: the first of equal ones stays.
        enough = min(on_left, rows_total - on_left) >= least_rows
        if value > best and (enough or not counted):
            best = value
            best_number = i32(number)
            best_left = candidate
    # The best of the block; of equal scores the lowest number.
    scores[t] = best
    numbers[t] = best_number
    best_to_front(scores, numbers, t)
    # Where nothing has been found, all threads have the same number, and one of them stores 0.
    if numbers[0] == best_number and (best_number != NOWHERE or t == 0):
        lefts[0] = best_left
    cuda.syncthreads()  # the winner has written its sums


NO_KEY = np.inf
NO_PLACE = -1


@device_function
def arrange(bins, rows, counted, n_bins, alone, least_h, smoothing, scratch, t):
    """Put the sums and counts of rows in the order of the places and return how many places there
    are.

    A thread looks at every BLOCK-th code. Its place is the number of codes that come before, by
    their keys and then by their numbers; ``NO_PLACE`` where it goes with the missing values.

    Parameters
    ----------
    bins, rows, n_bins, alone
        As in ``best_of_bins``.
    least_h : int
        A category with less goes with the missing values.
    smoothing : float
        Of ``category_key``.
    scratch : tuple
        ``keys`` (float64), ``places`` (int32) and the result, ``sums`` (int64) and ``counts``
        (int32), with an entry a code.
    """
    keys, places, sums, counts = scratch
    # Keys of the codes that get a place; the places are cleared.
    for b in range(t, N_SLOTS, BLOCK):
        h = bins[b] & LOW
        key = NO_KEY
        if b < n_bins and h >= least_h:
            key = f64(b)
            if not alone:
                key = category_key(f64(i32(bins[b] >> S32)), f64(h), smoothing)
        keys[b] = key
        sums[b] = 0
        counts[b] = 0
    cuda.syncthreads()  # all keys are there
    for b in range(t, N_SLOTS, BLOCK):
        # Place of a code: how many come before it. Quadratic, but all threads compare at once.
        place = i32(NO_PLACE)
        if keys[b] < NO_KEY:
            place = i32(0)
            for other in range(n_bins):
                if keys[other] < keys[b] or keys[other] == keys[b] and other < b:
                    place += i32(1)
            sums[place] = bins[b]
            if counted:
                counts[place] = rows[b]
        places[b] = place
    cuda.syncthreads()  # all places are found
    # All threads count the places, which spares a sum over the block.
    n_used = i32(0)
    for b in range(n_bins):
        if places[b] != NO_PLACE:
            n_used += i32(1)
    if t == 0:
        # One thread adds up the codes without a place, which go with the missing values.
        rest = i64(0)
        rest_rows = i32(0)
        for b in range(N_SLOTS):
            if places[b] == NO_PLACE:
                rest += bins[b]
                if counted:
                    rest_rows += rows[b]
        sums[MISSING] = rest
        counts[MISSING] = rest_rows
    cuda.syncthreads()  # the missing values are complete
    return n_used


@device_function
def word_of_codes(places, n_bins, number, alone, w):
    """Return word ``w`` of the set of codes on the left of the candidate with that number."""
    cut = number >> 1
    missing_left = number & 1 != 0
    word = u32(0)
    for bit in range(32):
        code = w * 32 + bit
        # Codes without a place, beyond the bins too, go with the missing values.
        in_left = missing_left
        if code < n_bins and places[code] != NO_PLACE:
            in_left = places[code] == cut if alone else places[code] <= cut
        if in_left:
            word |= u32(1) << u32(bit)
    return word
