"""Histograms of nodes, added up from their rows.

Inside this package a histogram is packed: one int64 per (feature, bin) holds ``g << 32 | h``,
so an update is a single addition. h is not negative and neither sum leaves 32 bits, so the
halves never disturb each other, also when histograms are added and subtracted.

    packed histogram of a node: [word][feature of the word][bin], 8 x STRIDE entries a word

A feature takes a cache line more than its 256 entries. Otherwise the first bins of all features
would fall into the same two sets of the first-level cache, and tables with many binary
columns, which touch little else, would miss it all the time.

A histogram costs one addition for each row and byte. Therefore features share bytes where they can
(see ``layout``), and their own histograms are sums over parts of the common one, which cost
little beside adding up the rows.
"""

from __future__ import annotations

import numpy as np

from ...runtime.compilation import inner
from ...runtime.cpu.lanes import byte_of
from ...runtime.cpu.sums import WORDS_AT_ONCE
from ...runtime.cpu.team import CACHE_LINE, prefetch
from ...runtime.dtypes import MISSING, N_SLOTS

u32, u64, i64 = np.uint32, np.uint64, np.int64

STRIDE = N_SLOTS + CACHE_LINE
WORD_ENTRIES = 8 * STRIDE
PREFETCH_DISTANCE = 32
NEAR_WORDS = 1 << 18
"""A table of so many words stays in the second-level cache, or nearly so."""
FEW_WORDS = 4
"""Histograms of so many words stay in the first-level cache, or nearly so."""
WORDS_OF_LINE = u64(CACHE_LINE)
BLOCK = 1024
"""Rows that are added up word by word before the next ones."""


@inner
def _clear(line, _):
    for i in range(line.size):
        line[i] = 0


@inner
def _add(line, other):
    for i in range(line.size):
        line[i] += other[i]


@inner
def _subtract(line, other):
    for i in range(line.size):
        line[i] -= other[i]


def _over_used_slots(change):
    """Apply ``change`` to the entries that a table uses, in the columns first … last - 1.

    ``slots`` are ``Layout.column_slots``.
    """

    @inner
    def over_used_slots(slots, first, last, histogram, other):
        for column in range(first, last):
            o = column * STRIDE
            end = o + slots[column]
            change(histogram[o:end], other[o:end])
            # Missing values are behind the used bins, unless all are used.
            if slots[column] < N_SLOTS:
                change(histogram[o + MISSING : o + N_SLOTS], other[o + MISSING : o + N_SLOTS])

    return over_used_slots


clear_used = _over_used_slots(_clear)
add_used = _over_used_slots(_add)
subtract_used = _over_used_slots(_subtract)


@inner
def pack_planes(slots, planes, histogram):
    """Pack the planes of a histogram, of g and of h, as CUDA adds them up."""
    for f in range(slots.size):
        for b in range(slots[f]):
            histogram[f * STRIDE + b] = (i64(planes[0, f, b]) << i64(32)) + i64(planes[1, f, b])
        if slots[f] < N_SLOTS:
            missing = (i64(planes[0, f, MISSING]) << i64(32)) + i64(planes[1, f, MISSING])
            histogram[f * STRIDE + MISSING] = missing


@inner
def unpack_record(record):
    """Return the record's statistics as one packed addend."""
    # g has a sign, so that its shift must have one, too; h has none.
    signed = i64(record)
    return ((signed >> i64(48)) << i64(32)) + ((signed >> i64(32)) & i64(0xFFFF))


@inner
def add_eight(histogram, o, rows, b, v):
    """Add v to the entries of the eight codes from byte ``b`` on. Each code is read from memory,
    which takes fewer instructions than shifting it out of a word, and all of them before the first
    entry is written, since that might be one of the codes as far as the compiler knows."""
    code_0, code_1 = byte_of(rows, b), byte_of(rows, b + u64(1))
    code_2, code_3 = byte_of(rows, b + u64(2)), byte_of(rows, b + u64(3))
    code_4, code_5 = byte_of(rows, b + u64(4)), byte_of(rows, b + u64(5))
    code_6, code_7 = byte_of(rows, b + u64(6)), byte_of(rows, b + u64(7))
    histogram[o + code_0] += v
    histogram[o + u64(1 * STRIDE) + code_1] += v
    histogram[o + u64(2 * STRIDE) + code_2] += v
    histogram[o + u64(3 * STRIDE) + code_3] += v
    histogram[o + u64(4 * STRIDE) + code_4] += v
    histogram[o + u64(5 * STRIDE) + code_5] += v
    histogram[o + u64(6 * STRIDE) + code_6] += v
    histogram[o + u64(7 * STRIDE) + code_7] += v


