"""The GPU, or the reason why these tests are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuens.devices.placement import gpu_problem, simulated


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--ptx"):
        for item in items:
            if item.get_closest_marker("hardware"):
                item.add_marker(pytest.mark.skip(reason="needs a real GPU, not compiled PTX"))


@pytest.fixture(scope="module")
def cupy(request: Any) -> Iterator[Any]:
    """CuPy, on a machine with a GPU that can be used, or its stand-in with ``--ptx``: models train
    on its first GPU, which is of the last architecture asked for."""
    if simulated():
        pytest.skip("needs a real GPU: NUMBA_ENABLE_CUDASIM=1 is set")
    if folder := request.config.getoption("--ptx-archive"):
        from tests.ptx import archive

        with archive.installed(Path(folder)) as found:
            yield found
        return
    if request.config.getoption("--ptx"):
        from tests.ptx import host

        with host.installed_for(request.config, whole_models=True) as installed:
            yield installed.cupy
            host.require_catalogued(installed.launches)
        return
    if (problem := gpu_problem()) is not None:
        pytest.skip(f"needs a GPU: {problem}")
    yield pytest.importorskip("cupy")


@pytest.fixture(scope="module")
def gpus(request: Any, cupy: Any) -> range:
    """The numbers of the GPUs that workers train on; of real ones the first will do."""
    on_machine = request.config.getoption("--ptx")
    return range(cupy.cuda.runtime.getDeviceCount() if on_machine else 1)


@pytest.fixture(scope="session")
def n_trees(request: Any) -> int:
    """The trees of an ensemble."""
    return 3 if request.config.getoption("--ptx") else 8


@pytest.fixture(scope="session")
def host() -> Any:
    """A NumPy copy of an array of either place."""
    return lambda array: array.get() if hasattr(array, "get") else np.asarray(array)
