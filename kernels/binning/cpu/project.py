"""Projections (contract: ``kernels.binning.project``).

A block of rows is copied column by column into the cache, where a sum adds whole columns.
"""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.compilation import kernel
from ...runtime.cpu.table import TableMemory, cell, table_of
from ...runtime.cpu.team import CACHE_LINE, atomic_add, run, threads_for
from ...scalars.primitives import mul

f64 = np.float64
CELLS = 2**15
"""Values of a block of rows, 256 KB."""
MOST_ROWS = 512


@kernel
def _worker(
    thread, n_threads, barrier, cells, n_features, step, begin, feature, weight, projected, queue
):
    table = TableMemory(*cells)
    n = projected.shape[1]
    values = np.empty((n_features, step), np.float64)
    while True:
        first = atomic_add(queue, 0, step)
        if first >= n:
            break
        m = min(step, n - first)
        for i in range(m):
            for f in range(n_features):
                values[f, i] = f64(cell(table, first + i, f))
        for j in range(projected.shape[0]):
            total = projected[j, first : first + m]
            # The first product starts the sum, in place of a zero: every implementation adds in
            # this order.
            k = begin[j]
            x, w = values[feature[k]], weight[k]
            for i in range(m):
                total[i] = mul(w, x[i])
            for k in range(begin[j] + 1, begin[j + 1]):
                x, w = values[feature[k]], weight[k]
                for i in range(m):
                    total[i] += mul(w, x[i])


def project(X: Array, begin: Array, feature: Array, weight: Array) -> Array:
    n, n_features = X.shape
    projected = np.empty((begin.size - 1, n))
    step = max(16, min(MOST_ROWS, CELLS // n_features))
    n_threads = threads_for(n * (n_features + feature.size))
    queue = np.zeros(CACHE_LINE, np.int64)
    run(_worker, n_threads, table_of(X), n_features, step, begin, feature, weight, projected, queue)
    return projected