@inner
def add_fewer(histogram, o, rows, b, v, n):
    """Do the same for n < 8 codes."""
    histogram[o + byte_of(rows, b)] += v
    if n > 1:
        histogram[o + u64(1 * STRIDE) + byte_of(rows, b + u64(1))] += v
    if n > 2:
        histogram[o + u64(2 * STRIDE) + byte_of(rows, b + u64(2))] += v
    if n > 3:
        histogram[o + u64(3 * STRIDE) + byte_of(rows, b + u64(3))] += v
    if n > 4:
        histogram[o + u64(4 * STRIDE) + byte_of(rows, b + u64(4))] += v
    if n > 5:
        histogram[o + u64(5 * STRIDE) + byte_of(rows, b + u64(5))] += v
    if n > 6:
        histogram[o + u64(6 * STRIDE) + byte_of(rows, b + u64(6))] += v


@inner
def add_word(histogram, o, words, at, v):
    """Add v to the entries of the eight codes in word ``at``."""
    add_eight(histogram, o, words, u64(at) << u64(3), v)


@inner
def add_partial_word(histogram, o, words, at, v, n):
    """Do the same for the first n < 8 codes."""
    add_fewer(histogram, o, words, u64(at) << u64(3), v, n)


@inner
def add_rows(words, n_columns, records, begin, end, histogram):
    """Add the rows of ``records[begin:end]`` to a packed histogram.

    ``words`` is a row-major matrix of codes as one flat array of 64-bit words.

    Word by word, the part of the histogram that is written stays in the first-level cache. Rows of
    few words that are far from each other go row by row: their histogram nearly fits, and it spares
    reading the records and the rows again (0.58 against 0.65 ns an addition for 28 features, but
    1.1 against 0.62 for 100).
    """
    n_words = (n_columns + 7) >> 3
    n_rows = end - begin
    # Half of the table or more: neighbouring rows share cache lines, and are read in order.
    is_dense = 2 * n_rows * n_words >= words.size
    if words.size > NEAR_WORDS and 2 < n_words <= FEW_WORDS and not is_dense:
        _add_row_by_row(words, n_columns, records, begin, end, histogram)
        return
    # Word by word, eight features of the histogram are written at a time. Block by block, the
    # records and codes of the rows are still in the cache when the next word needs them.
    for first in range(begin, end, BLOCK):
        last = min(first + BLOCK, end)
        for word in range(n_words):
            # The first word loads whole rows from memory in advance, for the others as well.
            if word == 0 and words.size > NEAR_WORDS:
                _add_first_word(words, n_columns, records, first, last, end, histogram)
            else:
                n = n_columns - 8 * word
                add_word_of_rows(words, n_words, word, n, records, first, last, histogram)


@inner
def _add_first_word(words, n_columns, records, begin, end, last, histogram):
    """Add the first word of the rows and prefetch those of the rows to come, up to ``last``."""
    n_words = u64((n_columns + 7) >> 3)
    for i in range(begin, end):
        # Beyond this block, too: its last rows load the first ones of the next.
        _prefetch_row(words, n_words, records[u64(min(i + PREFETCH_DISTANCE, last - 1))])
        record = records[u64(i)]
        row = u64(u32(record)) * n_words
        if n_columns >= 8:
            add_word(histogram, u64(0), words, row, unpack_record(record))
        else:
            add_partial_word(histogram, u64(0), words, row, unpack_record(record), n_columns)


@inner
def _add_row_by_row(words, n_columns, records, begin, end, histogram):
    n_words = u64((n_columns + 7) >> 3)
    n_full = u64(n_columns >> 3)
    tail = n_columns & 7
    entries = u64(WORD_ENTRIES)
    last = end - 1
    for i in range(begin, end):
        _prefetch_row(words, n_words, records[u64(min(i + PREFETCH_DISTANCE, last))])
        record = records[u64(i)]
        v = unpack_record(record)
        base = u64(u32(record)) * n_words
        o = u64(0)
        for k in range(n_full):
            add_word(histogram, o, words, base + u64(k), v)
            o += entries
        if tail > 0:
            add_partial_word(histogram, o, words, base + n_full, v, tail)


