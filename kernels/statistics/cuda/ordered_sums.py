"""Sums in a fixed order (contract: ``kernels.statistics.ordered_sums``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.target import block_size, cuda, empty, kernel, launch, upload
from ...runtime.dtypes import SUM_CHUNK
from ...runtime.fetch import fetch
from .gradients import next_place

u32, f64 = np.uint32, np.float64
BLOCK = block_size(256)
MOST_LEVELS = 15
"""Levels of the tree of chunks: lines have at most 2**24 rows, as batches of trees have."""
N_TURNS = MOST_LEVELS * BLOCK


@kernel
def sum_lines(values, n_rows, own_rows, n_turns, out):
    """A line a block, of ``n_rows`` rows or those of ``own_rows``; ``out`` (n_lines, 2)."""
    sums = cuda.shared.array(SUM_CHUNK, np.float64)
    tops = cuda.shared.array(BLOCK, np.float64)
    turns = cuda.shared.array(N_TURNS, np.float64)  # registers cannot be indexed
    t = u32(cuda.threadIdx.x)
    line = u32(cuda.blockIdx.x)
    own = values[line]
    n = u32(n_rows)
    if own_rows.shape[0] > 0:
        n = u32(own_rows[line])
    top = f64(0)
    k = t
    while k < u32(SUM_CHUNK):
        # Rows that are a chunk or more apart meet first, those of the highest distance before all.
        place = u32(0)
        total = f64(0)
        for turn in range(n_turns):
            i = u32(place * u32(SUM_CHUNK) + k)
            total = own[i] if i < n else f64(0)
            top = max(top, total)
            # As a binary counter carries: a pair of trees of the same size becomes one.
            level = u32(0)
            while (u32(turn) >> level) & u32(1):
                total += turns[u32(level * u32(BLOCK) + t)]
                level = u32(level + u32(1))
            turns[u32(level * u32(BLOCK) + t)] = total
            place = next_place(place, u32(n_turns >> 1))
        sums[k] = total
        k = u32(k + u32(BLOCK))
    tops[t] = top
    half = u32(SUM_CHUNK // 2)
    while half > u32(0):
        cuda.syncthreads()  # the values, or the sums of the step before, are there
        k = t
        while k < half:
            sums[k] += sums[u32(k + half)]
            k = u32(k + u32(BLOCK))
        if half < u32(BLOCK) and t < half:
            tops[t] = max(tops[t], tops[u32(t + half)])
        half = u32(half >> u32(1))
    if t == u32(0):  # which has added the last two
        out[line, 0] = sums[0]
        out[line, 1] = tops[0]


def ordered_sums(values: Array, n_rows: Sequence[int]) -> Callable[[], np.ndarray]:
    chunks = -(-max(n_rows) // SUM_CHUNK)
    own_rows = empty(0, np.int64)
    if len(set(n_rows)) > 1:
        (own_rows,) = upload(np.array(n_rows, np.int64))
    out = empty((len(n_rows), 2), np.float64)
    n_turns = 1 << (chunks - 1).bit_length()
    launch(sum_lines, len(n_rows), BLOCK, values, n_rows[0], own_rows, n_turns, out)
    return fetch(out)
