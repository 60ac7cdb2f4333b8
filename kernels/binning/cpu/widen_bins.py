"""The values in bins (contract: ``kernels.binning.widen_bins``).

Each thread looks at features of its own, in blocks of rows that stay in the cache.
"""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.compilation import kernel_without_allocation
from ...runtime.cpu.table import TableMemory, cell, table_of
from ...runtime.cpu.team import run, threads_for
from ...runtime.dtypes import MISSING

f64 = np.float64
BLOCK = 1 << 10


@kernel_without_allocation
def _worker(thread, n_threads, barrier, cells, columns, features, lowest, highest):
    table = TableMemory(*cells)
    n_rows = columns.shape[1]
    for begin in range(0, n_rows, BLOCK):
        for j in range(thread, features.size, n_threads):
            # A feature belongs to one thread, which alone writes its bounds.
            f = features[j]
            for i in range(begin, min(begin + BLOCK, n_rows)):
                code = columns[f, i]
                if code == MISSING:
                    continue
                x = f64(cell(table, i, f)) + 0.0  # a zero may be below 0
                if x < lowest[f, code]:
                    lowest[f, code] = x
                if x > highest[f, code]:
                    highest[f, code] = x


def widen_bins(X: Array, columns: Array, features: Array, lowest: Array, highest: Array) -> None:
    n_threads = min(threads_for(len(X) * features.size), max(1, features.size))
    run(_worker, n_threads, table_of(X), columns, features, lowest, highest)
