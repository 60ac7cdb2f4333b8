"""A GPU that is none: launches run as compiled PTX."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numba import config


def _needs_numba_cuda() -> None:
    if config.ENABLE_CUDASIM:
        pytest.skip("needs a process without the simulator")
    pytest.importorskip("numba_cuda")


@pytest.fixture
def host() -> Iterator[object]:
    """Two GPUs of compute capabilities 8.0, which is watched, and 12.0."""
    _needs_numba_cuda()
    from tests.ptx import host
    from tests.support.ptx_option import Gpu

    gpus = [Gpu((8, 0)), Gpu((12, 0))]
    with host.installed(gpus, watched=gpus[:1]) as installed:
        yield installed


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240229)
