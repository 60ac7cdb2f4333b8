"""Samples of the rows (contract: ``kernels.statistics.samples``)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.blocks import inclusive_scan, share_of_block
from ...runtime.cuda.target import (
    block_size,
    blocks_for_rows,
    cuda,
    device_function,
    download,
    empty,
    kernel,
    launch,
    upload,
)
from ...runtime.dtypes import RECORD
from ...scalars.rng import draw
from ..reference import samples as reference
from ..samples import SampleRecords

i64, u64 = np.int64, np.uint64
BLOCK = block_size(256)
KEY, LIMIT, N_ROWS = range(3)
"""Columns of ``draws``, for samples without replacement."""


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


@device_function
def is_drawn(weight, row, key, limit):
    """Return whether the draw of a row, which may have weight zero, is below the limit."""
    if weight.shape[0] > 0 and weight[row] == 0.0:
        return False
    return draw(key, u64(row)) < limit


@kernel
def count_drawn(weight, draws, of_blocks):
    """Count the rows of samples, each block its part; ``blockIdx.y`` is the sample."""
    scan = cuda.shared.array(BLOCK, np.int64)
    t = cuda.threadIdx.x
    sample = i64(cuda.blockIdx.y)
    key, limit = draws[sample, KEY], draws[sample, LIMIT]
    # A run of rows a block: its place in the list follows from the counts of those before.
    first, last = share_of_block(i64(draws[sample, N_ROWS]))
    own = i64(0)
    for row in range(first + t, last, BLOCK):
        if is_drawn(weight, row, key, limit):
            own += 1
    scan[t] = own
    inclusive_scan(scan, t)
    if t == 0:
        of_blocks[sample, cuda.blockIdx.x] = scan[BLOCK - 1]


@kernel
def list_drawn(weight, draws, begin, rows):
    """Write the rows of samples, each block its part from ``begin`` on."""
    scan = cuda.shared.array(BLOCK, np.int64)
    t = cuda.threadIdx.x
    sample = i64(cuda.blockIdx.y)
    key, limit = draws[sample, KEY], draws[sample, LIMIT]
    to = begin[sample, cuda.blockIdx.x]
    first, last = share_of_block(i64(draws[sample, N_ROWS]))
    while first < last:
        cuda.syncthreads()  # all have read the scan before
        row = first + t
        own = i64(0)
        if row < last and is_drawn(weight, row, key, limit):
            own = i64(1)
        scan[t] = own
        inclusive_scan(scan, t)
        if own > 0:
            # In ascending order of the rows, as the threads of a step, and the steps, are.
            rows[to + scan[t] - 1] = row
        to += scan[BLOCK - 1]
        first += BLOCK


def draw_below(
    weight: Array, n_rows: Sequence[int], limits: Sequence[int], keys: Sequence[int]
) -> tuple[Array, ...]:
    (draws,) = upload(np.array([keys, limits, n_rows], np.uint64).T)
    grid = blocks_for_rows(max(n_rows), BLOCK), len(keys)
    of_blocks = empty(grid[::-1], np.int64)
    launch(count_drawn, grid, BLOCK, weight, draws, of_blocks)
    # The host waits for the counts, and so allocates no more than the rows that are drawn.
    counts = download(of_blocks)
    ends = np.cumsum(counts).reshape(counts.shape)
    rows = empty(int(ends[-1, -1]), np.int32)
    if rows.shape[0] > 0:
        (begin,) = upload(ends - counts)
        launch(list_drawn, grid, BLOCK, weight, draws, begin, rows)
    first, samples = 0, []
    for last, *own in zip(ends[:, -1].tolist(), n_rows, limits, keys, strict=True):
        of_sample = rows[first:last]
        if first == last:  # the smallest draw: rare enough for operations of arrays
            (of_sample,) = reference.draw_below(weight, *([each] for each in own))
        samples.append(of_sample)
        first = last
    return tuple(samples)


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
