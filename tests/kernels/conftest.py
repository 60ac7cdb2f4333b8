"""The implementations that every operation's parity test runs on, and data for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from numba import config

from gpuens.kernels.runtime.dispatch import Implementation, using
from gpuens.kernels.runtime.dtypes import NO_LEAF, ROW_ALIGNMENT, Codes, Scales, TreeRecords
from tests.support.ptx_option import gpus_asked_for

settings.register_profile(
    "kernels",
    max_examples=60,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("kernels")

SIMULATED = bool(config.ENABLE_CUDASIM)
SIMULATED_ROWS = 3000
"""The simulator runs Python."""


@dataclass(frozen=True)
class Target:
    """One implementation of the operations, and the arrays that it is given."""

    implementation: Implementation
    xp: Any

    def run(self, op: Callable[..., Any], *args: Any) -> Any:
        """Call an operation with this implementation."""
        with using(self.implementation):
            return op(*args)

    def rows(self, n: int, simulated: int = SIMULATED_ROWS) -> int:
        """At most n rows, and not more than a test can wait for in the simulator."""
        return min(n, simulated) if self.simulated else n

    @property
    def simulated(self) -> bool:
        return SIMULATED and self.implementation is Implementation.CUDA

    def array(self, values: Any) -> Any:
        """A copy of a NumPy array in the target's library."""
        return self.xp.asarray(values, copy=True)

    def host(self, array: Any) -> np.ndarray:
        """The NumPy copy of an array, which must be of the target's library."""
        assert isinstance(array, type(self.xp.zeros(1)))
        return array.get() if hasattr(array, "get") else np.array(np.from_dlpack(array))

    def leaves(self, leaf: np.ndarray) -> list[Any]:
        """Copies of the leaves of rows, negative where there is none, in all types it takes."""
        copies = [self.array(leaf.astype(np.int32))]
        if self.implementation is Implementation.CUDA:
            copies.append(self.array(np.where(leaf < 0, NO_LEAF, leaf).astype(np.uint16)))
        return copies

    def host_leaves(self, leaf: Any) -> np.ndarray:
        """The leaves of rows of any type, as int32."""
        found = self.host(leaf).astype(np.int32)
        return np.where(found == NO_LEAF, np.int32(-1), found)

    def view(self, array: Any, layout: Callable[[Any], Any]) -> Any:
        """A view with other strides."""
        view = layout(array)
        if self.simulated and not (view.flags.c_contiguous or view.flags.f_contiguous):
            pytest.skip("the simulator refuses arrays with gaps; hardware takes them")
        return view

    def tree_records(self, words: np.ndarray, scales: Scales, n_trees: int = 1) -> TreeRecords:
        """What growth takes, from records of the host, the same for all trees."""
        signed = words.astype(np.int64)
        sums = np.array([(signed >> 48).sum(), ((signed >> 32) & 0xFFFF).sum()])
        of_trees = (self.array(np.tile(own, (n_trees, 1))) for own in (words, sums))
        return TreeRecords(*of_trees, [scales] * n_trees)

    def codes(self, columns: np.ndarray) -> Codes:
        """Both copies of a binned table, given column after column."""
        n_features, n_rows = columns.shape
        rows = np.zeros((n_rows, -(-n_features // ROW_ALIGNMENT) * ROW_ALIGNMENT), np.uint8)
        rows[:, :n_features] = columns.T
        return Codes(self.array(rows), self.array(np.ascontiguousarray(columns)))


ON_CPU = ("reference", "strict", "cpu", "cpu-threads")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "target" in metafunc.fixturenames:
        on_machine = [f"cuda-{gpu.name}" for gpu in gpus_asked_for(metafunc.config)]
        # The oracle is the reference on NumPy, which equals itself.
        others = ON_CPU[1:] if "oracle" in metafunc.fixturenames else ON_CPU
        others = getattr(metafunc.module, "ON_CPU", others)
        metafunc.parametrize("target", [*others, *(on_machine or ["cuda"])], indirect=True)


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
