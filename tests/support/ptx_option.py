"""The GPUs that the options ``--ptx`` and ``--ptx-arch`` ask for."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest


@dataclass(frozen=True)
class Gpu:
    """One of the GPUs that there are to be."""

    capability: tuple[int, int]
    multiprocessors: int = 4

    @property
    def architecture(self) -> tuple[int, int, str]:
        """What Numba compiles for: from 9.0 on with what the GPU has beyond its generation."""
        return (*self.capability, "a" if self.capability >= (9, 0) else "")

    @property
    def name(self) -> str:
        return f"sm_{self.capability[0]}{self.capability[1]}"

    @property
    def device(self) -> Any:
        """As Numba sees it."""
        return SimpleNamespace(
            compute_capability=self.capability, MULTIPROCESSOR_COUNT=self.multiprocessors
        )


def gpus_asked_for(config: pytest.Config) -> list[Gpu]:
    """One for each architecture; none without ``--ptx``."""
    if not config.getoption("--ptx"):
        return []
    words = config.getoption("--ptx-arch").split(",")
    return [Gpu((int(major), int(minor))) for major, minor in (word.split(".") for word in words)]
