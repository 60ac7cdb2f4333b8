"""The CUDA kernels in Numba's simulator, which must be chosen before Numba is imported:

NUMBA_ENABLE_CUDASIM=1 python -m pytest --import-mode=importlib tests/cuda_sim
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import typeof, types

from gpuens.kernels import catalogue
from gpuens.kernels.runtime.cuda import target
from tests.support.cuda_modules import cuda_modules

HERE = Path(__file__).parent
NOT_SIMULATED = pytest.mark.skip(reason="needs a process of its own with NUMBA_ENABLE_CUDASIM=1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
        return
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(NOT_SIMULATED)


CATALOGUED: dict[Any, set[tuple[Any, ...]]] = {}
for entry in catalogue.entries():
    CATALOGUED.setdefault(entry.kernel, set()).add(entry.arguments)


def type_on_device(argument: Any) -> Any:
    """A forest's arrays are read-only in NumPy; their copies on a GPU are not."""
    kind = typeof(argument)
    return kind.copy(readonly=False) if isinstance(kind, types.Array) else kind


@pytest.fixture(autouse=True)
def launches_are_catalogued(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compiled to be checked has the argument types of the real launches."""

    def checked(kernel: Any, blocks: Any, threads: int, *args: Any, shared: int = 0) -> None:
        assert tuple(map(type_on_device, args)) in CATALOGUED[kernel]
        target.launch(kernel, blocks, threads, *args, shared=shared)

    for module in cuda_modules():
        if module is not target and hasattr(module, "launch"):
            monkeypatch.setattr(module, "launch", checked)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240229)
