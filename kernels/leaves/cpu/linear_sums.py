"""Sums of products in leaves (contract: ``kernels.leaves.linear_sums``)."""

from __future__ import annotations

import math

import numpy as np

from ...runtime.arrays import Array
from ...runtime.compilation import inner, kernel
from ...runtime.cpu.table import TableMemory, cell, table_of
from ...runtime.cpu.team import run, threads_for, wait
from ...runtime.dtypes import Scales
from ...scalars.primitives import mul
from ...scalars.rounding import to_integer
from ..linear_sums import PathFeatures

f64 = np.float64
WORK_OF_A_ROW = 32
MOST_ENTRIES = 2**23
"""Entries of the sums of all threads."""


@inner
def _place(table, row, first, last, feature, center, scale, z):
    """Fill in the features of a row in units of their intervals; returns whether it is complete."""
    for entry in range(first, last):
        x = f64(cell(table, row, feature[entry]))
        own = mul(x - center[entry], scale[entry])
        if not abs(own) < math.inf:
            return False
        z[entry - first] = own
    # The intercept is the coefficient of a last feature, which is 1 in every row.
    z[last - first] = 1.0
    return True


@kernel
def _sum_worker(
    thread, n_threads, barrier, leaf, g, h, cells, features, scales, begin_of_sums, scratch, sums
):
    """``scratch`` has a line of ``z`` for each thread."""
    table = TableMemory(*cells)
    begin, feature, center, scale = features
    n, mine, z = leaf.size, sums[thread], scratch[thread]
    for row in range(n * thread // n_threads, n * (thread + 1) // n_threads):
        node = leaf[row]
        if node < 0:
            continue
        first, last = begin[node], begin[node + 1]
        if first == last:
            continue
        if not _place(table, row, first, last, feature, center, scale, z):
            continue
        # Products are rounded to whole numbers, in fixed point: their sums do not depend on the
        # order.
        own_g, own_h = g[row] * scales[0], h[row] * scales[1]
        at = begin_of_sums[node]
        # The lower triangle of the symmetric matrix, line by line, each followed by its entry of
        # the right-hand side.
        for i in range(last - first + 1):
            weighted = mul(own_h, z[i])
            for j in range(i + 1):
                mine[at + j] += to_integer(mul(weighted, z[j]))
            mine[at + i + 1] += to_integer(mul(own_g, z[i]))
            at += i + 2
        # Behind the sums: how many rows were complete.
        mine[at] += 1
    wait(barrier, n_threads)
    # Behind the barrier all sums are there.
    if thread == 0:
        for other in range(1, n_threads):
            for entry in range(sums.shape[1]):
                mine[entry] += sums[other, entry]


def linear_sums(
    leaf: Array, g: Array, h: Array, X: Array, features: PathFeatures, scales: Scales
) -> np.ndarray:
    begin = features.begin_of_sums()
    most = int(np.diff(features.begin).max(initial=0))
    n_threads = min(threads_for(WORK_OF_A_ROW * leaf.size), max(1, MOST_ENTRIES // (begin[-1] + 1)))
    sums = np.zeros((n_threads, int(begin[-1])), np.int64)
    scratch = np.empty((n_threads, most + 8))
    plain = float(scales.g), float(scales.h)
    run(
        _sum_worker, n_threads,
        leaf, g, h, table_of(X), tuple(features), plain, begin, scratch, sums,
    )  # fmt: skip
    return sums[0]
