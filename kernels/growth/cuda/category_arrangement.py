"""Categories as bins: a node's codes in the order in which they are cut (the twin of
``kernels.growth.reference.category_arrangement``), by a block in shared memory."""

from __future__ import annotations

import numpy as np

from ...runtime.cuda.target import cuda, device_function
from ...runtime.dtypes import MISSING, N_SLOTS
from ...scalars.category_order import category_key
from .candidates import BLOCK, LOW, S32

i32, i64, u32, f64 = np.int32, np.int64, np.uint32, np.float64

NO_KEY = np.inf
NO_PLACE = -1


@device_function
def arrange(bins, rows, counted, n_bins, alone, least_h, smoothing, scratch, t):
    """Put the sums and counts of rows in the order of the places; how many places there are.

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
    for b in range(t, N_SLOTS, BLOCK):
        h = bins[b] & LOW
        keys[b] = NO_KEY
        if b < n_bins and h >= least_h:
            keys[b] = f64(b)
            if not alone:
                keys[b] = category_key(f64(i32(bins[b] >> S32)), f64(h), smoothing)
        sums[b] = 0
        counts[b] = 0
    cuda.syncthreads()
    for b in range(t, N_SLOTS, BLOCK):
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
    cuda.syncthreads()
    n_used = i32(0)
    for b in range(n_bins):
        if places[b] != NO_PLACE:
            n_used += i32(1)
    if t == 0:
        rest = i64(0)
        rest_rows = i32(0)
        for b in range(N_SLOTS):
            if places[b] == NO_PLACE:
                rest += bins[b]
                if counted:
                    rest_rows += rows[b]
        sums[MISSING] = rest
        counts[MISSING] = rest_rows
    cuda.syncthreads()
    return n_used


@device_function
def word_of_codes(places, n_bins, number, alone, w):
    """Word ``w`` of the set of codes on the left of the candidate with that number."""
    cut = number >> 1
    missing_left = number & 1 != 0
    word = u32(0)
    for bit in range(32):
        code = w * 32 + bit
        in_left = missing_left
        if code < n_bins and places[code] != NO_PLACE:
            in_left = places[code] == cut if alone else places[code] <= cut
        if in_left:
            word |= u32(1) << u32(bit)
    return word
