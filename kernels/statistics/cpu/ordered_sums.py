"""Sums of lines (contract: ``kernels.statistics.ordered_sums``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...runtime.arrays import Array
from ...runtime.compilation import kernel_without_allocation
from ...runtime.dtypes import SUM_CHUNK
from .gradients import halve


@kernel_without_allocation
def _sum_lines(values, n_rows, scratch, found):
    for line in range(n_rows.size):
        n = n_rows[line]
        size = np.int64(SUM_CHUNK)
        while size < n:
            size *= 2
        largest = 0.0
        for i in range(n):
            scratch[i] = values[line, i]
            largest = max(largest, scratch[i])
        for i in range(n, size):
            scratch[i] = 0.0
        found[line, 0], found[line, 1] = halve(scratch, size), largest


def ordered_sums(values: Array, n_rows: Sequence[int]) -> Callable[[], np.ndarray]:
    sizes, found = np.array(n_rows, np.int64), np.empty((len(n_rows), 2))
    scratch = np.empty(max(SUM_CHUNK, 1 << (max(n_rows) - 1).bit_length()))
    _sum_lines(values, sizes, scratch, found)
    return lambda: found
