"""Reference twin of ``kernels.fetch``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import to_host


def fetch(array: Any) -> Callable[[], np.ndarray]:
    """The values are there at once."""
    values = np.array(to_host(array))
    return lambda: values
