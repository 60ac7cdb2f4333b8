"""The best split of a feature from its histogram."""

from __future__ import annotations

import numpy as np

from ...runtime.compilation import inner
from ...runtime.dtypes import CODE_WORDS, MISSING
from ...scalars.gain import bounded_score, bounded_value, category_key, keeps_order, newton_score
from ...scalars.primitives import bits_of, float_of
from ..frontier import NO_GAIN

u32, i32, i64 = np.uint32, np.int32, np.int64

LOW = i64(0xFFFFFFFF)

PLACES, CODES, SUMS, COUNTS, N_LINES = range(5)
"""Lines of scratch, 256 entries each: the place of every code, -1 where it goes with the missing
values; the codes that have a place; packed sums and counts of rows by place."""


@inner
def arrange(bins, n_bins, total, is_alone, least_h, smoothing, row_counts, keys, lines):
    """Put the packed sums of a feature's codes into the order of the categories and return how many
    codes have a place. ``row_counts`` is empty or has counts by code.

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
        # Equal keys keep the order of their codes: those before count, those behind do not.
        for j in range(i):
            place += i64(1) if keys[j] <= key else i64(0)
        for j in range(i + 1, n):
            place += i64(1) if keys[j] < key else i64(0)
        places[codes[i]] = place
        sums[place] = bins[codes[i]]
        rest -= bins[codes[i]]
    # Categories without a place go where the missing values go.
    sums[MISSING] = rest
    if row_counts.size > 0:
        # The same for the numbers of rows, where they are known.
        counts[MISSING] = row_counts[MISSING]
        for b in range(n_bins):
            if places[b] >= 0:
                counts[places[b]] = row_counts[b]
            else:
                counts[MISSING] += row_counts[b]
    return n


@inner
def fill_left_codes(places, n_bins, cut, missing_left, is_alone, words):
    """Fill in the set of codes on the left of the cut after a place (see ``Splits``)."""
    for w in range(CODE_WORDS):
        # Codes without a place, beyond the bins too, go with the missing values.
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


NOWHERE = 2**31 - 1


@inner
def prefix_sums(histogram, n_bins, is_alone, prefix):
    """Sum up the left side of each candidate: all bins up to one, or that one alone."""
    if is_alone:
        for b in range(n_bins):
            prefix[b] = histogram[b]
        return
    total = i64(0)
    for b in range(n_bins):
        total += histogram[b]
        prefix[b] = total


@inner
def _scores(prefix, n_bins, extra, total, least_h, l2, scores):
    """Score every split with ``extra`` (the missing rows, or 0) on the left.

    The sums fit 32 bits: converting from int32 vectorises where converting from int64 does not.
    """
    least = i32(least_h)
    for b in range(n_bins):
        left = prefix[b] + extra
        right = total - left
        left_g, left_h = i32(left >> i64(32)), i32(left & LOW)
        right_g, right_h = i32(right >> i64(32)), i32(right & LOW)
        score = newton_score(float(left_g), float(left_h), l2) + newton_score(
            float(right_g), float(right_h), l2
        )
        scores[b] = score if min(left_h, right_h) >= least else NO_GAIN


@inner
def _bounded_scores(prefix, n_bins, extra, total, limits, scores):
    """Do the same where the children's values are bounded or ordered (see ``best_of_feature``)."""
    least_h, l2, low, high, direction = limits
    for b in range(n_bins):
        left = prefix[b] + extra
        right = total - left
        left_g, left_h = float(left >> i64(32)), float(left & LOW)
        right_g, right_h = float(right >> i64(32)), float(right & LOW)
        scores[b] = NO_GAIN
        if min(left_h, right_h) >= least_h:
            left_value = bounded_value(left_g, left_h, l2, low, high)
            right_value = bounded_value(right_g, right_h, l2, low, high)
            if keeps_order(left_value, right_value, direction):
                scores[b] = bounded_score(left_g, left_h, l2, low, high) + bounded_score(
                    right_g, right_h, l2, low, high
                )


@inner
def _require_rows(counts, prefix, n_bins, is_alone, side, total, n_rows, least, scores):
    """Strike out the splits that leave a child with fewer than ``least`` rows.

    Missing rows whose sums are zero (``side`` is -1) follow the larger hessian.
    """
    values = 0
    for b in range(n_bins):
        values = counts[b] if is_alone else values + counts[b]
        missing_left = 2 * (prefix[b] & LOW) > (total & LOW) if side < 0 else side == 1
        left = values + counts[MISSING] if missing_left else values
        if left < least or n_rows - left < least:
            scores[b] = NO_GAIN


@inner
def _largest_of_any(scores, n):
    best = NO_GAIN
    for b in range(n):
        best = max(best, scores[b])
    return best


@inner
def _largest(scores, n):
    """Return the largest score. Without bounds no score is negative except -inf, so the bits of
    the scores, as integers, are in the order of the scores, and their maximum vectorises."""
    best = bits_of(NO_GAIN)
    for b in range(n):
        best = max(best, bits_of(scores[b]))
    return float_of(best)


@inner
def _first(scores, n, value):
    at = i32(NOWHERE)
    for b in range(n):
        at = min(at, i32(b) if scores[b] == value else i32(NOWHERE))
    return at


@inner
def best_of_feature(
    histogram, n_bins, is_alone, total, limits, counts, n_rows, least_rows, prefix, scores
):
    """Find the best split of one feature: (score, bin, missing_left, packed left sums).

    ``histogram`` and ``total`` are packed; with ``is_alone`` a bin is cut off alone instead of
    together with all bins below it; ``limits`` are the node's (least_h, l2, low, high) and the
    feature's direction; ``counts`` is empty where rows need not be counted.
    """
    least_h, l2, low, high, direction = limits
    bounded = direction != 0 or low > NO_GAIN or high < -NO_GAIN
    missing = histogram[MISSING]
    prefix_sums(histogram, n_bins, is_alone, prefix)
    best, best_bin, missing_left, left = NO_GAIN, -1, 0, i64(0)
    # Missing values on the right, then on the left; the second time teaches nothing where their
    # sums are zero.
    for side in range(2):
        if side == 1 and missing == 0:
            break
        extra = missing if side == 1 else i64(0)
        if bounded:
            _bounded_scores(prefix, n_bins, extra, total, limits, scores)
        else:
            _scores(prefix, n_bins, extra, total, least_h, l2, scores)
        if counts.size > 0:
            known = -1 if missing == 0 else side
            _require_rows(
                counts, prefix, n_bins, is_alone, known, total, n_rows, least_rows, scores
            )
        score = _largest_of_any(scores, n_bins) if bounded else _largest(scores, n_bins)
        if score > NO_GAIN and score >= best:
            b = _first(scores, n_bins, score)
            # Of equal scores the lower bin counts, then missing values on the right.
            if score > best or b < best_bin:
                best, best_bin, missing_left, left = score, b, side, prefix[b] + extra
    # Missing values without sums score alike on both sides: they go to the heavier child.
    if missing == 0 and best_bin >= 0 and 2 * (left & LOW) > (total & LOW):
        missing_left = 1
    return best, best_bin, missing_left, left
