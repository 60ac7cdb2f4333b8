"""The block of the kernels that have a single one: its size, sums over its threads, and the
control of growth as compiled for the device.

A function of the control (``kernels.growth.control``) takes the ``Frontier`` that ``frontier_of``
returns; kernels read records from the ``Tables`` of ``tables_of``. In the simulator the former has
NumPy's arrays and the latter the simulator's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime.compilation import callable_from_python
from ...runtime.cuda.blocks import inclusive_scan
from ...runtime.cuda.target import block_size, cuda, device_function, is_simulated

i32, i64 = np.int32, np.int64

BLOCK = block_size(512)
GROUPS = BLOCK.bit_length() - 1
"""A block has 2**GROUPS threads."""


def control(function: Any) -> Any:
    """Return a function of the control as a kernel calls it."""
    return callable_from_python(function) if is_simulated() else function


@device_function
def share_of(n, t):
    """Return the begin and the end of a thread's share of n neighbouring entries, of which there
    are fewer than 2**31 as of those of all tables: so the counters of loops have 32 bits."""
    share = (i32(n) + i32(BLOCK - 1)) >> i32(GROUPS)
    begin = i32(min(i32(i32(t) * share), i32(n)))
    return begin, i32(min(i32(begin + share), i32(n)))


@device_function
def before(sums, own, t):
    """Return the sum of the threads' ``own`` over those before this one, and over all.

    Every thread of the block must call this, with ``sums`` an int64 array of an entry a thread.
    """
    sums[t] = own
    inclusive_scan(sums, t)
    found = sums[t] - own
    total = sums[BLOCK - 1]
    cuda.syncthreads()  # ``sums`` may be written again
    return found, total


@device_function
def before_in_group(sums, own, t, width):
    """Do the same among ``width`` neighbouring threads, a power of two of them."""
    first = t & ~(width - 1)
    sums[t] = own
    inclusive_scan(sums, t)
    base = sums[first - 1] if first > 0 else i64(0)
    found = sums[t] - own - base
    total = sums[first + width - 1] - base
    cuda.syncthreads()  # ``sums`` may be written again
    return found, total


@device_function
def width_for(n, most):
    """Return the logarithm of the largest power of two of threads that each of n pieces of work
    can have of ``2**most`` threads, at least 0."""
    width = most
    while width > 0 and (i64(n) << width) > (i64(1) << most):
        width -= 1
    return width
