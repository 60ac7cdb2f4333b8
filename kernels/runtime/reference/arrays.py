"""Every operation in the Array API standard: the oracle of the other implementations, and what
runs on the arrays of any other library.

Whole-array operations, written to be read: time and memory come second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device


def beside(array: Any, like: Any) -> Any:
    """A NumPy array in the library and on the device of ``like``."""
    return array_namespace(like).asarray(array, device=device(like))


def to_host(array: Any) -> np.ndarray:
    """A NumPy copy of an array of any library."""
    return np.array(np.from_dlpack(array))


def unpack(records: Any) -> tuple[Any, Any, Any]:
    """g, h and row of records, as int64."""
    xp = array_namespace(records)
    word = xp.astype(records, xp.int64)
    return word >> 48, (word >> 32) & 0xFFFF, word & 0xFFFFFFFF
