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
    """A GPU of compute capability 8.0 with four multiprocessors."""
    _needs_numba_cuda()
    from tests.ptx import host
    from tests.support.ptx_option import Gpu

    with host.installed([Gpu((8, 0))]) as installed:
        yield installed


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240229)
