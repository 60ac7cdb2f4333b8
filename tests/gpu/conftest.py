"""The GPU, or the reason why these tests are skipped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuens.devices.placement import gpu_problem, simulated


@pytest.fixture(scope="session")
def cupy() -> Any:
    """CuPy, on a machine with a GPU that can be used."""
    if simulated():
        pytest.skip("needs a real GPU: NUMBA_ENABLE_CUDASIM=1 is set")
    if (problem := gpu_problem()) is not None:
        pytest.skip(f"needs a GPU: {problem}")
    return pytest.importorskip("cupy")


@pytest.fixture(scope="session")
def host() -> Any:
    """A NumPy copy of an array of either place."""
    return lambda array: array.get() if hasattr(array, "get") else np.asarray(array)
