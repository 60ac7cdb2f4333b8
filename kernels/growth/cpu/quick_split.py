"""Best split of a feature without categories and constraints, for ``grow``: the result of
``best_of_feature``, found with fewer divisions.

The candidates are compared in float32, eight at a time and with one division each. Only those
that come close to the best, nearly always one, get the score that counts, in float64; not those
of empty bins, which repeat the one before, which wins the tie.

    2**31 > |g|, h and l2      so no product leaves float32
    16 roundings of 2**-24     are the relative error of an approximate score, below ``MARGIN / 2``

In a node of few rows their number is counted along with the sums: those of up to ``MOST_ROWS``
rows leave room for it in a packed entry.

    63                40 39                16 15             0
    +-------------------+-------------------+----------------+
    |         g         |         h         |      rows      |
    +-------------------+-------------------+----------------+

So no split is found there that leaves a child with too few rows, and a bin is empty where its
entry is zero. That search goes from one occupied bin to the next, of which there are few.
"""

from __future__ import annotations

import numpy as np

from ...runtime.compilation import inner
from ...runtime.cpu.lanes import LANES, SET_SIZE, lowest_bit, nonzero_bits, running_sums
from ...runtime.dtypes import MISSING
from ...scalars.gain import newton_score
from ...scalars.primitives import bits_of_float32, float32_of
from ..frontier import NO_GAIN

u64, i32, i64, f32 = np.uint64, np.int32, np.int64, np.float32

LOW = i64(0xFFFFFFFF)
NOWHERE = 2**31 - 1
LARGEST_L2 = 2.0**31
MARGIN = 2.0**-18
BLOCK = 32
"""Candidates are filled up to a multiple of this, which spares the loops their remainders."""
N_CANDIDATES = 256


@inner
def _candidates(histogram, n_bins, prefix):
    """Fill ``prefix`` with the sums on the left of each cut and return how many blocks they
    fill."""
    n = (n_bins + LANES - 1) // LANES * LANES
    total = running_sums(histogram, n, prefix)
    n_blocks = (n + BLOCK - 1) // BLOCK
    for b in range(n, n_blocks * BLOCK):
        prefix[b] = total
    return n_blocks


@inner
def _approximate(prefix, n_blocks, extra, total, least_h, l2, scores):
    """Fill in the scores of the candidates with ``extra`` on the left, -1 where a child is too
    small, and return the largest one. The bits of -1 are below those of all other scores, whose
    bits are in the order of the scores."""
    least = i32(least_h)
    total_g, total_h = i32(total >> i64(32)), i32(total & LOW)
    l2 = f32(l2)
    best = bits_of_float32(f32(-1.0))
    for b in range(n_blocks * BLOCK):
        left = prefix[b] + extra
        left_g, left_h = i32(left >> i64(32)), i32(left & LOW)
        right_g, right_h = i32(total_g - left_g), i32(total_h - left_h)
        gl, gr = f32(left_g), f32(right_g)
        hl, hr = f32(left_h) + l2, f32(right_h) + l2
        score = (gl * gl * hr + gr * gr * hl) / (hl * hr)
        score = score if min(left_h, right_h) >= least else f32(-1.0)
        scores[b] = score
        best = max(best, bits_of_float32(score))
    return float32_of(i32(best))


@inner
def at_least(scores, n_blocks, bound):
    """Return the first score that is not below ``bound``, and how many there are."""
    first, count = i32(NOWHERE), i32(0)
    for b in range(n_blocks * BLOCK):
        is_close = scores[b] >= bound
        first = min(first, i32(b) if is_close else i32(NOWHERE))
        count += i32(1) if is_close else i32(0)
    return first, count


@inner
def _exact(left, total, l2):
    right = total - left
    return newton_score(float(left >> i64(32)), float(left & LOW), l2) + newton_score(
        float(right >> i64(32)), float(right & LOW), l2
    )


@inner
def best_of_plain(histogram, n_bins, total, least_h, l2, floor, prefix, scores):
    """Find the best split of one feature: (score, bin, missing_left, packed left sums).

    The result is that of ``best_of_feature``, except that a score below ``floor`` may be only a
    bound: no split has a higher score, and the bin is -1. ``l2`` is at most ``LARGEST_L2``; entries
    behind the last bin are zero up to a multiple of ``LANES``; the scratch has N_CANDIDATES
    entries, int64 and float32.
    """
    missing = histogram[MISSING]
    n_blocks = _candidates(histogram, n_bins, prefix)
    best, at, missing_left, left = NO_GAIN, i64(NOWHERE), i64(0), i64(0)
    limit = NO_GAIN
    for side in range(2):
        if side == 1 and missing == 0:
            break
        extra = missing if side == 1 else i64(0)
        top = _approximate(prefix, n_blocks, extra, total, least_h, l2, scores)
        if top < f32(0.0):
            continue
        limit = max(limit, float(top) * (1.0 + MARGIN))
        if float(top) * (1.0 + MARGIN) < floor:
            continue
        bound = f32(float(top) * (1.0 - MARGIN))
        first, count = at_least(scores, n_blocks, bound)
        k = u64(first)
        while count > 0:
            if scores[k] >= bound:
                count -= 1
                if k == 0 or histogram[k] != 0:
                    score = _exact(prefix[k] + extra, total, l2)
                    if score > best or (score == best and i64(k) < at):
                        best, at, missing_left, left = score, i64(k), i64(side), prefix[k] + extra
            k += u64(1)
    if best == NO_GAIN or best < floor:
        return limit, i64(-1), i64(0), i64(0)
    if missing == 0 and 2 * (left & LOW) > (total & LOW):
        missing_left = i64(1)
    return best, at, missing_left, left


