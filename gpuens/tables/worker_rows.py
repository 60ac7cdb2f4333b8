"""Which rows of a table in parts each worker has.

A worker has a range of whole chunks of ``SUM_CHUNK`` rows. Ranges end where parts end, or up to a
chunk beside that, where this leaves the workers about the same number of rows; otherwise a part is
divided.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..kernels.runtime.dtypes import SUM_CHUNK

UNEVENNESS = 0.1
"""Share of a worker's rows by which its range may be longer or shorter so that no part is
divided."""


def ranges_of(lengths: Sequence[int], n_workers: int) -> list[tuple[int, int]]:
    """Return the first row and the row after the last of each worker, none of them empty, for parts
    of these lengths: ``n_workers`` at most, fewer where the rows have fewer chunks."""
    n = int(sum(lengths))
    n_ranges = max(1, min(n_workers, -(-n // SUM_CHUNK)))
    ends = np.cumsum(lengths)
    at_ends = (ends + SUM_CHUNK // 2) // SUM_CHUNK * SUM_CHUNK
    begins = [0]
    for k in range(1, n_ranges):
        wanted = n * k // n_ranges
        nearest = int(at_ends[np.argmin(abs(at_ends - wanted))])
        if abs(nearest - wanted) > UNEVENNESS * n / n_ranges:
            nearest = wanted // SUM_CHUNK * SUM_CHUNK
        if begins[-1] < nearest < n:
            begins.append(nearest)
    return list(zip(begins, [*begins[1:], n], strict=True))


def pieces_of(lengths: Sequence[int], first: int, last: int) -> list[tuple[int, int, int]]:
    """Return the pieces of the parts with rows ``first`` … ``last - 1``, none empty: the part, its
    first row and the one behind its last."""
    found = []
    begin = 0
    for part, length in enumerate(lengths):
        low, high = max(first, begin), min(last, begin + length)
        if low < high:
            found.append((part, low - begin, high - begin))
        begin += length
    return found
