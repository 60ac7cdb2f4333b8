"""GPUs for a machine that has none: launches run as compiled PTX over the memory of the host.

CuPy's place is taken by ``strict_cupy``, the driver's by ``driver``, and a kernel's words become
the parameter block of a launch on ``machine``, whose accesses to memory are watched.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import types

from gpuens.kernels.runtime.cuda import launching
from tests.ptx import checks, driver, machine
from tests.ptx.driver import Kernel
from tests.support import strict_cupy
from tests.support.ptx_option import Gpu, gpus_asked_for
from tests.support.strict_cupy.arrays import RUBBISH

LEAST_MARKED = 4
"""Bytes of the smallest element that can be seen to hold nothing but rubbish."""

EQUAL_WRITES = {
    "add_up_nodes": ("mixed",),
    "number_leaves": ("nodes",),
}
"""Arrays of kernels to which several threads write the same value, without an order among them:
marks of nodes, and the numbers of leaves, which a thread may read before or after they are there,
with the same result."""


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
    watch : bool
        Whether accesses to memory are checked.
    """

    cupy: Any
    gpus: Sequence[Gpu]
    watch: bool
    launches: list[Launch] = field(default_factory=list)

    def start(self, stream: Any, config: Any, kernel: Kernel, *words: Any) -> None:
        """Do what ``cuda.core.launch`` does."""
        captured = strict_cupy.state.stream.captured
        if captured is not None:
            captured.append(functools.partial(self._run, config, kernel, words))
        else:
            self._run(config, kernel, words)

    def _run(self, config: Any, kernel: Kernel, words: Sequence[Any]) -> None:
        code = _loaded(kernel, self.watch)
        places = [(variable.offset, variable.size) for variable in code.parameters]
        block = driver.parameter_block(places, words)
        memory = checks.Memory(list(_regions(kernel, words, places))) if self.watch else None
        self.launches.append(
            Launch(kernel.function, kernel.types, config.grid, config.block, kernel.gpu)
        )
        with _equal_writes_allowed(kernel.name):
            code.launch(
                config.grid,
                config.block,
                block,
                shared=config.shmem_size,
                order="random",
                seed=len(self.launches),
                memory=memory,
            )


@contextlib.contextmanager
def _equal_writes_allowed(name: str) -> Iterator[None]:
    """Drop the races of ``EQUAL_WRITES`` from the faults of a launch, which goes on after them."""
    try:
        yield
    except checks.MachineFault as found:
        arrays = EQUAL_WRITES.get(name, ())
        faults = [f for f in found.faults if f.kind != "a race" or f.array not in arrays]
        if faults:
            raise checks.MachineFault(found.kernel, faults) from None


@functools.cache
def _loaded(kernel: Kernel, watch: bool) -> Any:
    return machine.load(kernel.ptx, kernel.entry, watch=watch)


def _regions(
    kernel: Kernel, words: Sequence[Any], places: Sequence[tuple[int, int]]
) -> Iterator[checks.Region]:
    for region in kernel.regions(list(map(driver.plain, words))):
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
    kind = np.dtype(f"u{region.granule}")
    return np.repeat(np.frombuffer(memory, kind) != rubbish, region.granule).view(np.uint8)


@contextlib.contextmanager
def installed(gpus: Sequence[Gpu], *, watch: bool = True) -> Iterator[Host]:
    """Let ``device="cuda"`` be these GPUs inside the block."""
    with pytest.MonkeyPatch.context() as patch:
        cupy = strict_cupy.install_arrays(patch, len(gpus))
        state = strict_cupy.state
        for properties, gpu in zip(state.properties, gpus, strict=True):
            properties["major"], properties["minor"] = gpu.capability
        patch.setattr(launching, "is_direct", lambda: True)
        host = Host(cupy, gpus, watch)
        with driver.installed(gpus, lambda: state.device, host.start):
            yield host


def installed_for(config: pytest.Config) -> contextlib.AbstractContextManager[Host]:
    """``installed`` as the options of pytest ask for."""
    return installed(gpus_asked_for(config), watch=not config.getoption("--ptx-unwatched"))
