"""The GPU, or the reason why these tests are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gpuens.devices.placement import gpu_problem, simulated


@pytest.fixture(scope="module")
def cupy(request: Any) -> Iterator[Any]:
    """CuPy, on a machine with a GPU that can be used, or its stand-in with ``--ptx``."""
    if simulated():
        pytest.skip("needs a real GPU: NUMBA_ENABLE_CUDASIM=1 is set")
    if request.config.getoption("--ptx"):
        from tests.ptx import host

        with host.installed_for(request.config) as installed:
            yield installed.cupy
        return
    if (problem := gpu_problem()) is not None:
        pytest.skip(f"needs a GPU: {problem}")
    yield pytest.importorskip("cupy")


@pytest.fixture(scope="session")
def host() -> Any:
    """A NumPy copy of an array of either place."""
    return lambda array: array.get() if hasattr(array, "get") else np.asarray(array)
