"""Categories as bins: the codes of a node in the order in which they are cut (the twin of
``kernels.growth.reference.category_arrangement``)."""

from __future__ import annotations

import numpy as np

from ...runtime.compilation import inner
from ...runtime.dtypes import CODE_WORDS, MISSING
from ...scalars.category_order import category_key

u32, i64 = np.uint32, np.int64
LOW = i64(0xFFFFFFFF)

PLACES, CODES, SUMS, COUNTS, N_LINES = range(5)
"""Lines of scratch, 256 entries each: the place of every code, -1 where it goes with the missing
values; the codes that have a place; packed sums and counts of rows by place."""


@inner
def arrange(bins, n_bins, total, is_alone, least_h, smoothing, row_counts, keys, lines):
    """Put the packed sums of a feature's codes into the order of the categories; how many have a
    place. ``row_counts`` is empty or has counts by code.

    A place is the number of codes that come before: quadratic, but without branches.
    """
    places, codes, sums, counts = lines[PLACES], lines[CODES], lines[SUMS], lines[COUNTS]
    n = 0
    for b in range(n_bins):
        places[b] = -1
        h = bins[b] & LOW
        if h >= least_h:
            codes[n] = b
            g = bins[b] >> i64(32)
            keys[n] = float(b) if is_alone else category_key(float(g), float(h), smoothing)
            n += 1
    rest = total
    for i in range(n):
        key = keys[i]
        place = i64(0)
        for j in range(i):
            place += i64(1) if keys[j] <= key else i64(0)
        for j in range(i + 1, n):
            place += i64(1) if keys[j] < key else i64(0)
        places[codes[i]] = place
        sums[place] = bins[codes[i]]
        rest -= bins[codes[i]]
    sums[MISSING] = rest
    if row_counts.size > 0:
        counts[MISSING] = row_counts[MISSING]
        for b in range(n_bins):
            if places[b] >= 0:
                counts[places[b]] = row_counts[b]
            else:
                counts[MISSING] += row_counts[b]
    return n


@inner
def fill_left_codes(places, n_bins, cut, missing_left, is_alone, words):
    """The set of codes on the left of the cut after a place (see ``Splits``)."""
    for w in range(CODE_WORDS):
        words[w] = u32(0xFFFFFFFF) if missing_left == 1 else u32(0)
    for b in range(n_bins):
        place = places[b]
        if place < 0:
            continue
        bit = u32(1) << u32(b & 31)
        in_left = place == cut if is_alone else place <= cut
        if in_left:
            words[b >> 5] |= bit
        else:
            words[b >> 5] &= ~bit
