"""Small results for the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .dispatch import implementation


def fetch(array: Any) -> Callable[[], np.ndarray]:
    """Send for the values of an array.

    Returns
    -------
    callable
        Returns them as a NumPy array, as they were when they were sent for. On CUDA they are copied
        once the work that was launched before is done; only who calls this waits for it.
    """
    return implementation(__name__, array).fetch(array)
