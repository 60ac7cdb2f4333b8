"""Samples of the rows without replacement (contract: ``kernels.statistics.row_draws``)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...runtime.compilation import inner, kernel_without_allocation
from ...scalars.rng import draw
from ..reference.row_draws import draw_by_chances, line_of

__all__ = ["draw_below", "draw_by_chances"]

u64 = np.uint64
NEVER = u64(2**32)
"""The draw of a row of weight zero."""


@inner
def _bits(weight, row, key):
    if weight.size > 0 and weight[row] == 0.0:
        return NEVER
    return draw(key, u64(row))


@kernel_without_allocation
def _draw_below(weight, limit, key, rows):
    """Fill in the rows and return their number; ``rows`` has a place more than there are."""
    n, m, least = rows.size - 1, 0, NEVER
    for row in range(n):
        bits = _bits(weight, row, key)
        least = min(least, bits)
        # Every row is written to the end of the list: no branch is guessed wrongly.
        rows[m] = row
        m += bits < limit
    if m == 0:
        for row in range(n):
            rows[m] = row
            m += _bits(weight, row, key) == least
    return m


def draw_below(
    weight: np.ndarray, n_rows: Sequence[int], limits: Sequence[int], keys: Sequence[int]
) -> tuple[np.ndarray, ...]:
    samples = []
    for k, (n, limit, key) in enumerate(zip(n_rows, limits, keys, strict=True)):
        rows = np.empty(n + 1, np.int32)
        own = line_of(weight, k, n)
        samples.append(rows[: _draw_below(own, u64(limit), u64(key), rows)])
    return tuple(samples)
