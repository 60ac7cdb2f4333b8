"""GPUs for a machine that has none: launches run as compiled PTX over the memory of the host.

CuPy's place is taken by ``strict_cupy``, the driver's by ``driver``, and the launcher's parameter
block becomes that of a launch on ``machine``, whose accesses to memory are watched.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import types

from gpuens.kernels import catalogue
from tests.ptx import checks, driver, machine
from tests.ptx.driver import Configuration, Kernel
from tests.support import strict_cupy
from tests.support.ptx_option import Gpu, gpus_asked_for
from tests.support.strict_cupy.arrays import RUBBISH

SHARED, SHARED_NAME = "shared", re.compile(r"_cudapy_smem_\d+")
"""Numba counts the shared arrays of a process."""
LEAST_MARKED = 4
"""Bytes of the smallest element that can be seen to hold nothing but rubbish."""

HARMLESS = {
    # Threads read the number of a leaf before or after it is there.
    ("number_leaves", "a race", "nodes"),
    # Without a limit of leaves several threads note where the expansions of a tree are, which only
    # the order of trees with a limit is merged by.
    ("open_nodes", "a race", "plans"),
    ("number_leaves", "a race", "plans"),
}
"""Faults, by kernel, kind and array, that no result depends on."""


class Launch(NamedTuple):
    """A kernel that has run."""

    function: Any
    """The dispatcher, as the catalogue names it."""
    types: tuple[types.Type, ...]
    grid: tuple[int, ...]
    block: tuple[int, ...]
    gpu: Gpu

    @property
    def name(self) -> str:
        return self.function.py_func.__name__


@dataclass
class Host:
    """The GPUs of a process, and what has run on them.

    Parameters
    ----------
    cupy : module
        The stand-in.
    gpus : sequence of Gpu
    watched : sequence of Gpu
        Those on which accesses to memory are checked.
    """

    cupy: Any
    gpus: Sequence[Gpu]
    watched: Sequence[Gpu]
    launches: list[Launch] = field(default_factory=list)

    def start(self, config: Configuration, kernel: Kernel, pointers: int) -> None:
        """Do what the driver does."""
        self.run(config, kernel, pointers)

    def run(self, config: Configuration, kernel: Kernel, pointers: int) -> None:
        """Run a launch; a profile puts its own in this place."""
        kernel.require_room(config.shared)
        watch = kernel.gpu in self.watched
        code = _loaded(kernel, watch)
        places = [(variable.offset, variable.size) for variable in code.parameters]
        block = driver.parameter_block(places, pointers)
        memory = checks.Memory(list(_regions(kernel, places, block))) if watch else None
        self.launches.append(
            Launch(kernel.function, kernel.types, config.grid, config.block, kernel.gpu)
        )
        with _harmless_faults_dropped(kernel.name):
            code.launch(
                config.grid,
                config.block,
                block,
                shared=config.shared,
                order="random",
                seed=len(self.launches),
                memory=memory,
            )


@contextlib.contextmanager
def _harmless_faults_dropped(name: str) -> Iterator[None]:
    """Drop what is ``HARMLESS`` from the faults of a launch, which goes on after them."""
    try:
        yield
    except checks.MachineFault as found:
        faults = [
            fault
            for fault in found.faults
            if (name, fault.kind, SHARED_NAME.sub(SHARED, fault.array)) not in HARMLESS
        ]
        if faults:
            raise checks.MachineFault(found.kernel, faults) from None


@functools.cache
def _loaded(kernel: Kernel, watch: bool) -> Any:
    return machine.load(kernel.ptx, kernel.entry, watch=watch)


def _regions(
    kernel: Kernel, places: Sequence[tuple[int, int]], block: bytes
) -> Iterator[checks.Region]:
    for region in kernel.regions(driver.words_in(places, block)):
        pointer, _ = places[region.word]
        yield checks.Region(
            region.first, region.size, region.name, pointer,
            granule=region.granule, initialised=_written(region),
        )  # fmt: skip


def _written(region: driver.Region) -> np.ndarray | None:
    """Which bytes hold something: numbers of nothing but rubbish have not been written to."""
    if region.granule < LEAST_MARKED or region.size % region.granule or region.size == 0:
        return None
    memory = (ctypes.c_uint8 * region.size).from_address(region.first)
    rubbish = int.from_bytes(bytes([RUBBISH]) * region.granule, "little")
    is_written = np.frombuffer(memory, f"u{region.granule}") != rubbish
    if is_written.all():
        return None
    return np.repeat(is_written, region.granule).view(np.uint8)


@contextlib.contextmanager
def installed(gpus: Sequence[Gpu], watched: Sequence[Gpu] | None = None) -> Iterator[Host]:
    """Let ``device="cuda"`` be these GPUs inside the block; by default all are watched."""
    with pytest.MonkeyPatch.context() as patch:
        cupy = strict_cupy.install_arrays(patch, len(gpus))
        state = strict_cupy.state
        for properties, gpu in zip(state.properties, gpus, strict=True):
            properties["major"], properties["minor"] = gpu.capability
            properties["multiProcessorCount"] = gpu.multiprocessors
            properties["sharedMemPerMultiprocessor"] = gpu.shared_memory or gpu.most_shared
        host = Host(cupy, gpus, gpus if watched is None else watched)
        with driver.installed(gpus, lambda: state.device, host.start):
            yield host


def installed_for(
    config: pytest.Config, *, whole_models: bool = False
) -> contextlib.AbstractContextManager[Host]:
    """``installed`` as the options of pytest ask for, for operations or for whole models.

    Operations are watched on the first architecture. Whole models begin with the last one, for
    which the operations have the kernels that are not watched: they need not be compiled again.
    """
    gpus, watch = gpus_asked_for(config), config.getoption("--ptx-watch")
    if whole_models:
        gpus.reverse()
    few = [] if watch == "nothing" or whole_models else gpus[:1]
    return installed(gpus, gpus if watch == "everything" else few)


def require_catalogued(launches: Sequence[Launch]) -> None:
    """Whatever was launched has been compiled, checked and, by ``warmup``, made ahead: the
    catalogue names it. What is compiled for a custom loss is kept nowhere and in no catalogue."""
    catalogued = {(id(entry.kernel.made), entry.arguments) for entry in catalogue.entries()}
    for launch in launches:
        is_known = (id(launch.function), launch.types) in catalogued
        assert is_known or launch.function._cache.cache_path is None, (launch.name, launch.types)
