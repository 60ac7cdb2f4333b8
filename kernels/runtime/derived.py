"""Layouts that are derived from arrays and kept as long as the arrays live."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

_kept: dict[tuple[tuple[int, ...], Hashable], Any] = {}


def derived(
    source: np.ndarray | tuple[np.ndarray, ...], purpose: Hashable, build: Callable[[], Any]
) -> Any:
    """The result of ``build()``, from the first call with this array, or these, and purpose."""
    arrays = source if isinstance(source, tuple) else (source,)
    key = (tuple(map(id, arrays)), purpose)
    if key not in _kept:
        _kept[key] = build()
        for array in arrays:
            weakref.finalize(array, _kept.pop, key, None)
    return _kept[key]
