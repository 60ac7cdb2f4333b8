"""Binning (contract: ``kernels.binning.bin_values``)."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.target import (
    block_size,
    blocks_for_rows,
    cuda,
    empty,
    kernel,
    launch,
    on_device,
)
from ...runtime.dtypes import CODE, MISSING, ROW_ALIGNMENT, Codes

i64, u32, u64 = np.int64, np.uint32, np.uint64
BLOCK = block_size(256)
WORD = ROW_ALIGNMENT
"""Features whose codes share one 64-bit word of ``Codes.rows``."""
CUTS = 255
N_CUTS = WORD * CUTS


@kernel
def number_bins(X, thresholds, words, columns):
    """One row and one word of eight features a thread; ``blockIdx.x`` is the word.

    The thresholds of the eight features wait in shared memory. A thread reads eight
    neighbouring values, writes one word of ``words`` (uint64, shape (n_rows, stride / 8)) and,
    next to its neighbours in the warp, one byte of each of eight columns.
    """
    cuts = cuda.shared.array(N_CUTS, X.dtype)
    word = u32(cuda.blockIdx.x)
    first = u32(word * u32(WORD))
    n_features = min(WORD, X.shape[1] - i64(first))
    # The block's thresholds into shared memory.
    for k in range(cuda.threadIdx.x, n_features * CUTS, BLOCK):
        f = k // CUTS
        cuts[u32(k)] = thresholds[u32(first + u32(f)), u32(k - f * CUTS)]
    cuda.syncthreads()
    # Behind the barrier all thresholds are there.
    n = u32(X.shape[0])
    i = u32(cuda.blockIdx.y * u32(BLOCK) + cuda.threadIdx.x)
    while i < n:
        codes = u64(0)
        for f in range(n_features):
            x = X[i, u32(first + u32(f))]
            # A binary search over 255 thresholds takes eight steps, in all threads alike.
            below = u32(0)
            step = u32(128)
            while step > u32(0):
                if cuts[u32(u32(f * CUTS) + below + step - u32(1))] < x:
                    below = u32(below + step)
                step = u32(step >> u32(1))
            if x != x:
                # Comparisons with NaN fail: without this its code would be 0.
                below = u32(MISSING)
            columns[u32(first + u32(f)), i] = below
            codes |= u64(below) << u64(8 * f)
        # One store of eight codes: rows are padded to whole words.
        words[i, word] = codes
        i = u32(i + cuda.gridDim.y * u32(BLOCK))


def bin_values(X: Array, thresholds: Array) -> Codes:
    n_rows, n_features = X.shape
    n_words = -(-n_features // WORD)
    rows = empty((n_rows, n_words * WORD), CODE)
    columns = empty((n_features, n_rows), CODE)
    blocks = (n_words, blocks_for_rows(n_rows, BLOCK))
    words = rows.view(np.uint64)
    launch(number_bins, blocks, BLOCK, X, on_device(thresholds), words, columns)
    return Codes(rows, columns)