MOST_ROWS = 256
ROWS = i64(0xFFFF)
H = i64(0xFFFFFF)


@inner
def counted(record):
    """Return the record's statistics as an addend of packed sums with their number of rows."""
    signed = i64(record)
    return ((signed >> i64(48)) << i64(40)) + ((signed >> i64(16)) & i64(0xFFFF0000)) + i64(1)


@inner
def _occupied_candidates(bins, n_bins, prefix, bin_of):
    """List the distinct sums on the left of a cut, always including the first bin's, with their
    bins. Clears the entries and returns how many blocks the candidates fill."""
    total = bins[0]
    prefix[0] = total
    bin_of[0] = 0
    bins[0] = 0
    n = u64(1)
    for first in range(0, n_bins, SET_SIZE):
        occupied = nonzero_bits(bins, first)
        if n_bins - first < SET_SIZE:
            occupied &= (u64(1) << u64(n_bins - first)) - u64(1)
        while occupied != 0:
            b = u64(first) + lowest_bit(occupied)
            occupied &= occupied - u64(1)
            total += bins[b]
            bins[b] = 0
            prefix[n] = total
            bin_of[n] = b
            n += u64(1)
    n_blocks = (i64(n) + BLOCK - 1) // BLOCK
    for k in range(i64(n), n_blocks * BLOCK):
        prefix[k] = total
    return n_blocks


@inner
def _approximate_few(prefix, n_blocks, extra, stray, total, least_h, least_rows, l2, scores):
    """Do the same as ``_approximate``; ``stray`` rows without any statistics follow the larger
    hessian."""
    least, fewest, stray = i32(least_h), i32(least_rows), i32(stray)
    total_g, total_h, rows = i32(total >> i64(40)), i32((total >> i64(16)) & H), i32(total & ROWS)
    l2 = f32(l2)
    best = bits_of_float32(f32(-1.0))
    for b in range(n_blocks * BLOCK):
        left = prefix[b] + extra
        left_g, left_h = i32(left >> i64(40)), i32((left >> i64(16)) & H)
        right_g, right_h = i32(total_g - left_g), i32(total_h - left_h)
        left_rows = i32(left & ROWS) + (stray if left_h > right_h else i32(0))
        gl, gr = f32(left_g), f32(right_g)
        hl, hr = f32(left_h) + l2, f32(right_h) + l2
        score = (gl * gl * hr + gr * gr * hl) / (hl * hr)
        is_heavy = min(left_h, right_h) >= least
        has_rows = min(left_rows, i32(rows - left_rows)) >= fewest
        score = score if is_heavy & has_rows else f32(-1.0)
        scores[b] = score
        best = max(best, bits_of_float32(score))
    return float32_of(i32(best))


@inner
def _exact_few(left, total, l2):
    right = total - left
    return newton_score(float(left >> i64(40)), float((left >> i64(16)) & H), l2) + newton_score(
        float(right >> i64(40)), float((right >> i64(16)) & H), l2
    )


@inner
def best_of_few(bins, n_bins, total, least_h, least_rows, l2, floor, prefix, bin_of, scores):
    """Find the best split of one feature: (score, bin, missing_left, left sums packed as usual).

    Clears ``bins``; ``total`` is that of the node; the others are as for ``best_of_plain``.
    """
    missing = bins[MISSING]
    bins[MISSING] = 0
    n_blocks = _occupied_candidates(bins, n_bins, prefix, bin_of)
    stray = missing if missing >> i64(16) == 0 else i64(0)
    best, at, missing_left, left = NO_GAIN, i64(NOWHERE), i64(0), i64(0)
    for side in range(2):
        if side == 1 and missing == stray:
            break
        extra = missing if side == 1 else i64(0)
        top = _approximate_few(
            prefix, n_blocks, extra, stray, total, least_h, least_rows, l2, scores
        )
        if top < f32(0.0) or float(top) * (1.0 + MARGIN) < floor:
            continue
        bound = f32(float(top) * (1.0 - MARGIN))
        first, count = at_least(scores, n_blocks, bound)
        k = u64(first)
        while count > 0:
            if scores[k] >= bound:
                count -= 1
                score = _exact_few(prefix[k] + extra, total, l2)
                if score > best or (score == best and i64(k) < at):
                    best, at, missing_left, left = score, i64(k), i64(side), prefix[k] + extra
            k += u64(1)
    if best == NO_GAIN:
        return best, i64(-1), i64(0), i64(0)
    left_h = (left >> i64(16)) & H
    if missing == stray and 2 * left_h > ((total >> i64(16)) & H):
        missing_left = i64(1)
    return best, i64(bin_of[at]), missing_left, ((left >> i64(40)) << i64(32)) + left_h
