"""Samples of the rows (contract: ``kernels.statistics.samples``)."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.target import block_size, blocks_for_rows, cuda, kernel, launch
from ...scalars.rng import draw
from ..reference.samples import records_of_sample

i64, u64 = np.int64, np.uint64
BLOCK = block_size(256)


@kernel
def count_hits(counts, n_draws, key):
    """One draw a thread."""
    n = u64(counts.shape[0])
    i = i64(cuda.grid(1))
    while i < n_draws:
        cuda.atomic.add(counts, i64(draw(key, u64(i)) * n >> u64(32)), 1)
        i += i64(cuda.gridsize(1))


def count_draws(counts: Array, n_draws: int, key: int) -> None:
    blocks = blocks_for_rows(n_draws, BLOCK)
    launch(count_hits, blocks, BLOCK, counts, i64(n_draws), u64(key))


__all__ = ["records_of_sample"]
