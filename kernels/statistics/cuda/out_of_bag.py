"""Out-of-bag sums (contract: ``kernels.statistics.out_of_bag``)."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.loops import rolled
from ...runtime.cuda.target import (
    block_size,
    blocks_for,
    cuda,
    device_function,
    empty,
    kernel,
    launch,
    zeros,
)
from ...runtime.dtypes import SUM_CHUNK
from ...scalars.gain import square

i64, f64 = np.int64, np.float64
BLOCK = block_size(256)
HALF = SUM_CHUNK // 2


@device_function
def row_error(sums, i, n, truth, begin):
    """Return the error of the mean of n predictions of row i, averaged over the outputs."""
    n_outputs = truth.shape[1]
    total = 0.0
    for o in rolled(range(n_outputs)):
        if begin.shape[0] > 0:
            best = begin[o]
            largest = sums[i, best] / n
            for k in rolled(range(best + 1, begin[o + 1])):
                share = sums[i, k] / n
                if share > largest:
                    largest = share
                    best = k
            if f64(best - begin[o]) != truth[i, o]:
                total += 1.0
        else:
            total += square(sums[i, o] / n - truth[i, o])
    return total / f64(n_outputs)


@device_function
def halve(errors, sums, t):
    """Add up the errors of a chunk, upper halves onto lower halves. The result is in the first
    entry of ``sums``, which is half as long."""
    cuda.syncthreads()
    for k in range(t, HALF, BLOCK):
        # The first step writes elsewhere: the errors of single rows are needed again for the next
        # tree.
        sums[k] = errors[k] + errors[k + HALF]
    half = HALF >> 1
    while half > 0:
        cuda.syncthreads()
        for k in range(t, half, BLOCK):
            sums[k] += sums[k + half]
        half >>= 1


@kernel
def add_trees(leaf, value, truth, begin, sums, n_models, of_chunks, n_new):
    """A chunk of ``SUM_CHUNK`` rows a block at a time, to which all trees are added."""
    errors = cuda.shared.array(SUM_CHUNK, np.float64)
    halved = cuda.shared.array(HALF, np.float64)
    t = cuda.threadIdx.x
    n = i64(leaf.shape[1])
    measures = truth.shape[0] > 0
    chunk = i64(cuda.blockIdx.x)
    while chunk * SUM_CHUNK < n:
        first = chunk * SUM_CHUNK
        for k in range(t, SUM_CHUNK, BLOCK):
            # A row always belongs to the same thread, so that its sums need neither atomics nor
            # barriers.
            i = first + k
            errors[k] = 0.0
            if measures and i < n and n_models[i] > 0:
                errors[k] = row_error(sums, i, f64(n_models[i]), truth, begin)
        for tree in range(leaf.shape[0]):
            for k in range(t, min(i64(SUM_CHUNK), n - first), BLOCK):
                i = first + k
                at = leaf[tree, i]
                if at >= 0:
                    for column in rolled(range(sums.shape[1])):
                        sums[i, column] += value[at, column]
                    if n_models[i] == 0:
                        # A count: the order does not matter.
                        cuda.atomic.add(n_new, tree, 1)
                    n_models[i] += 1
                    if measures:
                        errors[k] = row_error(sums, i, f64(n_models[i]), truth, begin)
            if measures:
                halve(errors, halved, t)
                if t == 0:
                    of_chunks[tree, chunk] = halved[0]
                # The sum has been written before the next tree changes what it is made of.
                cuda.syncthreads()
        chunk += cuda.gridDim.x


@kernel
def add_chunks(of_chunks, errors):
    """Add up the chunks of a tree, a block at a time, upper halves onto lower halves."""
    t = cuda.threadIdx.x
    tree = i64(cuda.blockIdx.x)
    while tree < of_chunks.shape[0]:
        half = i64(of_chunks.shape[1] >> 1)
        while half > 0:
            # The columns are a power of two, filled up with zeros: the same tree as on the CPU.
            k = i64(t)
            while k < half:
                of_chunks[tree, k] += of_chunks[tree, k + half]
                k += BLOCK
            cuda.syncthreads()
            half >>= 1
        if t == 0:
            errors[tree] = of_chunks[tree, 0]
        tree += cuda.gridDim.x


def add_out_of_bag(
    leaf: Array, value: Array, truth: Array, begin: Array, sums: Array, n_models: Array
) -> tuple[Array, Array]:
    n_trees, n = leaf.shape
    n_chunks = -(-n // SUM_CHUNK)
    of_chunks = zeros((n_trees, 1 << (n_chunks - 1).bit_length()), np.float64)
    n_new, errors = zeros(n_trees, np.int64), empty(n_trees, np.float64)
    launch(
        add_trees, blocks_for(n_chunks, 8), BLOCK,
        leaf, value, truth, begin, sums, n_models, of_chunks, n_new,
    )  # fmt: skip
    launch(add_chunks, blocks_for(n_trees), BLOCK, of_chunks, errors)
    return errors, n_new
