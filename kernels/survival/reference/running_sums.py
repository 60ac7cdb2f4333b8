"""Reference twin of ``kernels.survival.running_sums``."""

from __future__ import annotations

from array_api_compat import array_namespace, device

from ...runtime.arrays import Array
from ..running_sums import BLOCK


def running_sums(values: Array) -> Array:
    """A block a line; the cumulative sums of NumPy add one value after the other."""
    xp, n = array_namespace(values), values.shape[0]
    if n <= BLOCK:
        return xp.cumulative_sum(values)
    zeros = xp.zeros(-n % BLOCK, dtype=values.dtype, device=device(values))
    lines = xp.cumulative_sum(xp.reshape(xp.concat([values, zeros]), (-1, BLOCK)), axis=1)
    before = running_sums(lines[:-1, -1])
    later = lines[1:, :] + before[:, None]
    return xp.reshape(xp.concat([lines[:1, :], later]), (-1,))[:n]
