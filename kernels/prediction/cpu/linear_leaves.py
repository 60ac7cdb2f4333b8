"""Linear models in leaves (contract: ``kernels.prediction.linear_leaves``)."""

from __future__ import annotations

import math

import numpy as np

from ...runtime.arrays import Array
from ...runtime.compilation import inner, kernel_without_allocation
from ...runtime.cpu.table import TableMemory, cell, table_of
from ...runtime.cpu.team import run, threads_for, wait
from ...scalars.primitives import mul
from ..linear_leaves import LinearLeaves

f64 = np.float64
WORK_OF_A_ROW = 16


@inner
def _linear_value(begin, feature, coefficient, intercept, node, table, row):
    total = intercept[node]
    for c in range(begin[node], begin[node + 1]):
        total += mul(coefficient[c], f64(cell(table, row, feature[c])))
    return total


@kernel_without_allocation
def _add_worker(thread, n_threads, barrier, leaves, cells, leaf, raw):
    table = TableMemory(*cells)
    offset, output, begin, feature, coefficient, intercept, value = leaves
    n = leaf.shape[0]
    for row in range(n * thread // n_threads, n * (thread + 1) // n_threads):
        for tree in range(output.size):
            node = offset[tree] + leaf[row, tree]
            own = _linear_value(begin, feature, coefficient, intercept, node, table, row)
            # A value that is not finite, as of a missing feature, falls back on the leaf's
            # constant.
            raw[output[tree], row] += own if abs(own) < math.inf else value[node]


@kernel_without_allocation
def _largest_worker(thread, n_threads, barrier, leaves, cells, leaf, largest):
    table = TableMemory(*cells)
    _, _, begin, feature, coefficient, intercept, _ = leaves
    n, mine = leaf.size, largest[thread]
    for row in range(n * thread // n_threads, n * (thread + 1) // n_threads):
        node = leaf[row]
        if node >= 0 and begin[node] < begin[node + 1]:
            own = _linear_value(begin, feature, coefficient, intercept, node, table, row)
            if mine[node] < abs(own) < math.inf:
                mine[node] = abs(own)
    # Every thread has a line of its own; behind the barrier one of them joins all. A maximum does
    # not depend on the order.
    wait(barrier, n_threads)
    if thread == 0:
        for other in range(1, n_threads):
            for node in range(mine.size):
                mine[node] = max(mine[node], largest[other, node])


def add_linear_values(leaves: LinearLeaves, X: Array, leaf: Array, raw: Array) -> None:
    n_threads = threads_for(WORK_OF_A_ROW * leaf.size)
    run(_add_worker, n_threads, tuple(leaves), table_of(X), leaf, raw)


def largest_linear_values(leaves: LinearLeaves, X: Array, leaf: Array) -> np.ndarray:
    n_threads = threads_for(WORK_OF_A_ROW * leaf.size)
    largest = np.zeros((n_threads, leaves.value.size))
    run(_largest_worker, n_threads, tuple(leaves), table_of(X), leaf, largest)
    return largest[0]
