"""Linear models in leaves (contract: ``kernels.prediction.linear_leaves``)."""

from __future__ import annotations

import math

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.target import (
    block_size,
    blocks_for_rows,
    cuda,
    device_function,
    download,
    empty,
    kernel,
    launch,
    zeros,
)
from ...scalars.primitives import mul
from ..linear_leaves import LinearLeaves
from .rows import cells_of

u32, u64, f64 = np.uint32, np.uint64, np.float64
BLOCK = block_size(128)


@device_function
def linear_value(begin, feature, coefficient, intercept, node, values, at, column):
    """Return the value of a row's linear function; ``at`` is where the row begins."""
    total = intercept[node]
    for c in range(begin[node], begin[node + 1]):
        x = f64(values[at + u64(feature[c]) * u64(column)])
        total += mul(coefficient[c], x)
    return total


@kernel
def add_functions(
    offset, output, begin, feature, coefficient, intercept, value, values, row, column, leaf, raw
):
    """One row a thread, tree after tree."""
    n = u32(leaf.shape[0])
    i = u32(cuda.grid(1))
    while i < n:
        at = u64(i) * u64(row)
        for t in range(output.shape[0]):
            node = offset[t] + leaf[i, t]
            own = linear_value(begin, feature, coefficient, intercept, node, values, at, column)
            raw[output[t], i] += own if abs(own) < math.inf else value[node]
        i = u32(i + cuda.gridsize(1))


@kernel
def write_sizes(begin, feature, coefficient, intercept, values, row, column, leaf, sizes):
    """One row a thread: the size of its linear function, 0 where it has none."""
    n, n_nodes = u32(leaf.shape[0]), u32(intercept.shape[0])
    i = u32(cuda.grid(1))
    while i < n:
        node = u32(leaf[i])
        size = 0.0
        if node < n_nodes and begin[node] < begin[u32(node + u32(1))]:
            at = u64(i) * u64(row)
            own = linear_value(begin, feature, coefficient, intercept, node, values, at, column)
            if abs(own) < math.inf:
                size = abs(own)
        sizes[i] = size
        i = u32(i + cuda.gridsize(1))


@kernel
def find_largest(leaf, bits, largest):
    """One row a thread. The bits of numbers that are not negative ascend with them."""
    n, n_nodes = u32(leaf.shape[0]), u32(largest.shape[0])
    i = u32(cuda.grid(1))
    while i < n:
        node = u32(leaf[i])
        if node < n_nodes:
            # A maximum does not depend on the order in which threads come.
            cuda.atomic.max(largest, node, bits[i])
        i = u32(i + cuda.gridsize(1))


def add_linear_values(leaves: LinearLeaves, X: Array, leaf: Array, raw: Array) -> None:
    blocks = blocks_for_rows(leaf.shape[0], BLOCK)
    launch(add_functions, blocks, BLOCK, *leaves, *cells_of(X), leaf, raw)


def largest_linear_values(leaves: LinearLeaves, X: Array, leaf: Array) -> np.ndarray:
    sizes, largest = empty(leaf.shape[0], np.float64), zeros(leaves.value.shape[0], np.int64)
    blocks = blocks_for_rows(leaf.shape[0], BLOCK)
    launch(
        write_sizes, blocks, BLOCK,
        leaves.begin, leaves.feature, leaves.coefficient, leaves.intercept, *cells_of(X), leaf,
        sizes,
    )  # fmt: skip
    # By their bits: the hardware has an atomic maximum of integers, not of float64.
    launch(find_largest, blocks, BLOCK, leaf, sizes.view(np.int64), largest)
    return download(largest).view(np.float64)
