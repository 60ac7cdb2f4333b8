"""Samples of the rows without replacement (contract: ``kernels.statistics.row_draws``)."""

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
from ...scalars.rng import draw
from ..reference import row_draws as reference
from .gradients import lines_in

i64, u64, f32, f64 = np.int64, np.uint64, np.float32, np.float64
BLOCK = block_size(256)
KEY, LIMIT, N_ROWS, LEAST = range(4)
"""Columns of ``draws``: ``LEAST`` is a draw that is taken in any case."""
NO_DRAW, ZERO_WEIGHT = 2**33, 2**32
"""Above all draws: that of no row, and that of a row of weight zero."""
S32, LOW_32 = i64(32), i64(2**32 - 1)


@device_function
def draw_of(weight, sample, row, key):
    """Return the draw of a row, above all limits where its weight is zero."""
    if weight.shape[1] > 0 and weight[min(sample, weight.shape[0] - 1), row] == 0.0:
        return u64(ZERO_WEIGHT)
    return u64(draw(key, u64(row)))


@device_function
def is_drawn(weight, chances, draws, sample, row):
    """Return whether the draw of a row is below its limit, by its chance where it has one, or the
    least one."""
    bits = draw_of(weight, sample, row, draws[sample, KEY])
    limit = draws[sample, LIMIT]
    if chances.shape[1] > 0:
        limit = min(limit, u64(chances[sample, row] * 4294967296.0))
    return bits < limit or bits == draws[sample, LEAST]


@kernel
def find_least(weight, draws):
    """Find the least draw of each sample, a row a thread; ``blockIdx.y`` is the sample."""
    sample = i64(cuda.blockIdx.y)
    key, n = draws[sample, KEY], i64(draws[sample, N_ROWS])
    least = u64(NO_DRAW)
    row = i64(cuda.grid(1))
    while row < n:
        least = min(least, draw_of(weight, sample, row, key))
        row += cuda.gridsize(1)
    cuda.atomic.min(draws, (sample, LEAST), least)


@kernel
def count_drawn(weight, chances, draws, of_blocks):
    """Count the rows of samples, each block its part; ``blockIdx.y`` is the sample. The upper half
    of a count is that of rows that were not certain to be drawn."""
    scan = cuda.shared.array(BLOCK, np.int64)
    t = cuda.threadIdx.x
    sample = i64(cuda.blockIdx.y)
    # A run of rows a block: its place in the list follows from the counts of those before.
    first, last = share_of_block(i64(draws[sample, N_ROWS]))
    own = i64(0)
    for row in range(first + t, last, BLOCK):
        if is_drawn(weight, chances, draws, sample, row):
            own += 1
            if chances.shape[1] > 0 and chances[sample, row] < 1.0:
                own += i64(1) << S32
    scan[t] = own
    inclusive_scan(scan, t)
    if t == 0:
        of_blocks[sample, cuda.blockIdx.x] = scan[BLOCK - 1]


@kernel
def list_drawn(weight, chances, draws, begin, rows, factors):
    """Write the rows of samples, and the factors of those with chances, each block its part from
    ``begin`` on."""
    scan = cuda.shared.array(BLOCK, np.int64)
    t = cuda.threadIdx.x
    sample = i64(cuda.blockIdx.y)
    to = begin[sample, cuda.blockIdx.x]
    first, last = share_of_block(i64(draws[sample, N_ROWS]))
    while first < last:
        cuda.syncthreads()  # all have read the scan before
        row = first + t
        own = i64(0)
        if row < last and is_drawn(weight, chances, draws, sample, row):
            own = i64(1)
        scan[t] = own
        inclusive_scan(scan, t)
        if own > 0:
            # In ascending order of the rows, as the threads of a step, and the steps, are.
            rows[to + scan[t] - 1] = row
            if chances.shape[1] > 0:
                factors[to + scan[t] - 1] = f32(1.0 / chances[sample, row])
        to += scan[BLOCK - 1]
        first += BLOCK


def draw_below(
    weight: Array, n_rows: Sequence[int], limits: Sequence[int], keys: Sequence[int]
) -> tuple[Array, ...]:
    (draws,) = upload(np.array([keys, limits, n_rows, [NO_DRAW] * len(keys)], np.uint64).T)
    no_chances = empty((1, 0), np.float64)
    samples = []
    for k, (rows, _, _) in enumerate(_drawn(weight, no_chances, draws, n_rows)):
        if rows.shape[0] == 0:  # the smallest draw: rare enough for operations of arrays
            own = reference.line_of(weight, k, n_rows[k])
            (rows,) = reference.draw_below(own, [n_rows[k]], [limits[k]], [keys[k]])
        samples.append(rows)
    return tuple(samples)


def draw_by_chances(
    weight: Array, chances: Array, n_rows: Sequence[int], keys: Sequence[int]
) -> list[tuple[Array, Array]]:
    n = len(keys)
    (draws,) = upload(np.array([keys, [ZERO_WEIGHT] * n, n_rows, [NO_DRAW] * n], np.uint64).T)
    launch(find_least, (blocks_for_rows(max(n_rows), BLOCK), n), BLOCK, lines_in(weight), draws)
    found = []
    for (rows, factors, is_certain), size in zip(
        _drawn(weight, chances, draws, n_rows), n_rows, strict=True
    ):
        is_whole = is_certain and rows.shape[0] == size
        found.append((rows[:0], factors[:0]) if is_whole else (rows, factors))
    return found


def _drawn(
    weight: Array, chances: Array, draws: Array, n_rows: Sequence[int]
) -> list[tuple[Array, Array, bool]]:
    """Return the rows of each sample, their factors where they have chances, and whether all of
    them were certain to be drawn."""
    weight = lines_in(weight)
    grid = blocks_for_rows(max(n_rows), BLOCK), len(n_rows)
    of_blocks = empty(grid[::-1], np.int64)
    launch(count_drawn, grid, BLOCK, weight, chances, draws, of_blocks)
    # The host waits for the counts, and so allocates no more than the rows that are drawn.
    both = download(of_blocks)
    counts, are_certain = both & LOW_32, (both >> S32).sum(axis=1) == 0
    ends = np.cumsum(counts).reshape(counts.shape)
    n_drawn = int(ends[-1, -1])
    rows, factors = empty(n_drawn, np.int32), empty(n_drawn * (chances.shape[1] > 0), np.float32)
    if n_drawn > 0:
        (begin,) = upload(ends - counts)
        launch(list_drawn, grid, BLOCK, weight, chances, draws, begin, rows, factors)
    last = ends[:, -1].tolist()
    places = [slice(*pair) for pair in zip([0, *last], last, strict=False)]
    pairs = zip(places, are_certain.tolist(), strict=True)
    return [(rows[own], factors[own], certain) for own, certain in pairs]
