"""Errors by what they say."""

from __future__ import annotations

import re
from typing import Any

import pytest


def raises(error: type[Exception] | tuple[type[Exception], ...], *parts: str) -> Any:
    """An error whose message has all the parts, in order."""
    return pytest.raises(error, match="(?s)" + ".*".join(map(re.escape, parts)))
