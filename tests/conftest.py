"""What all tests share."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

try:
    from hypothesis import HealthCheck, settings
except ImportError:
    pass  # some tests need no more than a GPU
else:
    # The same examples in every run, however slow the machine is: chance finds faults in
    # `tests.campaign` and with `--hypothesis-profile=new`, not in what a change has to pass.
    for profile in ("same", "new"):
        settings.register_profile(
            profile,
            max_examples=60,
            deadline=None,
            database=None,
            derandomize=profile == "same",
            suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
        )
    settings.load_profile("same")

ARCHITECTURES = "8.0,12.0"
WATCHED = ("nothing", "operations", "everything")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--ptx",
        action="store_true",
        help="run what needs a GPU on a machine for compiled PTX (see tests/ptx)",
    )
    parser.addoption(
        "--ptx-arch",
        default=ARCHITECTURES,
        metavar="CC,...",
        help=f"the compute capabilities that --ptx compiles for (default: {ARCHITECTURES})",
    )
    parser.addoption(
        "--ptx-archive",
        metavar="FOLDER",
        help="with --ptx tests/gpu: take kernels from a file in this folder, without numba-cuda "
        "(see tests/ptx/archive.py)",
    )
    parser.addoption(
        "--ptx-watch",
        choices=WATCHED,
        default="operations",
        help="where --ptx checks accesses to memory: nowhere, in the tests of single operations on "
        "the first architecture (the default), or everywhere, which takes five times as long",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--ptx-archive"):
        from tests.ptx.archive import block_compiler

        block_compiler()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the test that compiles the kernels of the CPU: with NUMBA_CACHE_DIR all others
    find them."""
    items.sort(key=lambda item: item.name != "test_a_process_after_it_compiles_nothing")


@pytest.fixture(autouse=True)
def ctrl_c_raises() -> Iterator[None]:
    """Python's own handler, which a process started in the background does not have."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A stand-in for CuPy with two GPUs, which checks what CuPy checks."""
    from tests.support import strict_cupy

    return strict_cupy.install(monkeypatch)
