"""Numbers of all rows of a shared table (see ``kernels.runtime.collective``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..devices.array_functions import contiguous
from ..devices.placement import module_of, to_numpy
from ..kernels.runtime.collective import ONE_WORKER, Workers, halved
from ..kernels.runtime.dtypes import SUM_CHUNK

OFFSETS_AT_ONCE = 64
"""Rows of each chunk that are gathered together: a 16th of the table's column."""
EXACT = 2.0**53
"""Sums of whole numbers are exact as long as those of their magnitudes are below this."""


def sum_of_all(values: Any, workers: Workers) -> float:
    """Return ``ordered_sum`` of the values of all workers, one worker's after the other's.

    It halves the column, so that value i of a chunk meets only the values i of other chunks until
    one chunk is left: these are gathered and added up in blocks of ``OFFSETS_AT_ONCE``. A chunk
    that begins with one worker's values and goes on with another's comes from both, each with
    zeros in the place of the other's.

    The order does not matter for whole numbers, as classes are, whose sums are all exact: each
    worker adds up its own.
    """
    values = to_numpy(values)
    own = np.array([[values.size, *_exact_sums(values)]])
    sizes, magnitudes, totals = np.concatenate(workers.collective.gather(own)).T
    if magnitudes.sum() < EXACT:
        return float(totals.sum())
    ends = np.cumsum(sizes.astype(np.int64))
    begins = ends - sizes.astype(np.int64)
    first = int(begins[workers.collective.rank]) // SUM_CHUNK
    last = -(-int(ends[workers.collective.rank]) // SUM_CHUNK)
    chunks = np.zeros((max(last - first, 0), SUM_CHUNK))
    begin = int(begins[workers.collective.rank]) - first * SUM_CHUNK
    chunks.reshape(-1)[begin : begin + values.size] = values
    n_chunks = max(1, -(-int(ends[-1]) // SUM_CHUNK))
    total = np.empty(SUM_CHUNK)
    for low in range(0, SUM_CHUNK, OFFSETS_AT_ONCE):
        block = slice(low, low + OFFSETS_AT_ONCE)
        found = workers.collective.gather(np.ascontiguousarray(chunks[:, block]))
        lines = np.zeros((n_chunks, OFFSETS_AT_ONCE))
        for own, begin in zip(found, (begins // SUM_CHUNK).tolist(), strict=True):
            lines[begin : begin + len(own)] += own
        total[block] = halved(lines)
    return float(halved(total))


def _exact_sums(values: np.ndarray) -> tuple[float, float]:
    """Return the sum of the magnitudes of whole numbers, and their sum; infinity and 0 where there
    are others, or where the sum may not be exact."""
    magnitude = float(abs(values).sum())
    if not magnitude < EXACT or (np.rint(values) != values).any():
        return np.inf, 0.0
    return magnitude, float(values.sum())


def of_all_rows(values: Any, workers: Workers) -> Any:
    """Return the values of the rows of all workers, of shape (..., n_all), where those are.

    Every worker then has 8 bytes a row and array, and does the same work with them.
    """
    if workers is ONE_WORKER:
        return values
    own = np.ascontiguousarray(np.moveaxis(to_numpy(values), -1, 0))
    found = np.concatenate(workers.collective.gather(own))
    return module_of(values).asarray(np.ascontiguousarray(np.moveaxis(found, 0, -1)))


def of_own_rows(values: Any, workers: Workers) -> Any:
    """Return the values (..., n_own) of this worker's rows; all where a table is not shared."""
    if workers is ONE_WORKER:
        return values
    return contiguous(values[..., workers.first : workers.first + workers.n_own])
