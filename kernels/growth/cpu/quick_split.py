"""Best split of a feature without categories and constraints, for ``grow``: the result of
``best_of_feature``, found with fewer divisions.

The candidates are compared in float32, eight at a time and with one division each: sums, scores
and their number have 32 bits, since one wider operand would halve the lanes. Only those
that come close to the best, nearly always one, get the score that counts, in float64; not those
of empty bins, which repeat the one before, which wins the tie.

Most features need none of this: once a split is known, one pass without divisions shows that no
candidate reaches its score (``reaching_form``).

    2**31 > |g|, h and l2      so no product leaves float32
    16 roundings of 2**-24     are the relative error of an approximate score, below ``MARGIN / 2``

Of 255 bins, that pass takes 85 ns and the comparison of the candidates 155 ns more (one thread, AMD
EPYC); about one feature of five passes.
"""

from __future__ import annotations

import numpy as np

from ...runtime.compilation import inlined, inner
from ...runtime.cpu.lanes import LANES, running_sums
from ...runtime.cpu.sums import WORDS_AT_ONCE, some_sum_is_above
from ...runtime.dtypes import MISSING
from ...scalars.gain import newton_score
from ...scalars.primitives import bits_of_float32, float32_of
from ..frontier import NO_GAIN

u64, i32, i64, f32 = np.uint64, np.int32, np.int64, np.float32

LOW = i64(0xFFFFFFFF)
NOWHERE = 2**31 - 1
LARGEST_L2 = 2.0**31
MARGIN = 2.0**-18
SLACK = 2.0**-16
BLOCK = 32
"""Candidates are filled up to a multiple of this, which spares the loops their remainders."""
N_CANDIDATES = 256
G, H = range(2)
"""Lines of the scratch ``lefts``: int32, N_CANDIDATES entries each."""


@inner
def _candidates(histogram, n_bins, lefts):
    """Fill ``lefts`` with the sums on the left of each cut and return how many blocks they
    fill."""
    n = (n_bins + LANES - 1) // LANES * LANES
    total = running_sums(histogram, n, lefts[G], lefts[H])
    n_blocks = (n + BLOCK - 1) // BLOCK
    # Candidates behind the last bin have the sums of all values. They repeat the last one, which
    # comes first and so wins.
    for b in range(n, n_blocks * BLOCK):
        lefts[G, b], lefts[H, b] = i32(total >> i64(32)), i32(total & LOW)
    return n_blocks


@inner
def packed_left(lefts, k):
    """Return the sums on the left of a candidate as one word."""
    return (i64(lefts[G, k]) << i64(32)) + i64(lefts[H, k])


@inner
def _approximate(lefts, n_blocks, extra, total, least_h, l2, scores):
    """Fill in the scores of the candidates with ``extra`` on the left, -1 where a child is too
    small, and return the largest one. The bits of -1 are below those of all other scores, whose
    bits are in the order of the scores."""
    lefts_g, lefts_h = lefts[G], lefts[H]
    extra_g, extra_h = i32(extra >> i64(32)), i32(extra & LOW)
    least = i32(least_h)
    total_g, total_h = i32(total >> i64(32)), i32(total & LOW)
    l2 = f32(l2)
    best = bits_of_float32(f32(-1.0))
    for b in range(n_blocks * BLOCK):
        left_g, left_h = i32(lefts_g[b] + extra_g), i32(lefts_h[b] + extra_h)
        right_g, right_h = i32(total_g - left_g), i32(total_h - left_h)
        gl, gr = f32(left_g), f32(right_g)
        hl, hr = f32(left_h) + l2, f32(right_h) + l2
        # gl² / hl + gr² / hr, with one division.
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


