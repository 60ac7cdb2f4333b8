"""Ranks (contract: ``kernels.binning.rank_values``).

The keys of values are sorted as in ``sort_rows.py``, and take the numbers of their rows along. What
follows is one pass over both: a rank is the number of keys before it that differ from the one
before them.

Milliseconds for a feature of so many different values, beside ``argsort`` and what NumPy does after
it (one thread, AMD EPYC with other work to do):

    values       float32        float64
    2,000     0.023  0.068   0.038  0.074
    20,000    0.21   0.90    0.31   0.94
    100,000   0.86   5.9     1.7    6.7
"""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.compilation import inner, kernel_without_allocation
from ...scalars.rounding import bits_of_key
from ..reference import rank_values as in_array_code
from .sort_rows import DIGIT_BITS, LAST_DIGIT, N_DIGITS, begin_digits, count_digits, largest_bits

u64 = np.uint64
FEWEST = 1000
"""Values below which counting digits costs more than NumPy's sort."""


@inner
def _move(source, target, source_rows, target_rows, shift, begin):
    for i in range(source.size):
        key = source[i]
        digit = (u64(key) >> shift) & LAST_DIGIT
        at = begin[digit]
        target[at] = key
        target_rows[at] = source_rows[i]
        begin[digit] = at + 1


@inner
def _number(keys, rows, most, ranks, values):
    """Write ranks and the bits of distinct values, and return the number of these."""
    n_distinct = -1
    for i in range(keys.size):
        key = keys[i]
        if i == 0 or key != keys[i - 1]:
            n_distinct += 1
            # The key of missing values is the last one: it has a rank, but is not a value.
            values[n_distinct] = bits_of_key(key, most)
        ranks[rows[i]] = n_distinct
    return n_distinct if keys[keys.size - 1] == most else n_distinct + 1


@kernel_without_allocation
def _rank(keys, rows, counts, most, infinity, ranks, values):
    """Rank the floats whose bits ``keys[0]`` has; return the number of distinct values. The rest of
    ``keys``, ``rows`` and ``counts`` are scratch."""
    n = ranks.size
    count_digits(keys[0], most, infinity, counts)
    for i in range(n):
        rows[0, i] = i
    now = 0
    for d in range(counts.shape[0]):
        if begin_digits(counts[d], n):
            continue
        shift = u64(d) * DIGIT_BITS
        _move(keys[now], keys[1 - now], rows[now], rows[1 - now], shift, counts[d])
        now = 1 - now
    return _number(keys[now], rows[now], most, ranks, values)


def rank_values(column: Array) -> tuple[Array, Array]:
    if column.size < FEWEST:
        return in_array_code.rank_values(column)
    n, type_ = column.size, f"u{column.itemsize}"
    keys, rows = np.empty((2, n), type_), np.empty((2, n), np.uint32)
    keys[0] = np.ascontiguousarray(column).view(type_)
    counts = np.empty(((column.itemsize * 8 + 10) // 11, N_DIGITS), np.int32)
    ranks, values = np.empty(n, np.uint32), np.empty(n, type_)
    n_distinct = _rank(keys, rows, counts, *largest_bits(column.dtype), ranks, values)
    return ranks, values[:n_distinct].view(column.dtype)
