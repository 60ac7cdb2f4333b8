"""The GPUs that the options ``--ptx`` and ``--ptx-arch`` ask for."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

SHARED_KB = {(7, 5): 64, (8, 0): 163, (8, 6): 99, (8, 9): 99, (9, 0): 227, (12, 0): 99}
"""Shared memory of a block at most, by compute capability (CUDA C++ Programming Guide)."""


@dataclass(frozen=True)
class Gpu:
    """One of the GPUs that there are to be."""

    capability: tuple[int, int]
    multiprocessors: int = 4
    shared_memory: int | None = None
    """Bytes of a multiprocessor; by default what a block can have."""

    @property
    def architecture(self) -> tuple[int, int, str]:
        """What Numba compiles for: from 9.0 on with what the GPU has beyond its generation."""
        return (*self.capability, "a" if self.capability >= (9, 0) else "")

    @property
    def name(self) -> str:
        return f"sm_{self.capability[0]}{self.capability[1]}"

    @property
    def most_shared(self) -> int:
        """Bytes of shared memory that a block can have where its kernel is allowed them."""
        return SHARED_KB[self.capability] * 1024

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
