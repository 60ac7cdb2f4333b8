"""Best split of a node of few rows, found on the rows themselves, for ``grow``.

Of 255 bins, 40 rows fill 40 at most. Such a node needs no histogram: for each feature, its rows are
added up in one line that stays in the first-level cache, which is read and cleared by the bits of
the bins in use. Each sum counts its rows, too, so that splits that leave a child with too few are
struck out at once, where others are found when they are carried out (``Frontier.recheck``)::

    bits 32 ... 63   g, signed
    bits  8 ... 31   h               255 rows * 2**16 < 2**24
    bits  0 ...  7   number of rows

Most features cannot reach the best split of those before, and that is seen without bins: the rows
are added up in the order of their codes, the place of a row being the number of lower codes, which
vectors count.
"""

from __future__ import annotations

import numpy as np

from ...runtime.compilation import inner
from ...runtime.cpu.lanes import count_bits, lowest_bit
from ...runtime.cpu.sums import WORDS_AT_ONCE, add_by_rank, some_sum_of_rows_is_above
from ...runtime.dtypes import MISSING
from ..frontier import NO_GAIN
from .quick_split import BLOCK, NOWHERE, G, H, best_of_side, packed_left, reaching_form

u32, u64, i32, i64, f32 = np.uint32, np.uint64, np.int32, np.int64, np.float32

FEW_ROWS = 64
"""A node of so many rows is searched by its histogram: ``add_by_rank`` takes fewer."""
N_CUTS = 2 * BLOCK
"""Room for the bins in use: one more than the rows at most, since the first one always counts."""

SUMS, CODES, STATISTICS, REACHED, BINS, USED, RANKED, N_LINES = range(8)
"""Lines of scratch, N_SLOTS entries each: sums by bin; eight codes and the statistics of each row;
sums up to each bin in use, and that bin; bits of the bins in use; sums by the rank of a code. All
sums and the bits are zero between two features."""

LOW = i64(0xFFFFFFFF)
LAST_BIT = u64(1 << 63)
S8, S32, S48 = i64(8), i64(32), i64(48)
ROWS = i64(0xFF)
HESSIAN = i64(0xFFFFFF)


@inner
def load_rows(words, n_words, word, records, begin, end, lines):
    """Fill in the statistics of the rows and the codes of eight features."""
    # The codes of eight features are loaded together, and shifted out one by one later. Behind
    # them are codes that are not lower than any.
    for i in range(u64(end - begin)):
        record = records[u64(begin) + i]
        signed = i64(record)
        lines[CODES, i] = i64(words[u64(u32(record)) * u64(n_words) + u64(word)])
        g, h = signed >> S48, (signed >> S32) & i64(0xFFFF)
        lines[STATISTICS, i] = (g << S32) + (h << S8) + i64(1)
    for i in range(u64(end - begin), u64(N_CUTS)):
        lines[CODES, i] = -1


@inner
def _add_rows(codes, statistics, n_rows, shift, sums, used):
    # A bit for each bin in use: 48 rows leave most of 256 bins empty, and only those with a bit
    # are read and cleared.
    for i in range(u64(n_rows)):
        code = (u64(codes[i]) >> shift) & u64(0xFF)
        sums[code] += statistics[i]
        used[code >> u64(6)] |= i64(u64(1) << (code & u64(63)))


@inner
def _take_sums(sums, used, reached, bins):
    """Add up the bins in use, which are cleared.

    Each step takes a bin or goes on to the next word. Branches would be guessed wrongly for every
    word, so there are none: a step without a bin adds zero, and the next one overwrites it. The
    words are in registers, since a step that had to load one would wait for the step before.
    """
    bits, second, third, last = u64(used[0]), u64(used[1]), u64(used[2]), u64(used[3])
    n_bins = count_bits(bits) + count_bits(second) + count_bits(third) + count_bits(last)
    n, first_of_word = u64(0), u64(0)
    total = i64(0)
    for _ in range(n_bins + u64(3)):
        is_over = bits == u64(0)
        b = first_of_word + lowest_bit(bits | LAST_BIT)
        total += sums[b]
        sums[b] = 0
        reached[n] = total
        bins[n] = i64(b)
        n += u64(0) if is_over else u64(1)
        first_of_word += u64(64) if is_over else u64(0)
        bits = second if is_over else bits & (bits - u64(1))
        second = third if is_over else second
        third = last if is_over else third
    used[0] = used[1] = used[2] = used[3] = 0


@inner
def _packed(sums):
    """Return the statistics of sums as the words of histograms hold them."""
    return ((sums >> S32) << S32) + ((sums >> S8) & HESSIAN)


