"""Running sums (contract: ``kernels.survival.running_sums``)."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.target import block_size, blocks_for_rows, cuda, empty, kernel, launch
from ..running_sums import BLOCK

u32 = np.uint32
THREADS = block_size(BLOCK)


@kernel
def sum_blocks(values, sums, totals):
    """Add up a block of values a block of threads: all load and store, the first one adds."""
    shared = cuda.shared.array(BLOCK, np.float64)
    n = u32(values.shape[0])
    t = u32(cuda.threadIdx.x)
    block = u32(cuda.blockIdx.x)
    n_blocks = u32(u32(n + u32(BLOCK - 1)) // u32(BLOCK))
    while block < n_blocks:
        first = u32(block * u32(BLOCK))
        # Load a block: neighbours read neighbours.
        k = t
        while k < u32(BLOCK):
            if u32(first + k) < n:
                shared[k] = values[u32(first + k)]
            k = u32(k + cuda.blockDim.x)
        cuda.syncthreads()
        # Behind the barrier the values are there. One thread adds: the contract's order is value by
        # value.
        end = min(u32(n - first), u32(BLOCK))
        if t == u32(0):
            total = shared[0]
            k = u32(1)
            while k < end:
                total += shared[k]
                shared[k] = total
                k = u32(k + u32(1))
            totals[block] = total
        cuda.syncthreads()
        # Store: behind the barrier the sums are there.
        k = t
        while k < end:
            sums[u32(first + k)] = shared[k]
            k = u32(k + cuda.blockDim.x)
        cuda.syncthreads()
        # Behind the barrier all are stored, and the block's memory may be written again.
        block = u32(block + cuda.gridDim.x)


@kernel
def add_totals(sums, before):
    """Add what all blocks before hold; one value a thread, from the second block on."""
    n = u32(sums.shape[0])
    i = u32(u32(cuda.grid(1)) + u32(BLOCK))
    while i < n:
        sums[i] += before[u32(u32(i // u32(BLOCK)) - u32(1))]
        i = u32(i + cuda.gridsize(1))


def running_sums(values: Array) -> Array:
    n = int(values.shape[0])
    n_blocks = -(-n // BLOCK)
    sums, totals = empty(n, np.float64), empty(n_blocks, np.float64)
    launch(sum_blocks, blocks_for_rows(n, THREADS), THREADS, values, sums, totals)
    if n_blocks > 1:
        # The totals of blocks are summed up in the same way, a level higher.
        launch(add_totals, blocks_for_rows(n, THREADS), THREADS, sums, running_sums(totals))
    return sums
