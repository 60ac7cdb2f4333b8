"""Errors by what they say, and values that cause them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest


def raises(error: type[Exception] | tuple[type[Exception], ...], *parts: str) -> Any:
    """An error whose message has all the parts, in order."""
    return pytest.raises(error, match="(?s)" + ".*".join(map(re.escape, parts)))


def changed(values: np.ndarray, at: Any, value: Any) -> np.ndarray:
    """A copy with one other value."""
    values = values.astype(np.result_type(values, type(value)))
    values[at] = value
    return values
