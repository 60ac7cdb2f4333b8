"""Helpers of the reference implementations.

The reference implements every operation in the Array API standard. It is the oracle of the other
implementations, and runs on the arrays of any other library: whole-array operations, written to be
read; time and memory come second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from ..arrays import Array


def beside(array: Array, like: Array) -> Array:
    """Return a NumPy array in the library and on the device of ``like``."""
    return array_namespace(like).asarray(array, device=device(like))


def to_host(array: Any) -> np.ndarray:
    """Return a NumPy copy of an array of any library."""
    own = getattr(array, "to_numpy", None)
    return own() if own is not None else np.array(np.from_dlpack(array))


def unpack(records: Array) -> tuple[Array, Array, Array]:
    """Return g, h and row of records, as int64."""
    xp = array_namespace(records)
    word = xp.astype(records, xp.int64)
    return word >> 48, (word >> 32) & 0xFFFF, word & 0xFFFFFFFF
