"""Real statistics to integer records."""

from __future__ import annotations

import math
from typing import Any

from .dispatch import implementation
from .dtypes import MAX_QUANTISED, MAX_ROWS, Scales, Totals


def quantise(g: Any, h: Any, rows: Any, key: int, scales: Scales) -> Any:
    """Round the statistics of the sampled rows to 16-bit integers, without bias.

    ``g * scales.g`` and ``h * scales.h`` are rounded stochastically: with
    ``bits = draw(key, row)``, g uses the low 16 bits and h the high 16 bits.

    Parameters
    ----------
    g, h : float32, shape (n,)
        h >= 0.
    rows : int32, shape (m,) or (0,)
        The rows of the sample, ascending; empty: all n.
    key : int
        Random key below 2**32.
    scales : Scales

    Returns
    -------
    uint64, shape (m,) or (n,)
        Records (see ``dtypes``) in the order of the rows.
    """
    return implementation("quantise", g).quantise(g, h, rows, key, scales)


def scales_for(totals: Totals, n: int) -> Scales:
    """The finest power-of-two scales for which the integer sum over any subset of n rows,
    rounding included, fits a signed 32-bit integer and each value 16 bits.

    ``s = min(32767 / max|g|, (2**31 - 1 - n) / sum|g|)``, rounded down to a power of two so
    that the way back to real numbers is exact.
    """

    def scale(largest: float, total: float) -> float:
        if largest == 0.0:
            return 1.0
        exact = min(MAX_QUANTISED / largest, (MAX_ROWS - n) / total, 2.0**1000)
        return 2.0 ** max(-1000, math.floor(math.log2(exact)))

    return Scales(scale(totals.max_g, totals.sum_g), scale(totals.max_h, totals.sum_h))
