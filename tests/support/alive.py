"""Arrays that are watched: how many of them are still alive."""

from __future__ import annotations

import weakref
from typing import Any


class Alive:
    """Counts arrays that are still alive, also as a callback of an estimator."""

    def __init__(self) -> None:
        self.references: list[Any] = []
        self.found: list[int] = []

    def watch(self, array: Any) -> None:
        while array is not None:  # views as well as what they look at
            self.references.append(weakref.ref(array))
            array = array.base

    def count(self) -> None:
        self.found.append(sum(reference() is not None for reference in self.references))

    def after_iteration(self, state: Any) -> None:
        self.count()
