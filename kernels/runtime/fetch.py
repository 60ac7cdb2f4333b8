"""Small results for the host."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .arrays import Array
from .dispatch import implementation


def fetch(array: Array) -> Callable[[], np.ndarray]:
    """Start copying the values of an array to the host.

    Returns
    -------
    callable
        Returns the values as a NumPy array, as they were at this call. On CUDA they are copied
        once the work that was launched before is done; only the callable waits for that.
    """
    return implementation(__name__, array).fetch(array)
