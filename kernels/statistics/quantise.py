"""Real statistics to integer records."""

from __future__ import annotations

from typing import Any

from ..runtime.dispatch import implementation
from ..runtime.dtypes import Scales, TreeRecords


def quantise(g: Any, h: Any, rows: Any, key: int, scales: Scales) -> TreeRecords:
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
        See ``scaling.scales_for``.

    Returns
    -------
    TreeRecords
        In the order of the rows.
    """
    return implementation(__name__, g).quantise(g, h, rows, key, scales)
