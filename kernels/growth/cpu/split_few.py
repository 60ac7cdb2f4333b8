"""Best split of a feature in a node of few rows, whose number is counted along with the sums.

The sums of up to ``MOST_ROWS`` rows leave room in a packed entry for their number:

    63                40 39                16 15             0
    +-------------------+-------------------+----------------+
    |         g         |         h         |      rows      |
    +-------------------+-------------------+----------------+

So no split is found here that leaves a child with too few rows, and a bin is empty where its
entry is zero. The search goes from one occupied bin to the next, of which there are few, and is
otherwise that of ``split_plain``.
"""

from __future__ import annotations

import numpy as np

from ...runtime.compilation import inner
from ...runtime.cpu.bits import LANES, lowest_bit, nonzero_bits
from ...runtime.dtypes import MISSING
from ...scalars.gain import newton_score
from ...scalars.primitives import bits_of_float32, float32_of
from ..frontier import NO_GAIN
from .split_plain import BLOCK, MARGIN, NOWHERE, at_least

f32, i32, i64, u64 = np.float32, np.int32, np.int64, np.uint64
MOST_ROWS = 256
ROWS = i64(0xFFFF)
H = i64(0xFFFFFF)


@inner
def counted(record):
    """The record's statistics as an addend of packed sums with their number of rows."""
    signed = i64(record)
    return ((signed >> i64(48)) << i64(40)) + ((signed >> i64(16)) & i64(0xFFFF0000)) + i64(1)


@inner
def _candidates(bins, n_bins, prefix, bin_of):
    """The distinct sums on the left of a cut, the first bin's in any case, and their bins. Clears
    the entries. Returns how many blocks they fill."""
    total = bins[0]
    prefix[0] = total
    bin_of[0] = 0
    bins[0] = 0
    n = u64(1)
    for first in range(0, n_bins, LANES):
        occupied = nonzero_bits(bins, first)
        if n_bins - first < LANES:
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
def _approximate(prefix, n_blocks, extra, stray, total, least_h, least_rows, l2, scores):
    """As in ``split_plain``; ``stray`` rows without any statistics follow the larger hessian."""
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
def _exact(left, total, l2):
    right = total - left
    return newton_score(float(left >> i64(40)), float((left >> i64(16)) & H), l2) + newton_score(
        float(right >> i64(40)), float((right >> i64(16)) & H), l2
    )


@inner
def best_of_few(bins, n_bins, total, least_h, least_rows, l2, floor, prefix, bin_of, scores):
    """The best split of one feature: (score, bin, missing_left, left sums packed as usual).

    ``bins`` are cleared; ``total`` is that of the node; the others are as for ``best_of_plain``.
    """
    missing = bins[MISSING]
    bins[MISSING] = 0
    n_blocks = _candidates(bins, n_bins, prefix, bin_of)
    stray = missing if missing >> i64(16) == 0 else i64(0)
    best, at, missing_left, left = NO_GAIN, i64(NOWHERE), i64(0), i64(0)
    for side in range(2):
        if side == 1 and missing == stray:
            break
        extra = missing if side == 1 else i64(0)
        top = _approximate(prefix, n_blocks, extra, stray, total, least_h, least_rows, l2, scores)
        if top < f32(0.0) or float(top) * (1.0 + MARGIN) < floor:
            continue
        bound = f32(float(top) * (1.0 - MARGIN))
        first, count = at_least(scores, n_blocks, bound)
        k = u64(first)
        while count > 0:
            if scores[k] >= bound:
                count -= 1
                score = _exact(prefix[k] + extra, total, l2)
                if score > best or (score == best and i64(k) < at):
                    best, at, missing_left, left = score, i64(k), i64(side), prefix[k] + extra
            k += u64(1)
    if best == NO_GAIN:
        return best, i64(-1), i64(0), i64(0)
    left_h = (left >> i64(16)) & H
    if missing == stray and 2 * left_h > ((total >> i64(16)) & H):
        missing_left = i64(1)
    return best, i64(bin_of[at]), missing_left, ((left >> i64(40)) << i64(32)) + left_h
