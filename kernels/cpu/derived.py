"""Layouts that are derived from an array and kept as long as the array lives."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

_kept: dict[tuple[int, Hashable], Any] = {}


def derived(array: np.ndarray, purpose: Hashable, build: Callable[[], Any]) -> Any:
    """The result of ``build()``, from the first call with this array and purpose."""
    key = (id(array), purpose)
    if key not in _kept:
        _kept[key] = build()
        weakref.finalize(array, _kept.pop, key, None)
    return _kept[key]
