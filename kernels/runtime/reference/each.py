"""One item after the other (contract: ``kernels.runtime.each``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def each(function: Callable[[Any], Any], items: Sequence[Any], array: Any) -> list[Any]:
    return [function(item) for item in items]
