"""Reference twin of ``kernels.statistics.ordered_sums``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from array_api_compat import array_namespace, device

from ...runtime.arrays import Array
from ...runtime.dtypes import SUM_CHUNK
from ...runtime.reference.arrays import to_host


def ordered_sums(values: Array, n_rows: Sequence[int]) -> Callable[[], np.ndarray]:
    xp, found = array_namespace(values), []
    for line, n in enumerate(n_rows):
        own = values[line, :n]
        size = max(SUM_CHUNK, 1 << (n - 1).bit_length())
        sums = own
        if n < size:
            zeros = xp.zeros(size - n, dtype=own.dtype, device=device(own))
            sums = xp.concat([own, zeros])
        while size > 1:
            size //= 2
            sums = sums[:size] + sums[size:]
        least = xp.zeros(1, dtype=own.dtype, device=device(own))
        found += [sums, xp.max(xp.concat([own, least]), keepdims=True)]
    sums = to_host(xp.reshape(xp.concat(found), (-1, 2)))
    return lambda: sums
