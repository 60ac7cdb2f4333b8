"""The CUDA driver's place taken, on a machine that has none.

Numba compiles a kernel for the compute capability of the current GPU with the flags of a real
launch and keeps it on disk, and the launcher writes the parameter block. What would load a cubin
keeps the library that the PTX is in, and what would start a kernel reads the block as the driver
does, through the table of addresses that it is given.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import types
from numba.cuda import codegen, dispatcher
from numba.cuda.cudadrv import devices
from numba.np.numpy_support import as_dtype

from gpuens.kernels import catalogue
from gpuens.kernels.runtime.cuda import launching, target
from tests.ptx.parameters import parameter_block, words_in
from tests.support.ptx_option import Gpu

__all__ = ["installed", "library_of", "parameter_block", "take_place", "words_in"]

ADDRESS = 4
"""Number of the word of an array's address among the words of the array."""


class Region(NamedTuple):
    """The bytes that a kernel may reach by an array among its arguments."""

    name: str
    first: int
    size: int
    word: int
    """Number of the word with the address."""
    granule: int
    """Bytes of an element, or of the smallest field of one."""


@dataclass(frozen=True)
class Kernel:
    """A kernel that has been loaded on a GPU."""

    library: Any
    gpu: Gpu

    @property
    def name(self) -> str:
        """The name of the Python function."""
        return self.function.py_func.__name__

    @property
    def ptx(self) -> str:
        return self.library.get_asm_str(cc=self.gpu.architecture)

    @property
    def entry(self) -> str:
        """The name in the PTX."""
        return self.library._entry_name

    @property
    def function(self) -> Any:
        """Numba's dispatcher."""
        return self.library.made_for[0]

    @property
    def types(self) -> tuple[types.Type, ...]:
        """The types of its arguments."""
        return self.library.made_for[1]

    def require_room(self, shared: int) -> None:
        """Fail as a launch with so much dynamic shared memory would."""
        most = max(launching.STATIC_SHARED, _allowed.get(self, 0))
        assert shared <= most, f"{self.name}: {shared} bytes of shared memory, allowed are {most}"

    def regions(self, words: Sequence[int]) -> list[Region]:
        """The arrays among the words of the arguments."""
        arrays, n_words = _arrays_among(self.function.py_func, self.types)
        assert n_words == len(words), f"{len(words)} words for {self.types}"
        found = []
        for name, word, n, granule in arrays:
            itemsize, address, *rest = words[word - 1 : word + 1 + 2 * n]
            begin, size = extent(address, itemsize, rest[:n], rest[n:])
            found.append(Region(name, begin, size, word, granule))
        return found


@functools.cache
def _arrays_among(
    function: Callable[..., None], kinds: tuple[types.Type, ...]
) -> tuple[list[tuple[str, int, int, int]], int]:
    """Name, word of the address, axes and granule of each array among the parameters, and the
    number of all words."""
    found, first = [], 0
    for name, kind in zip(inspect.signature(function).parameters, kinds, strict=True):
        if isinstance(kind, types.Array):
            found.append((name, first + ADDRESS, kind.ndim, smallest(as_dtype(kind.dtype))))
            first += 2 * kind.ndim + ADDRESS
        first += 1
    return found, first


def extent(
    address: int, itemsize: int, shape: Sequence[int], strides: Sequence[int]
) -> tuple[int, int]:
    """The first byte of an array, and the number of bytes up to its last one."""
    if 0 in shape:
        return address, 0
    steps = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    return address + sum(step for step in steps if step < 0), itemsize + sum(map(abs, steps))


def smallest(dtype: np.dtype) -> int:
    """The bytes of the smallest field of a record, or of a number."""
    fields = (dtype.fields or {}).values()
    return min((smallest(field[0]) for field in fields), default=dtype.base.itemsize)


@dataclass(frozen=True)
class Module:
    """A loaded cubin, which here is none."""

    kernel: Kernel
    initialized: bool = True

    def get_function(self, name: str) -> Any:
        assert name == self.kernel.entry
        _loaded.append(self.kernel)
        return SimpleNamespace(kernel=SimpleNamespace(handle=len(_loaded) - 1), module=self)


_loaded: list[Kernel] = []
"""All kernels so far; their handles are their numbers."""


_allowed: dict[Kernel, int] = {}
"""Bytes of dynamic shared memory, by kernel, where they have been set."""


_known: dict[Gpu, int] = {}


def _identity(gpu: Gpu) -> int:
    """The number by which Numba keeps what it has loaded: one for each kind of GPU of the process,
    whatever its number among those that are installed."""
    return _known.setdefault(gpu, len(_known))


