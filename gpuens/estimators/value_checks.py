"""What kind of number a parameter is."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np


def is_bool(value: Any) -> bool:
    """Whether a value is True or False, of Python or NumPy."""
    return isinstance(value, (bool, np.bool_))


def is_count(value: Any, least: int = 1) -> bool:
    """Whether a value is a whole number, not below ``least``."""
    return isinstance(value, Integral) and not is_bool(value) and int(value) >= least


def is_number(value: Any) -> bool:
    """Whether a value is a real number, not True or False."""
    return isinstance(value, Real) and not is_bool(value)
