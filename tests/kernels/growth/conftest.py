"""Batches of trees that were grown phase by phase."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from gpuens.kernels.runtime.dispatch import Implementation
from tests.kernels.growth.batches import BATCHES
from tests.kernels.growth.rounds import Batch, Grown, grown_on
from tests.kernels.implementations import Target

_grown: dict[tuple[str, str], Grown] = {}
"""By target and batch: each phase has tests of its own."""


@pytest.fixture(params=BATCHES)
def batch(request: Any) -> Batch:
    return BATCHES[request.param](np.random.default_rng(1))


@pytest.fixture
def grown(request: Any, target: Any, batch: Batch) -> Grown:
    params = request.node.callspec.params
    key = params["target"], params["batch"]
    if key not in _grown:
        if target.simulated:
            pytest.skip("the simulator is too slow for whole growths")
        _grown[key] = grown_on(target, batch)
    return _grown[key]


@pytest.fixture
def strict() -> Target:
    """The reference on arrays that have the standard's functions alone."""
    return Target(Implementation.REFERENCE, import_module("array_api_strict"))
