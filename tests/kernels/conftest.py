"""The implementations that every operation's parity test runs on, and data for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from gpuens.kernels.runtime.dispatch import Implementation
from tests.kernels.implementations import SIMULATED, Target
from tests.support.ptx_option import gpus_asked_for

ON_CPU = ("reference", "strict", "cpu", "cpu-threads")
SLOW = ("strict",)
"""Whole models run on a strict library in the quick tests (``tests/devices``)."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "target" in metafunc.fixturenames:
        on_machine = [f"cuda-{gpu.name}" for gpu in gpus_asked_for(metafunc.config)]
        # The oracle is the reference on NumPy, which equals itself.
        others = ON_CPU[1:] if "oracle" in metafunc.fixturenames else ON_CPU
        others = getattr(metafunc.module, "ON_CPU", others)
        names = [*others, *(on_machine or ["cuda"])]
        marked = [
            pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in names
        ]
        metafunc.parametrize("target", marked, indirect=True)


@pytest.fixture(scope="module")
def machine(request: Any) -> Iterator[Any]:
    """The PTX machine in the place of CuPy and the driver."""
    from tests.ptx import host

    with host.installed_for(request.config) as installed:
        yield installed


def _cuda(request: Any) -> Iterator[Target]:
    if "-" in request.param:
        host = request.getfixturevalue("machine")
        names = [gpu.name for gpu in host.gpus]
        with host.cupy.cuda.Device(names.index(request.param.removeprefix("cuda-"))):
            yield Target(Implementation.CUDA, import_module("array_api_compat.cupy"))
        return
    if SIMULATED:
        yield Target(Implementation.CUDA, import_module("array_api_compat.numpy"))
        return
    needed = "CUDA needs --ptx, NUMBA_ENABLE_CUDASIM=1 or a GPU"
    cupy = pytest.importorskip("cupy", reason=needed)
    if not cupy.cuda.is_available():
        pytest.skip(needed)
    yield Target(Implementation.CUDA, import_module("array_api_compat.cupy"))


@pytest.fixture
def target(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Target]:
    """Every implementation in turn."""
    if request.param.startswith("cuda"):
        yield from _cuda(request)
        return
    library = "array_api_strict" if request.param == "strict" else "array_api_compat.numpy"
    cpu = request.param.startswith("cpu")
    result = Target(Implementation.CPU if cpu else Implementation.REFERENCE, import_module(library))
    if request.param != "cpu-threads":
        yield result
        return
    team = import_module("gpuens.kernels.runtime.cpu.team")
    monkeypatch.setattr(team, "MIN_WORK_PER_THREAD", 1)
    with team.using_threads(3):
        yield result


@pytest.fixture(scope="session")
def oracle() -> Target:
    """The reference on NumPy: what the others have to equal."""
    return Target(Implementation.REFERENCE, import_module("array_api_compat.numpy"))


@pytest.fixture(scope="session")
def same() -> Callable[[Any, Any], None]:
    """Equal to the last bit: dtype, shape, values, signs of zeros; NaN equals NaN."""

    def check(actual: Any, expected: Any) -> None:
        actual, expected = np.asarray(actual), np.asarray(expected)
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual, expected)
        if actual.dtype.kind == "f":
            zero = actual == 0
            np.testing.assert_array_equal(np.signbit(actual[zero]), np.signbit(expected[zero]))

    return check


@pytest.fixture(scope="session")
def pack() -> Callable[[Any, Any, Any], np.ndarray]:
    """Records from g, h and rows."""

    def records(g: Any, h: Any, row: Any) -> np.ndarray:
        g = np.asarray(g).astype(np.int16).view(np.uint16).astype(np.uint64)
        h, row = np.asarray(h).astype(np.uint64), np.asarray(row).astype(np.uint64)
        return (g << np.uint64(48)) | (h << np.uint64(32)) | row

    return records


@pytest.fixture(scope="session")
def random_tree() -> Callable[..., dict[str, np.ndarray]]:
    """The arrays of a tree of random shape, as prediction and training describe it."""

    def tree(rng: np.random.Generator, n_leaves: int, n_features: int) -> dict[str, np.ndarray]:
        n_nodes = 2 * n_leaves - 1
        feature = np.full(n_nodes, -1, np.int32)
        left, right = (np.full(n_nodes, -1, np.int32) for _ in range(2))
        leaves = [0]
        for first in range(1, n_nodes, 2):
            node = leaves.pop(rng.integers(len(leaves)))
            feature[node] = rng.integers(n_features)
            left[node], right[node] = rng.permutation([first, first + 1])
            leaves += [first, first + 1]
        return {
            "feature": feature,
            "bin_": rng.integers(0, 255, n_nodes).astype(np.int32),
            "missing_left": rng.integers(0, 2, n_nodes).astype(np.uint8),
            "left": left,
            "right": right,
        }

    return tree
