"""Sums of lines (contract: ``kernels.statistics.ordered_sums``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...runtime.arrays import Array
from ...runtime.compilation import kernel_without_allocation
from ...runtime.dtypes import SUM_CHUNK
from .gradients import halve


@kernel_without_allocation
def _sum_lines(lines, found):
    size = lines.shape[1]
    for k in range(lines.shape[0]):
        largest = 0.0
        for i in range(size):
            largest = max(largest, lines[k, i])
        # In place: the line is not needed any more.
        found[k, 0], found[k, 1] = halve(lines[k], size), largest


def ordered_sums(values: Array, n_rows: Sequence[int]) -> Callable[[], np.ndarray]:
    size = max(SUM_CHUNK, 1 << (max(n_rows) - 1).bit_length())
    lines, found = np.zeros((len(n_rows), size)), np.empty((len(n_rows), 2))
    for line, own, n in zip(lines, values, n_rows, strict=True):
        line[:n] = own[:n]
    _sum_lines(lines, found)
    return lambda: found
