"""What the threads of one block do together, in shared memory."""

from __future__ import annotations

import numpy as np

from .target import cuda, device_function

NOWHERE = np.int32(2**31 - 1)
"""The number of a candidate that does not exist: it loses every tie."""


@device_function
def inclusive_scan(values, t):
    """Replace ``values[t]`` by ``values[0] + … + values[t]`` (Hillis and Steele 1986).

    ``values`` has one integer a thread. Every thread of the block must call this; it may read
    any entry afterwards.

        a     b     c     d
        a     ab    bc    cd        step 1
        a     ab    abc   abcd      step 2
    """
    step = 1
    cuda.syncthreads()
    while step < values.shape[0]:
        mine = values[t]
        if t >= step:
            mine += values[t - step]
        cuda.syncthreads()
        values[t] = mine
        cuda.syncthreads()
        step *= 2


@device_function
def best_to_front(scores, numbers, t):
    """Bring the highest score and its number to entry 0; the lower number wins ties.

    Both arrays have one entry a thread, a power of two of them. Every thread of the block
    must call this; it may read entry 0 afterwards.
    """
    half = scores.shape[0] // 2
    cuda.syncthreads()
    while half > 0:
        if t < half:
            other = scores[t + half]
            ties = other == scores[t] and numbers[t + half] < numbers[t]
            if other > scores[t] or ties:
                scores[t] = other
                numbers[t] = numbers[t + half]
        cuda.syncthreads()
        half //= 2
