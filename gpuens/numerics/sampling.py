"""Which rows take part in a tree."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..devices.placement import Device
from ..kernels.scalars.primitives import vectorise
from ..kernels.scalars.rng import PURPOSE_ROWS, draw, subkey


def draw_rows(n: int, fraction: float, weight: Any, seed: int, index: int, device: Device) -> Any:
    """The rows of a random sample without replacement.

    A row belongs to the sample if its hash, which depends on nothing but (seed, index, row),
    is small: the same rows on every device and however the rows are distributed. The sample's
    size varies around ``fraction * n``; it is never empty.

    Parameters
    ----------
    n : int
    fraction : float
        Chance of a row, in (0, 1].
    weight : float64, shape (n,) or (0,)
        Rows with weight 0 never belong.
    seed, index : int
        Random key, and the number of the draw.

    Returns
    -------
    int32, shape (n_sampled,)
        Ascending; empty (meaning all rows) if nothing is left out.
    """
    xp = device.xp
    keep = None if weight.size == 0 else weight > 0
    if fraction < 1.0:
        key = int(vectorise(subkey)(np.uint64(seed), PURPOSE_ROWS, np.uint64(index)))
        rows = xp.arange(n, dtype=xp.uint64)
        bits = vectorise(draw)(xp.full(n, key, dtype=xp.uint64), rows)
        if keep is not None:
            bits[~keep] = np.uint64(2**32)
        smallest = bits == bits.min()
        keep = (bits < np.uint64(fraction * 2**32)) | smallest
    if keep is None or bool(keep.all()):
        return xp.empty(0, dtype=xp.int32)
    return xp.flatnonzero(keep).astype(xp.int32)
