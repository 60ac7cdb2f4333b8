"""Samples of the rows (contract: ``kernels.statistics.samples``)."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.blocks import inclusive_scan, share_of_block
from ...runtime.cuda.target import (
    block_size,
    blocks_for_rows,
    cuda,
    empty,
    kernel,
    launch,
)
from ...runtime.dtypes import RECORD
from ...scalars.rng import draw
from ..samples import SampleRecords

i64, u64 = np.int64, np.uint64
BLOCK = block_size(256)


@kernel
def count_hits(counts, n_draws, key):
    """One draw a thread."""
    n = u64(counts.shape[0])
    i = i64(cuda.grid(1))
    while i < n_draws:
        # Counts of draws with replacement: the order of the threads does not matter.
        cuda.atomic.add(counts, i64(draw(key, u64(i)) * n >> u64(32)), 1)
        i += i64(cuda.gridsize(1))


def count_draws(counts: Array, n_draws: int, key: int) -> None:
    blocks = blocks_for_rows(n_draws, BLOCK)
    launch(count_hits, blocks, BLOCK, counts, i64(n_draws), u64(key))


@kernel
def count_rows(counts, of_blocks):
    """Count the rows of a sample, each block its part."""
    scan = cuda.shared.array(BLOCK, np.int64)
    t = cuda.threadIdx.x
    # A run of rows a block: ``list_rows`` then knows where the block's records begin.
    first, last = share_of_block(i64(counts.shape[0]))
    own = i64(0)
    for row in range(first + t, last, BLOCK):
        if counts[row] > 0:
            own += 1
    scan[t] = own
    inclusive_scan(scan, t)
    if t == 0:
        of_blocks[cuda.blockIdx.x] = scan[BLOCK - 1]


@kernel
def list_rows(counts, of_blocks, records, size):
    """Write the records of a sample, each block its part behind those of the blocks before."""
    scan = cuda.shared.array(BLOCK, np.int64)
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x
    before = i64(0)
    # What the blocks before have counted: a few numbers, added up by every block.
    for other in range(t, b, BLOCK):
        before += of_blocks[other]
    scan[t] = before
    inclusive_scan(scan, t)
    to = scan[BLOCK - 1]
    first, last = share_of_block(i64(counts.shape[0]))
    while first < last:
        cuda.syncthreads()  # all have read the scan before
        row = first + t
        own = i64(0)
        if row < last and counts[row] > 0:
            own = i64(1)
        scan[t] = own
        inclusive_scan(scan, t)
        if own > 0:
            # In ascending order of the rows, as the threads of a step, and the steps, are.
            records[to + scan[t] - 1] = u64(counts[row]) << u64(32) | u64(row)
        to += scan[BLOCK - 1]
        first += BLOCK
    if t == 0 and b == cuda.gridDim.x - 1:
        size[0] = to


def records_of_sample(counts: Array) -> SampleRecords:
    counts = counts.astype(np.int32, copy=False)
    n = counts.shape[0]
    blocks = blocks_for_rows(n, BLOCK)
    of_blocks = empty(blocks, np.int64)
    sample = SampleRecords(empty(n, RECORD), empty(1, np.int64))
    launch(count_rows, blocks, BLOCK, counts, of_blocks)
    launch(list_rows, blocks, BLOCK, counts, of_blocks, *sample)
    return sample
