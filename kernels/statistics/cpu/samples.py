"""Samples of the rows (contract: ``kernels.statistics.samples``)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...runtime.arrays import Array
from ...runtime.compilation import inner, kernel, kernel_without_allocation
from ...runtime.cpu.team import run
from ...scalars.rng import draw
from ..samples import SampleRecords

u64 = np.uint64
NEVER = u64(2**32)
"""The draw of a row of weight zero."""


@kernel
def _count_worker(thread, n_threads, barrier, counts, n_draws, key):
    n = u64(counts.size)
    for i in range(n_draws):
        # A draw has 32 bits: the high word of the product is a row, without the division of a
        # remainder.
        counts[draw(key, u64(i)) * n >> u64(32)] += 1


def count_draws(counts: Array, n_draws: int, key: int) -> None:
    run(_count_worker, 1, counts, n_draws, np.uint64(key))


@inner
def _bits(weight, row, key):
    if weight.size > 0 and weight[row] == 0.0:
        return NEVER
    return draw(key, u64(row))


@kernel_without_allocation
def _draw_below(weight, limit, key, rows):
    """Fill in the rows and return their number; ``rows`` has a place more than there are."""
    n, m, least = rows.size - 1, 0, NEVER
    for row in range(n):
        bits = _bits(weight, row, key)
        least = min(least, bits)
        # Every row is written to the end of the list: no branch is guessed wrongly.
        rows[m] = row
        m += bits < limit
    if m == 0:
        for row in range(n):
            rows[m] = row
            m += _bits(weight, row, key) == least
    return m


def draw_below(
    weight: np.ndarray, n_rows: Sequence[int], limits: Sequence[int], keys: Sequence[int]
) -> tuple[np.ndarray, ...]:
    samples = []
    for n, limit, key in zip(n_rows, limits, keys, strict=True):
        rows = np.empty(n + 1, np.int32)
        samples.append(rows[: _draw_below(weight, u64(limit), u64(key), rows)])
    return tuple(samples)


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
