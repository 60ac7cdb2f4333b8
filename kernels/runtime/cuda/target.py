"""The way to CUDA: beside ``compiling``, ``loops``, ``narrow`` and ``simulator`` the only importer
of ``numba.cuda``.

It provides the kernels with their ``cuda`` module and decorators, the CUDA versions of the
primitives whose meaning a compiler may change, memory, the stream, and the launch geometry. CuPy
owns memory and streams on hardware; in the simulator NumPy takes its place. CuPy, Numba and
numba-cuda are imported when they are needed: importing succeeds on a machine without a GPU, and a
process whose kernels were all compiled ahead compiles nothing.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from ...scalars import primitives
from ...scalars.lazy_jit import Deferred, load_numba
from ..arrays import Array
from . import launching
from .compiling import declaration_for_cuda, kept_on_disk, newest_numpy_allowed, numba_cuda

__all__ = [
    "block_size",
    "blocks_at_once",
    "blocks_for",
    "cuda",
    "cupy_stream",
    "current_device",
    "device_function",
    "download",
    "empty",
    "is_simulated",
    "kernel",
    "launch",
    "multiprocessors",
    "on_device",
    "records_in",
    "settled",
    "upload",
    "upload_records",
    "write",
    "zeros",
]

SIMULATED_BLOCK = 32
SIMULATED_BLOCKS = 2
LEGACY_STREAM = 1
"""CUDA's name for the default stream where 0 would be ambiguous."""
ALIGNMENT = 16


@functools.cache
def is_simulated() -> bool:
    """Return whether kernels run in Numba's simulator on NumPy arrays."""
    names_it = "NUMBA_ENABLE_CUDASIM" in os.environ or os.path.exists(".numba_config.yaml")
    if not names_it and "numba" not in sys.modules:
        return False
    from numba.core import config

    return bool(config.ENABLE_CUDASIM)


class Cuda:
    """The module ``cuda`` of Numba, imported when a kernel that uses it is compiled."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python itself asks for these, which must not import it
            raise AttributeError(name)
        return getattr(numba_cuda(), name)

    @property
    def _numba_type_(self) -> Any:
        from numba import types

        return types.Module(numba_cuda())


if is_simulated():
    with newest_numpy_allowed():
        from .simulator import install

    load_numba()
    cuda: Any = install()
else:
    cuda = Cuda()


class CudaKernel(Deferred):
    """A kernel, compiled on first use where it was not compiled ahead, and kept on disk.

    Parameters
    ----------
    function : callable
    bounds : tuple of two integers or None
        Threads of a block, and how many of them the registers of a multiprocessor should do for.
    """

    def __init__(
        self, function: Callable[..., None], bounds: tuple[int, int] | None = None
    ) -> None:
        super().__init__(function)
        self.bounds = bounds

    def _make(self, numba: ModuleType) -> Any:
        return kept_on_disk(cuda.jit(self.py_func, launch_bounds=self.bounds))


class DeviceFunction(Deferred):
    """A function that kernels call."""

    def _make(self, numba: ModuleType) -> Any:
        return cuda.jit(device=True)(self.py_func)


def kernel(
    function: Callable[..., None] | None = None, *, bounds: tuple[int, int] | None = None
) -> Any:
    """Decorate a kernel. It has no signature, which would compile it at import, and that needs a
    GPU. ``bounds`` as in ``CudaKernel``."""
    if function is None:
        return functools.partial(kernel, bounds=bounds)
    return cuda.jit(function) if is_simulated() else CudaKernel(function, bounds)


def device_function(function: Callable[..., Any]) -> Any:
    """Decorate a function that kernels call and that uses ``cuda`` itself."""
    return function if is_simulated() else DeviceFunction(function)


def _register_overloads() -> None:
    """Register CUDA versions of primitives. They take precedence over the versions for every
    target, which serve CUDA too where they mean the same there (``select``, ``two_to``,
    ``exponent``)."""
    from numba.cuda import libdevice
    from numba.extending import overload

    @overload(primitives.mul, target="cuda")
    def _mul(x, y):
        return lambda x, y: libdevice.dmul_rn(x, y)

    @overload(primitives.floor, target="cuda")
    def _floor(x):
        return lambda x: libdevice.floor(x)


if not is_simulated():
    declaration_for_cuda(_register_overloads)


# Launch geometry.


def block_size(on_hardware: int) -> int:
    """Return the threads of a block, a constant of its module: shared arrays take their shapes
    from it.

    A simulated thread costs half a millisecond, so there are few of them.
    """
    return SIMULATED_BLOCK if is_simulated() else on_hardware


def multiprocessors() -> int:
    """Return the number of streaming multiprocessors of CuPy's current device."""
    return 1 if is_simulated() else _multiprocessors_of(current_device())


def current_device() -> int:
    """Return the number of CuPy's current device."""
    return int(_arrays().cuda.runtime.getDevice())


@functools.cache
def _multiprocessors_of(device: int) -> int:
    return int(_arrays().cuda.runtime.getDeviceProperties(device)["multiProcessorCount"])


RESERVED_SHARED = 1024
"""Bytes of shared memory that each block takes for the system."""


