"""The import of scikit-learn, without what nothing here uses.

scikit-learn's base class imports ``scipy.stats`` for a function that only its imputation calls, and
what that imports in turn takes as long as everything else. While modules of gpuens are the first to
import scikit-learn, an object in the place of ``scipy.stats`` says that it is there. Then the place
is free again: code that uses ``scipy.stats``, scikit-learn too, imports it as always.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

LATER = "scipy.stats"


class Placeholder(ModuleType):
    """Stands in the place of a module until something of that is needed."""

    def __getattr__(self, name: str) -> Any:
        self.leave()
        return getattr(import_module(self.__name__), name)

    def leave(self) -> None:
        """Free the place."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]


@contextmanager
def lean_sklearn() -> Iterator[None]:
    """Leave ``scipy.stats`` out of the import of scikit-learn, if that comes here."""
    if "sklearn" in sys.modules or LATER in sys.modules:
        yield
        return
    holder = sys.modules[LATER] = Placeholder(LATER)
    try:
        yield
    finally:
        holder.leave()