class Configuration(NamedTuple):
    """How a kernel is started."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    stream: int


MOST_BLOCKS = (2**31 - 1, 2**16 - 1, 2**16 - 1)
"""Along each axis of a grid (CUDA C++ Programming Guide, technical specifications)."""


MOST_THREADS = 1024
"""Of a block."""


@functools.cache
def _most_threads() -> dict[Any, int]:
    """Threads of a block at most, by kernel: its registers leave room for so many."""
    found: dict[Any, int] = {}
    for entry in catalogue.entries():
        own = entry.kernel.made
        found[own] = max(entry.threads, found.get(own, 0))
    return found


def require_size(kernel: Kernel, grid: tuple[int, ...], block: tuple[int, ...]) -> None:
    """Fail as a launch of this size would, or might on other GPUs."""
    assert all(0 < n <= most for n, most in zip(grid, MOST_BLOCKS, strict=True)), (kernel, grid)
    most = _most_threads().get(kernel.function, MOST_THREADS)  # which benchmarks start, say
    assert block[1:] == (1, 1) and 0 < block[0] <= most, f"{kernel.name}: {block}, not {most}"


Start = Callable[[Configuration, Kernel, int], None]
"""Takes how a kernel is started, the kernel, and the address of the table of its parameters."""


class Bindings:
    """The functions of ``cuda.bindings.driver`` that the launcher calls."""

    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES="shared")

    def __init__(self, start: Start | None) -> None:
        self._start = start

    @staticmethod
    def CUfunction(handle: int) -> int:  # noqa: N802
        return handle

    CUkernel = CUstream = CUfunction

    def cuKernelSetAttribute(  # noqa: N802
        self, attribute: str, value: int, handle: int, device: int
    ) -> tuple[int]:
        kernel = _loaded[handle]
        assert attribute == "shared"
        assert value <= kernel.gpu.most_shared, f"{kernel.gpu.name} has no {value} bytes"
        _allowed[kernel] = value
        return (0,)

    def cuLaunchKernel(  # noqa: N802
        self, handle: int, *launch: int
    ) -> tuple[int]:
        """Start a kernel with the parameters that the launcher has written down."""
        *sizes, shared, stream, pointers, extra = launch
        assert extra == 0 and self._start is not None
        grid, block = tuple(sizes[:3]), tuple(sizes[3:])
        require_size(_loaded[handle], grid, block)
        self._start(Configuration(grid, block, shared, stream), _loaded[handle], pointers)
        return (0,)


@contextlib.contextmanager
def installed(
    gpus: Sequence[Gpu], current: Callable[[], int] = lambda: 0, start: Start | None = None
) -> Iterator[None]:
    """Take the driver's place inside the block.

    Parameters
    ----------
    gpus : sequence of Gpu
    current : callable
        Returns the number of the current one.
    start : callable, optional
        Runs a kernel; without it kernels are compiled only.
    """

    def context(device: int | None = None) -> Any:
        number = current() if device is None else device
        gpu = gpus[number]
        return SimpleNamespace(
            device=SimpleNamespace(id=_identity(gpu), **vars(gpu.device)),
            create_module_image=lambda library, *_: Module(Kernel(library, gpu)),
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devices._runtime, "ensure_context", contextlib.nullcontext)
        for module in (devices, dispatcher):
            patch.setattr(module, "get_context", context)
        patch.setattr(dispatcher, "get_current_device", lambda: context().device)
        patch.setattr(codegen.CUDACodeLibrary, "get_cubin", lambda library, cc=None: library)
        compile_ = dispatcher.CUDADispatcher.compile
        patch.setattr(dispatcher.CUDADispatcher, "compile", _noting(compile_))
        take_place(patch, start)
        yield


def take_place(patch: pytest.MonkeyPatch, start: Start | None) -> Bindings:
    """Let the launcher, which forgets all kernels, call this module where it calls the driver."""
    bindings = Bindings(start)
    patch.setattr(launching, "_kernels", {})
    patch.setattr(launching, "_of_thread", launching._OfThread())
    patch.setattr(launching, "bindings", lambda: bindings)
    patch.setattr(launching, "stream_at", lambda pointer: pointer)
    patch.setattr(launching, "enter", lambda device: None)
    patch.setattr(launching.precompiled, "find", lambda *kernel: None)
    for name in ("_multiprocessors_of", "_shared_memory_of"):
        patch.setattr(target, name, functools.cache(getattr(target, name).__wrapped__))
    return bindings


def _noting(compile_: Callable[..., Any]) -> Callable[..., Any]:
    """``CUDADispatcher.compile``, which notes what a library has been compiled from."""

    @functools.wraps(compile_)
    def noting(function: Any, signature: Any) -> Any:
        kernel = compile_(function, signature)
        kernel._codelibrary.made_for = function, tuple(kernel.signature.args)
        return kernel

    return noting


def library_of(function: Any, arguments: tuple[types.Type, ...]) -> Any:
    """The library of a kernel for arguments of these types: its ``get_asm_str(cc=...)`` is the
    PTX that a launch would link for an ``architecture``."""
    function.compile(arguments)
    return function.overloads[arguments]._codelibrary