def blocks_at_once(shared: int) -> int:
    """Return how many blocks with so many bytes of shared memory a multiprocessor of CuPy's current
    device has room for, at least 1."""
    if is_simulated():
        return 1
    return max(1, _shared_memory_of(current_device()) // (shared + RESERVED_SHARED))


@functools.cache
def _shared_memory_of(device: int) -> int:
    """Return the bytes of shared memory of a multiprocessor."""
    return int(_arrays().cuda.runtime.getDeviceProperties(device)["sharedMemPerMultiprocessor"])


def blocks_for(items: int, per_multiprocessor: int = 8) -> int:
    """Return the blocks of a launch that share ``items`` pieces of work by striding over them."""
    if is_simulated():
        return max(1, min(items, SIMULATED_BLOCKS))
    return max(1, min(items, per_multiprocessor * multiprocessors()))


def blocks_for_rows(n_rows: int, block: int) -> int:
    """Return the blocks of a launch where a block takes one row a thread at a time."""
    return blocks_for(-(-n_rows // block))


_simulating = threading.Lock()
"""The simulator runs one kernel at a time."""


def launch(
    function: Any, blocks: int | tuple[int, int], threads: int, *args: Any, shared: int = 0
) -> None:
    """Start a kernel on the current stream, with ``shared`` bytes of dynamic shared memory: its
    ``cuda.shared.array(0, dtype)``."""
    if not is_simulated():
        # CuPy's default stream has address 0, which the driver might take for another one.
        stream = cupy_stream().ptr or LEGACY_STREAM
        launching.start(function, blocks, threads, current_device(), stream, args, shared)
        return
    passed = [_for_simulator(argument) for argument in args]
    with _simulating:
        function[blocks, threads, 0, shared](*passed)
    for argument, copy in zip(args, passed, strict=True):
        if copy is not argument and argument.flags.writeable:
            # The simulator has written into the copy.
            argument[...] = copy


def _for_simulator(argument: Any) -> Any:
    """Return a copy where the simulator does not take the argument itself: it writes all arrays
    back, also read-only ones, and refuses arrays with gaps."""
    takes = not isinstance(argument, np.ndarray) or (
        argument.flags.forc and argument.flags.writeable
    )
    return argument if takes else argument.copy()


def cupy_stream() -> Any:
    """Return CuPy's current stream."""
    return _arrays().cuda.get_current_stream()


def settled(made: Any) -> Any:
    """Return ``made`` once the current stream has made it: a kept layout is read on other streams
    too, which do not wait for this one."""
    if not is_simulated():
        cupy_stream().synchronize()
    return made


# Memory.


@functools.cache
def _arrays() -> ModuleType:
    """Return the library that owns the device's arrays."""
    if is_simulated():
        return np
    import cupy

    return cupy


def empty(shape: int | tuple[int, ...], dtype: Any) -> Array:
    """Return an uninitialised array on the device."""
    return _arrays().empty(shape, dtype)


def zeros(shape: int | tuple[int, ...], dtype: Any) -> Array:
    """Return an array of zeros on the device."""
    return _arrays().zeros(shape, dtype)


def on_device(array: Array) -> Array:
    """Return the array itself if it is on the device, else a copy there."""
    return _arrays().asarray(array)


class DeviceRecords:
    """Records in the memory of the device, for kernels to read and write: CuPy has none."""

    def __init__(self, memory: Array, dtype: np.dtype) -> None:
        self.data, self._memory = memory.data, memory
        self.dtype, self.size, self.nbytes = dtype, memory.nbytes // dtype.itemsize, memory.nbytes
        self.shape, self.strides = (self.size,), (dtype.itemsize,)


def records_in(memory: Array, offset: int, dtype: np.dtype, n: int) -> Any:
    """Return a view of ``n`` records, or numbers, in a uint8 array of the device."""
    part = memory[offset : offset + n * dtype.itemsize]
    return part.view(dtype) if is_simulated() or dtype.names is None else DeviceRecords(part, dtype)


def write(array: Array, values: np.ndarray) -> None:
    """Write host values to the beginning of a device array."""
    array[: values.size] = on_device(values)  # CuPy's ``set`` would wait for the stream


def upload(*arrays: np.ndarray) -> tuple[Any, ...]:
    """Return copies of small host arrays on the device, made by one transfer."""
    # Arrays begin at multiples of 16 bytes, as vector loads need.
    offsets = np.cumsum([0] + [-(-a.nbytes // ALIGNMENT) * ALIGNMENT for a in arrays])
    host = np.empty(offsets[-1], np.uint8)
    for array, offset in zip(arrays, offsets[:-1], strict=True):
        flat = np.ascontiguousarray(array).reshape(-1)
        host[offset : offset + array.nbytes] = flat.view(np.uint8)
    device = _arrays().asarray(host)
    return tuple(
        device[offset : offset + array.nbytes].view(array.dtype).reshape(array.shape)
        for array, offset in zip(arrays, offsets[:-1], strict=True)
    )


def upload_records(table: np.ndarray) -> Any:
    """Return a copy on the device of an array of records."""
    (memory,) = upload(table.view(np.uint8).reshape(-1))
    return records_in(memory, 0, table.dtype, table.size)


def download(array: Array) -> np.ndarray:
    """Return the values of a device array as a NumPy array, once the stream has produced them."""
    return np.asarray(array) if is_simulated() else _arrays().asnumpy(array)