@inner
def _prefetch_row(words, n_words, record):
    """Load all lines of a row in advance. The table begins with a line, so that a row ends within
    the last of these unless its length is no power of two."""
    row = u64(u32(record)) * n_words
    prefetch(words, row)
    if n_words > WORDS_OF_LINE:
        for k in range(WORDS_OF_LINE, n_words, WORDS_OF_LINE):
            prefetch(words, row + k)
    if n_words & (n_words - u64(1)) != 0:
        prefetch(words, row + n_words - u64(1))


@inner
def add_word_of_rows(words, n_words, word, n, records, begin, end, histogram):
    """Add one word of the rows, which has n columns or, where n > 8, eight."""
    stride, at = u64(n_words), u64(word)
    o = u64(word * WORD_ENTRIES)
    if n >= 8:
        for i in range(u64(begin), u64(end)):
            record = records[i]
            row = u64(u32(record)) * stride
            add_word(histogram, o, words, row + at, unpack_record(record))
    else:
        for i in range(u64(begin), u64(end)):
            record = records[i]
            row = u64(u32(record)) * stride
            add_partial_word(histogram, o, words, row + at, unpack_record(record), n)


@inner
def subtract_rows(words, n_columns, records, begin, end, histogram):
    """Subtract a few rows from a packed histogram."""
    n_words = (n_columns + 7) >> 3
    for word in range(n_words):
        n, o = n_columns - 8 * word, u64(word * WORD_ENTRIES)
        for i in range(u64(begin), u64(end)):
            record = records[i]
            at = u64(u32(record)) * u64(n_words) + u64(word)
            if n >= 8:
                add_word(histogram, o, words, at, -unpack_record(record))
            else:
                add_partial_word(histogram, o, words, at, -unpack_record(record), n)


SLOT_ALIGNMENT = WORDS_AT_ONCE
"""Numbers of used slots are rounded up to this, which spares the loops their remainders."""
SHORTEST_LINE = 16
"""Entries below which adding up two lines is slower than adding up two digits."""


# A slice's own loop vectorises; sums of indices, which might be negative, would keep it from that.


@inner
def _copy(source, target):
    for i in range(target.size):
        target[i] = source[i]


@inner
def _sum(values):
    total = np.int64(0)
    for i in range(values.size):
        total += values[i]
    return total


@inner
def expand(bundle, feature, total, bins):
    """Compute the histogram of one feature of a byte that several share (see ``layout``).

    ``total`` is the sum of all rows of the node, ``bins`` has N_SLOTS entries.
    """
    if feature.first > 0:
        _sum_codes(bundle, feature, total, bins)
    else:
        _sum_digits(bundle, feature, bins)
    # The search reads on to the next multiple of SLOT_ALIGNMENT, and must find nothing there.
    rest = bins[feature.n_bins : feature.n_bins + SLOT_ALIGNMENT]
    _clear(rest, rest)
    # A feature with missing values never shares a byte (see ``layout``).
    bins[MISSING] = 0


@inner
def _sum_codes(bundle, feature, total, bins):
    """Fill in the bins of a feature that shares a digit: the common one has the other rows."""
    stride = feature.stride
    step = stride * feature.n_values
    digit = feature.first
    for b in range(feature.n_bins):
        if b == feature.common:
            continue
        bins[b] = 0
        # The codes with this digit are runs of ``stride``, one for each value of those above it.
        for first in range(digit * stride, feature.product, step):
            bins[b] += _sum(bundle[first : first + stride])
        total -= bins[b]
        digit += 1
    # No value of the digit stands for the common bin: it has the rows that are left.
    bins[feature.common] = total


@inner
def _sum_digits(bundle, feature, bins):
    """Fill in the bins of a feature that has a digit: ``bins[d]`` sums the codes with digit d.

    First the higher digits are added up, line by line, then the lower ones within each line.
    ``bins`` is the scratch, too: ``bins[d]`` is written after everything below
    ``bins[(d + 1) * stride]`` was read.
    """
    stride = feature.stride
    step = stride * feature.n_bins
    # Lines of a few entries are joined with those of the next value above, as long as whole
    # lines fill the byte, and folded afterwards: long lines are added up as vectors.
    line = step
    while line < SHORTEST_LINE and feature.product % (2 * line) == 0:
        line *= 2
    _copy(bundle[:line], bins[:line])
    for first in range(line, feature.product, line):
        _add(bins[:line], bundle[first : first + line])
    for first in range(step, line, step):
        _add(bins[:step], bins[first : first + step])
    if stride > 1:
        for d in range(feature.n_bins):
            bins[d] = _sum(bins[d * stride : (d + 1) * stride])
