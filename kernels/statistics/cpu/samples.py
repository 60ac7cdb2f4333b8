"""Samples of the rows (contract: ``kernels.statistics.samples``)."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.compilation import kernel
from ...runtime.cpu.team import run
from ...scalars.rng import draw
from ..samples import SampleRecords

u64 = np.uint64


@kernel
def _count_worker(thread, n_threads, barrier, counts, n_draws, key):
    n = u64(counts.size)
    for i in range(n_draws):
        # A draw has 32 bits: the high word of the product is a row, without the division of a
        # remainder.
        counts[draw(key, u64(i)) * n >> u64(32)] += 1


def count_draws(counts: Array, n_draws: int, key: int) -> None:
    run(_count_worker, 1, counts, n_draws, np.uint64(key))


u64 = np.uint64


@kernel
def _records_worker(thread, n_threads, barrier, counts, records):
    """Every row is written to the end of the list; only those with a count stay there."""
    m = 0
    for row in range(counts.size):
        records[m] = u64(counts[row]) << u64(32) | u64(row)
        m += counts[row] > 0


def records_of_sample(counts: Array) -> SampleRecords:
    records = np.empty(np.count_nonzero(counts) + 1, np.uint64)
    run(_records_worker, 1, counts, records)
    return SampleRecords(records, np.array([records.size - 1]))
