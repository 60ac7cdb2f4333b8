"""Binning (contract: ``kernels.binning.bin_values``).

A block of rows is copied column by column into the cache. Sixteen comparisons with every
sixteenth threshold, done for the whole block at once, give the high half of each code; four
steps of a binary search give the low half.
"""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array, empty_on_line
from ...runtime.compilation import inner, kernel
from ...runtime.cpu.team import CACHE_LINE, atomic_add, run, threads_for
from ...runtime.dtypes import MISSING, ROW_ALIGNMENT, Codes

u8, u32 = np.uint8, np.uint32
BLOCK = 512


@inner
def _coarse(x, thresholds, n, high):
    for i in range(n):
        high[i] = 0
    # The outer loop is over thresholds: the inner one has no branch and vectorises.
    for k in range(15, 255, 16):
        t = thresholds[k]
        for i in range(n):
            high[i] += u32(1) if t < x[i] else u32(0)


@inner
def _fine(x, thresholds, n, high, codes):
    for i in range(n):
        value = x[i]
        p = high[i] << u32(4)
        # Each step adds its width if the threshold before the new place is below the value.
        p += u32(8) if thresholds[p + u32(7)] < value else u32(0)
        p += u32(4) if thresholds[p + u32(3)] < value else u32(0)
        p += u32(2) if thresholds[p + u32(1)] < value else u32(0)
        p += u32(1) if thresholds[p] < value else u32(0)
        codes[i] = u8(p)


@inner
def mark_missing(x, n, codes):
    """Write the code of missing values where a value is NaN."""
    # Comparisons with NaN fail, so that the search has given these code 0.
    for i in range(n):
        codes[i] = u8(MISSING) if x[i] != x[i] else codes[i]


@inner
def code_column(x, thresholds, high, codes):
    """Codes of the first values, as many as ``codes`` takes; ``thresholds`` has 256 entries,
    ``high`` is scratch."""
    n = codes.size
    _coarse(x, thresholds, n, high)
    _fine(x, thresholds, n, high, codes)
    mark_missing(x, n, codes)


@kernel
def _worker(thread, n_threads, barrier, X, thresholds, rows, columns, queue):
    n, n_features = X.shape
    values = np.empty((n_features, BLOCK), X.dtype)
    high = np.empty(BLOCK, np.uint32)
    while True:
        begin = atomic_add(queue, 0, BLOCK)
        if begin >= n:
            break
        m = min(BLOCK, n - begin)
        # The block's values column by column, in the cache; their codes as columns, then as rows.
        for i in range(m):
            for f in range(n_features):
                values[f, i] = X[begin + i, f]
        for f in range(n_features):
            code_column(values[f], thresholds[f], high, columns[f, begin : begin + m])
        for i in range(m):
            for f in range(n_features):
                rows[begin + i, f] = columns[f, begin + i]
            # Rows are padded to whole words, which other code reads at once: what it reads is set.
            for f in range(n_features, rows.shape[1]):
                rows[begin + i, f] = u8(0)


def bin_values(X: Array, thresholds: Array) -> Codes:
    n, n_features = X.shape
    stride = -(-n_features // ROW_ALIGNMENT) * ROW_ALIGNMENT
    codes = Codes(empty_on_line((n, stride), np.uint8), np.empty((n_features, n), np.uint8))
    # The search may look one entry past the thresholds; +inf is below nothing.
    padded = np.full((n_features, 256), np.inf, X.dtype)
    padded[:, :255] = thresholds
    queue = np.zeros(CACHE_LINE, np.int64)
    run(_worker, threads_for(4 * X.size), X, padded, codes.rows, codes.columns, queue)
    return codes
