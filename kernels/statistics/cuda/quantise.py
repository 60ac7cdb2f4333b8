"""Integer records (contract: ``kernels.statistics.quantise``)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...runtime.arrays import Array
from ...runtime.collective import NO_ROWS
from ...runtime.cuda.target import (
    block_size,
    blocks_for_rows,
    cuda,
    empty,
    kernel,
    launch,
    upload,
    zeros,
)
from ...runtime.dtypes import RECORD, Scales, TreeRecords
from ...scalars.primitives import mul
from ...scalars.rng import draw
from ...scalars.rounding import LOW_16, S16, stochastic_round
from .totals import on_device

u32, u64, i64, f64 = np.uint32, np.uint64, np.int64, np.float64
BLOCK = block_size(256)
KEY, NUMBER, SIZE, BEGIN, FIRST_ROW, N_ROWS, N_OF_TREE = range(7)
"""Columns of ``own_trees``, see ``quantise_models``."""


@kernel
def make_records(g, h, rows, own_trees, begin, key, first, scales, records, sums):
    """One record a thread: ``g << 48 | h << 32 | row``; a block adds up its own. ``blockIdx.y`` is
    the output. Rows are rounded by their numbers from ``begin`` on. ``own_trees`` are the trees of
    several models, see ``quantise_models``."""
    g_of_block = cuda.shared.array(BLOCK, np.int64)
    h_of_block = cuda.shared.array(BLOCK, np.int64)
    t = cuda.threadIdx.x
    sum_g = i64(0)
    sum_h = i64(0)
    output = i64(cuda.blockIdx.y)
    own_g, own_h, own = g[output], h[output], records[output]
    # Every output rounds by a key of its own; a row's draw does not depend on the sample.
    own_key = draw(key, u64(first + output))
    n = u32(records.shape[1])
    first_place = i64(0)
    first_row = i64(0)
    if own_trees.shape[0] > 0:
        own_key = draw(u64(own_trees[output, KEY]), u64(own_trees[output, NUMBER]))
        n = u32(own_trees[output, SIZE])
        first_place = own_trees[output, BEGIN]
        first_row = own_trees[output, FIRST_ROW]
    sampled = first_place >= 0 and rows.shape[0] > 0
    scale_g = scales[output, 0]
    scale_h = scales[output, 1]
    i = u32(cuda.grid(1))
    while i < n:
        # Make the record of a row, and sum up the thread's.
        row = i64(i)
        if sampled:
            row = i64(rows[first_place + i])
        bits = draw(own_key, u64(begin + row))
        g_int = i64(stochastic_round(mul(f64(own_g[u32(row)]), scale_g), f64(bits & LOW_16)))
        h_int = i64(stochastic_round(mul(f64(own_h[u32(row)]), scale_h), f64(bits >> S16)))
        # The row of the table that holds those of all models; draws and gradients have its own.
        # It fits beside g and h: a batch has at most 2**24 trees times rows (``batch_size``), and
        # no more tables than trees.
        own[i] = u64((g_int << i64(48)) | (h_int << i64(32)) | (first_row + row))
        sum_g += g_int
        sum_h += h_int
        i = u32(i + cuda.gridsize(1))
    # Sum up those of the block: integers, in any order.
    g_of_block[t] = sum_g
    h_of_block[t] = sum_h
    cuda.syncthreads()
    half = BLOCK // 2
    while half > 0:
        # Behind the barrier the upper half is there.
        if t < half:
            g_of_block[t] += g_of_block[t + half]
            h_of_block[t] += h_of_block[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        cuda.atomic.add(sums, (output, 0), g_of_block[0])
        cuda.atomic.add(sums, (output, 1), h_of_block[0])


def one_model() -> Array:
    """Return ``own_trees`` of the trees of one model: none."""
    return empty((0, N_OF_TREE), np.int64)


def quantise(
    g: Array, h: Array, rows: Array, key: int, first: int, scales: Sequence[Scales], begin: int = 0
) -> TreeRecords:
    """``begin`` is added to the numbers of rows that the rounding depends on."""
    n_outputs, n = g.shape[0], 0 if rows is NO_ROWS else rows.shape[0] or g.shape[1]
    records = empty((n_outputs, n), RECORD)
    sums = zeros((n_outputs, 2), np.int64)
    if n > 0:
        launch(
            make_records, (blocks_for_rows(n, BLOCK), n_outputs), BLOCK,
            g, h, rows, one_model(), i64(begin), u64(key), i64(first), on_device(scales), records,
            sums,
        )  # fmt: skip
    return TreeRecords(records, sums, scales)


def quantise_models(
    g: Array, h: Array, rows: Array, own_trees: np.ndarray, scales: Sequence[Scales]
) -> tuple[TreeRecords, Array]:
    """Return the records of the trees of several models in one launch, a line a tree, of which
    those with fewer records fill the beginning, and ``own_trees`` on the device.

    ``rows`` holds one sample after the other, int32, and ``own_trees`` has a line a tree, int64
    NumPy: the key and the number that its rows are rounded by (see ``quantise``), how many records
    it has, where its sample begins, -1 where that is all rows, the first of its rows in the table
    that holds those of all models, and how many rows it has there.
    """
    n_trees, n = len(own_trees), int(own_trees[:, SIZE].max())
    records, sums = empty((n_trees, n), RECORD), zeros((n_trees, 2), np.int64)
    (on_gpu,) = upload(own_trees)
    launch(
        make_records, (blocks_for_rows(n, BLOCK), n_trees), BLOCK,
        g, h, rows, on_gpu, i64(0), u64(0), i64(0), on_device(scales), records, sums,
    )  # fmt: skip
    return TreeRecords(records, sums, scales), on_gpu
