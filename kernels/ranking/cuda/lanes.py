"""Sums and maxima of the lanes of a group of threads."""

from __future__ import annotations

import numpy as np

from ...runtime.cuda.target import block_size, cuda, device_function
from ..queries import LANES

u32 = np.uint32
BLOCK = block_size(256)
GROUPS = BLOCK // LANES
"""Groups of ``LANES`` threads in a block; each works on a query or a document of its own."""


@device_function
def sum_of_lanes(shared, own):
    """Add up what the threads of each group have, upper half onto lower half, and return the sum
    to all of them. All threads of the block take part; ``shared`` has an entry for each."""
    t = u32(cuda.threadIdx.x)
    lane = u32(t % u32(LANES))
    shared[t] = own
    half = u32(LANES // 2)
    while half > u32(0):
        cuda.syncthreads()  # the values, or the sums of the step before, are there
        if lane < half:
            shared[t] += shared[u32(t + half)]
        half = u32(half >> u32(1))
    cuda.syncthreads()
    # Behind the barrier the first lane has the sum of its group.
    total = shared[u32(t - lane)]
    cuda.syncthreads()
    # Behind the barrier all have read it, and ``shared`` may be written again.
    return total


@device_function
def max_of_lanes(shared, own):
    """Return the largest of what the threads of each group have to all of them."""
    t = u32(cuda.threadIdx.x)
    lane = u32(t % u32(LANES))
    shared[t] = own
    half = u32(LANES // 2)
    while half > u32(0):
        cuda.syncthreads()
        if lane < half:
            shared[t] = max(shared[t], shared[u32(t + half)])
        half = u32(half >> u32(1))
    cuda.syncthreads()
    # As above: one barrier before the result is read, one before it is overwritten.
    largest = shared[u32(t - lane)]
    cuda.syncthreads()
    return largest
