"""Reference twin of ``kernels.runtime.each``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..arrays import Array


def each(function: Callable[[Any], Any], items: Sequence[Any], array: Array) -> list[Any]:
    return [function(item) for item in items]
