"""Sorting without allocation, for the threads that grow classification and regression trees."""

from __future__ import annotations

import numpy as np

from ...runtime.compilation import inner

u64, i64 = np.uint64, np.int64

FEW_KEYS = 40
"""Keys that are sorted faster by insertion."""
MANY_KEYS = 4096
"""Keys from which on digits of eleven bits pay."""
N_COUNTERS = 2048
LOW_32 = u64(0xFFFFFFFF)


@inner
def sort_by_high_word(keys, buffer, n, n_values, counters):
    """Sort the first n of ``keys`` (high 32 bits: a value below ``n_values``; low 32: anything),
    keeping the order of equal values. Radix sort, the lowest digit first."""
    if n <= FEW_KEYS:
        insertion_sort(keys, n)
        return
    digit_bits = u64(11 if n >= MANY_KEYS else 8)
    n_digits = i64(1) << i64(digit_bits)
    shift = u64(32)
    moved = 0
    while (n_values - 1) >> i64(shift - u64(32)) > 0:
        source, target = (keys, buffer) if moved & 1 == 0 else (buffer, keys)
        if _sort_by_digit(source, target, n, shift, n_digits, counters):
            moved += 1
        shift += digit_bits
    if moved & 1:
        for i in range(n):
            keys[i] = buffer[i]


@inner
def insertion_sort(keys, n):
    """Sort a few keys by their high words."""
    for i in range(1, n):
        key = keys[i]
        value = key >> u64(32)
        j = i - 1
        while j >= 0 and keys[j] >> u64(32) > value:
            keys[j + 1] = keys[j]
            j -= 1
        keys[j + 1] = key


@inner
def _sort_by_digit(source, target, n, shift, n_digits, counters):
    """One pass; False, and nothing done, where all keys have the same digit."""
    mask = u64(n_digits - 1)
    counters[:n_digits] = 0
    for i in range(n):
        counters[(source[i] >> shift) & mask] += 1
    if counters[(source[0] >> shift) & mask] == n:
        return False
    total = i64(0)
    for d in range(n_digits):
        count = counters[d]
        counters[d] = total
        total += count
    for i in range(n):
        key = source[i]
        digit = (key >> shift) & mask
        target[counters[digit]] = key
        counters[digit] += 1
    return True


@inner
def merge_argsort(values, order, buffer, n):
    """Put the numbers 0 ... n - 1 into ``order`` so that ``values`` ascends along it, equal ones
    in the order of their numbers. Bottom-up merge sort."""
    for i in range(n):
        order[i] = i
    width = 1
    while width < n:
        for low in range(0, n, 2 * width):
            middle, high = min(low + width, n), min(low + 2 * width, n)
            i, j = low, middle
            for k in range(low, high):
                if i < middle and (j >= high or values[order[i]] <= values[order[j]]):
                    buffer[k] = order[i]
                    i += 1
                else:
                    buffer[k] = order[j]
                    j += 1
        for k in range(n):
            order[k] = buffer[k]
        width *= 2