@inlined
def best_of_side(lefts, steps, n_blocks, extra, total, least_h, l2, floor, scores):
    """Find the best candidate with ``extra`` on the left: (bound, score, candidate).

    No candidate has a score above the bound. If that is below ``floor``, and if no candidate leaves
    two large enough children, the score is ``NO_GAIN``. Where an entry of ``steps`` is zero, the
    candidate is as good as the one before.
    """
    best, at = NO_GAIN, u64(0)
    top = _approximate(lefts, n_blocks, extra, total, least_h, l2, scores)
    # All are -1: each leaves a child that is too small.
    if top < f32(0.0):
        return NO_GAIN, best, at
    # No exact score is above the limit: where that is below the floor, nothing is divided
    # again.
    limit = float(top) * (1.0 + MARGIN)
    if limit < floor:
        return limit, best, at
    # The approximate score of the best candidate is not below the bound.
    bound = f32(float(top) * (1.0 - MARGIN))
    first, count = at_least(scores, n_blocks, bound)
    k = u64(first)
    while count > 0:
        if scores[k] >= bound:
            count -= 1
            # An empty bin has the sums of the candidate before it.
            if k == 0 or steps[k] != 0:
                score = _exact(packed_left(lefts, k) + extra, total, l2)
                if score > best:
                    best, at = score, k
        k += u64(1)
    return limit, best, at


@inner
def reaching_form(total, l2, floor):
    """Return the form (p, q, r, s) of ``some_sum_is_above`` that is above zero wherever a candidate
    may have a score of ``floor``; p is zero if all may.

    With x on the left, y there including l2, and G and H of both sides, it is the score less
    ``floor``, multiplied by both divisors::

        x² (H - y) + (G - x)² y - floor y (H - y)  =  H x² + y (floor y - 2 G x + G² - floor H)

    Its terms are larger than the result, above all where little is on the right. ``SLACK`` is twice
    the most that their roundings, ten for a term, can take away: every term is at most
    ``floor * H * y`` times a small number, as long as the score is not far above the floor; of one
    far above, ``(G - x)² y`` alone is as large as the terms that are taken off.
    """
    g, h = float(total >> i64(32)), float(total & LOW)
    all_h = h + 2.0 * l2
    bound = floor * all_h
    # A floor below the score of the node itself, most often none: every candidate reaches it.
    if not (bound > 0.0 and bound >= g * g):
        return f32(0.0), f32(0.0), f32(0.0), f32(0.0)
    return f32(all_h), f32(floor), f32(-2.0 * g), f32(g * g - bound + SLACK * bound)


@inner
def _may_reach(histogram, n_bins, extra, total, least_h, l2, floor):
    """Return whether a candidate with ``extra`` on the left may have a score of ``floor``."""
    form = reaching_form(total, l2, floor)
    if form[0] == f32(0.0):
        return True
    n = (n_bins + WORDS_AT_ONCE - 1) // WORDS_AT_ONCE * WORDS_AT_ONCE
    least, most = i32(least_h), i32((total & LOW) - least_h)
    return least <= most and some_sum_is_above(histogram, n, extra, form, f32(l2), least, most)


@inner
def best_of_plain(histogram, n_bins, total, least_h, l2, floor, lefts, scores):
    """Find the best split of one feature: (score, bin, missing_left, packed left sums).

    The result is that of ``best_of_feature``, except that a score below ``floor`` may be only a
    bound: no split has a higher score, and the bin is -1. ``l2`` is at most ``LARGEST_L2``; entries
    behind the last bin are zero up to a multiple of ``LANES``; ``scores`` is scratch,
    float32, N_CANDIDATES entries.
    """
    missing = histogram[MISSING]
    if not _may_reach(histogram, n_bins, i64(0), total, least_h, l2, floor) and (
        missing == 0 or not _may_reach(histogram, n_bins, missing, total, least_h, l2, floor)
    ):
        return floor, i64(-1), i64(0), i64(0)
    n_blocks = _candidates(histogram, n_bins, lefts)
    best, at, missing_left, left = NO_GAIN, i64(NOWHERE), i64(0), i64(0)
    limit = NO_GAIN
    for side in range(2):
        if side == 1 and missing == 0:
            break
        extra = missing if side == 1 else i64(0)
        bound, score, k = best_of_side(
            lefts, histogram, n_blocks, extra, total, least_h, l2, floor, scores
        )
        limit = max(limit, bound)
        if score > best or (score > NO_GAIN and score == best and i64(k) < at):
            best, at, missing_left, left = score, i64(k), i64(side), packed_left(lefts, k) + extra
    if best == NO_GAIN or best < floor:
        return limit, i64(-1), i64(0), i64(0)
    if missing == 0 and 2 * (left & LOW) > (total & LOW):
        missing_left = i64(1)
    return best, at, missing_left, left
