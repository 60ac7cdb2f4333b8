"""GPUs whose kernels come from a file, in a process without numba-cuda.

``python -m tests.ptx.archive FOLDER`` compiles the PTX of every kernel of the catalogue into a file
as a wheel has it. With ``--ptx --ptx-archive=FOLDER`` the tests in ``tests/gpu`` run without
numba-cuda, whose import fails: the launcher finds each kernel by its key in the file, and what
takes the driver's place runs it on ``machine``.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuens.devices import gpu_problems
from gpuens.kernels.runtime import kernel_origins
from gpuens.kernels.runtime.cuda import launching, precompiled, target
from tests.ptx import machine
from tests.ptx.parameters import parameter_block
from tests.support import strict_cupy
from tests.support.ptx_option import Gpu

GPU = Gpu((12, 0))
DRIVER = (99, 0)
FILE = "cuda-ptx_120.xz"
COMPILER = ("numba_cuda", "numba.cuda")


def write(folder: Path) -> None:
    """Write the file, for which kernels are compiled as for a launch."""
    from building import cubins
    from gpuens.kernels import catalogue
    from gpuens.kernels.runtime.cuda.compiling import kinds_of
    from tests.ptx import driver

    kernels, release = {}, (0, 0)
    with driver.installed([GPU]):
        for entry in catalogue.entries():
            library = driver.library_of(entry.kernel.made, entry.arguments)
            key = precompiled.key_of(entry.kernel, kinds_of(entry.arguments))
            text = library.get_asm_str(cc=GPU.architecture)
            kernels[key], release = cubins.shipped(text, entry)
    folder.mkdir(parents=True, exist_ok=True)
    precompiled.write(folder / FILE, release, {120: kernels})


def block_compiler() -> None:
    """Let this process be one without numba-cuda."""
    assert not any(name in sys.modules for name in COMPILER)
    sys.modules.update(dict.fromkeys(COMPILER))  # type: ignore[arg-type]


class Bindings:
    """The functions of ``cuda.bindings.driver`` that the launcher calls."""

    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES="shared")
    CUfunction = CUkernel = CUstream = staticmethod(int)

    def __init__(self) -> None:
        self.kernels: list[machine.Kernel] = []
        self.n_launches = 0

    def loaded(self, kernel: precompiled.Code, is_ptx: bool) -> Any:
        """Take the place of ``precompiled.loaded``."""
        assert is_ptx
        self.kernels.append(machine.load(kernel.code.decode(), kernel.symbol))
        return SimpleNamespace(handle=len(self.kernels) - 1)

    def cuKernelSetAttribute(self, *asked: Any) -> tuple[int]:  # noqa: N802
        return (0,)

    def cuLaunchKernel(self, handle: int, *launch: int) -> tuple[int]:  # noqa: N802
        *sizes, shared, _, pointers, _ = launch
        kernel = self.kernels[handle]
        block = parameter_block([(p.offset, p.size) for p in kernel.parameters], pointers)
        self.n_launches += 1
        grid, threads = tuple(sizes[:3]), tuple(sizes[3:])
        kernel.launch(grid, threads, block, shared=shared, seed=self.n_launches)
        return (0,)


@contextlib.contextmanager
def installed(folder: Path) -> Iterator[Any]:
    """Let ``device="cuda"`` be two GPUs with the kernels in a folder inside the block, and return
    the stand-in for CuPy."""
    bindings = Bindings()
    with pytest.MonkeyPatch.context() as patch:
        cupy = strict_cupy.install_arrays(patch, 2)
        for properties in strict_cupy.state.properties:
            properties["major"], properties["minor"] = GPU.capability
            properties["multiProcessorCount"] = GPU.multiprocessors
            properties["sharedMemPerMultiprocessor"] = GPU.most_shared
        patch.setattr(precompiled, "FOLDER", folder)
        patch.setattr(precompiled, "capability_of", lambda device: GPU.capability)
        patch.setattr(precompiled, "driver_version", lambda: DRIVER)
        patch.setattr(precompiled, "loaded", bindings.loaded)
        patch.setattr(launching, "_kernels", {})
        patch.setattr(launching, "_of_thread", launching._OfThread())
        patch.setattr(launching, "bindings", lambda: bindings)
        patch.setattr(launching, "stream_at", lambda pointer: pointer)
        patch.setattr(launching, "enter", lambda device: None)
        for name in ("_multiprocessors_of", "_shared_memory_of"):
            patch.setattr(target, name, functools.cache(getattr(target, name).__wrapped__))
        patch.setattr(gpu_problems, "driver_version", lambda: DRIVER)
        others = gpu_problems._is_installed
        patch.setattr(gpu_problems, "_is_installed", lambda name: name == "cupy" or others(name))
        gpu_problems.gpu_problem.cache_clear()
        problem = gpu_problems.gpu_problem()
        assert problem is None, problem
        yield cupy
        assert bindings.n_launches > 0
        assert kernel_origins.of_cuda()[kernel_origins.COMPILED] == []


if __name__ == "__main__":
    write(Path(sys.argv[1]))