@inner
def _may_reach(lines, n_rows, shift, total, least_h, least_rows, l2, floor):
    """Return whether a split by the feature may have a score of ``floor``."""
    form = reaching_form(total, l2, floor)
    if form[0] == f32(0.0):
        return True
    ranked = lines[RANKED]
    n_missing = add_by_rank(lines[CODES], shift, n_rows, lines[STATISTICS], ranked)
    # Missing values have the highest code, so that they come last, in one entry.
    missing = ranked[n_rows - n_missing] if n_missing > 0 else i64(0)
    of_missing = _packed(missing)
    n = (n_rows + WORDS_AT_ONCE - 1) // WORDS_AT_ONCE * WORDS_AT_ONCE
    least, most = i32(least_h), i32((total & LOW) - least_h)
    fewest, most_rows = i32(least_rows), i32(n_rows - least_rows)
    # Missing rows that weigh nothing may be on either side.
    fewest_on_left = fewest - (i32(missing & ROWS) if of_missing == 0 else i32(0))
    is_reached = False
    if least <= most and fewest_on_left <= most_rows:
        is_reached = some_sum_of_rows_is_above(
            ranked, n, i64(0), form, f32(l2), least, most, fewest_on_left, most_rows
        )
        if of_missing != 0 and not is_reached:
            is_reached = some_sum_of_rows_is_above(
                ranked, n, missing, form, f32(l2), least, most, fewest, most_rows
            )
    for i in range(n):
        ranked[i] = 0
    return is_reached


@inner
def _left_sums(reached, missing, side, n_rows, least_rows, total, lefts):
    """Fill in the sums on the left of each cut: those of the whole node, which is no split,
    where a child has too few rows. Where ``side`` is -1, missing rows follow the larger hessian."""
    n_missing = missing & ROWS
    for k in range(N_CUTS):
        sums = reached[k]
        left = _packed(sums)
        missing_left = 2 * (left & LOW) > (total & LOW) if side < 0 else side == 1
        rows = (sums & ROWS) + (n_missing if missing_left else i64(0))
        # With all sums on the left nothing is on the right, which no ``least_h`` allows.
        left = left if min(rows, n_rows - rows) >= least_rows else total
        lefts[G, k], lefts[H, k] = i32(left >> S32), i32(left & LOW)


@inner
def best_of_rows(lines, n_rows, shift, total, least_h, least_rows, l2, floor, lefts, scores):
    """Find the best split of one feature: (score, bin, missing_left, packed left sums).

    The result is that of ``best_of_feature`` with counts of rows, except that the bin is -1 where
    no score reaches ``floor``. The codes of the feature begin at bit ``shift``. See
    ``best_of_plain`` for ``l2`` and the scratch, and for ``lines`` above.
    """
    if not _may_reach(lines, n_rows, u64(shift), total, least_h, least_rows, l2, floor):
        return NO_GAIN, i64(-1), i64(0), i64(0)
    sums, used = lines[SUMS], lines[USED]
    _add_rows(lines[CODES], lines[STATISTICS], n_rows, u64(shift), sums, used)
    missing = sums[MISSING]
    # Missing values are no bin: their bit is taken away before the others are added up.
    sums[MISSING] = 0
    used[MISSING >> 6] &= ~i64(u64(1) << u64(MISSING & 63))
    used[0] |= i64(1)  # all values may go right, and the missing rows left
    reached, bins = lines[REACHED], lines[BINS]
    for k in range(N_CUTS):
        reached[k] = n_rows  # leaves no row on the right
    _take_sums(sums, used, reached, bins)
    of_missing = _packed(missing)
    best, at, missing_left, left = NO_GAIN, i64(NOWHERE), i64(0), i64(0)
    for side in range(2):
        if side == 1 and of_missing == 0:
            break
        known = i64(-1) if of_missing == 0 else i64(side)
        _left_sums(reached, missing, known, n_rows, least_rows, total, lefts)
        extra = of_missing if side == 1 else i64(0)
        _, score, k = best_of_side(
            lefts, reached, N_CUTS // BLOCK, extra, total, least_h, l2, floor, scores
        )
        if score > best or (score > NO_GAIN and score == best and bins[k] < at):
            best, at, missing_left, left = score, bins[k], i64(side), packed_left(lefts, k) + extra
    if best == NO_GAIN or best < floor:
        return NO_GAIN, i64(-1), i64(0), i64(0)
    if of_missing == 0 and 2 * (left & LOW) > (total & LOW):
        missing_left = i64(1)
    return best, at, missing_left, left
