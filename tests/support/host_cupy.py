"""CuPy's place taken by arrays in the memory of the host that claim to be on a GPU.

``strict_cupy`` runs the operations on the CPU; here the CUDA implementations run up to the start of
their kernels: the launcher writes its parameter blocks as before a launch on hardware, and what
would start a kernel reads them.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, types
from numba.cuda import api, dispatcher
from numba.cuda.cudadrv import devices

from gpuens.kernels.runtime.cuda import launching, target
from gpuens.kernels.runtime.cuda.compiling import types_of

STREAM = 4711


class ndarray:  # noqa: N801
    """As much of CuPy's array as the launchers ask for."""

    def __init__(self, array: Any) -> None:
        self.array = np.asarray(array)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return wrapped(getattr(self.array, name))

    def __getitem__(self, key: Any) -> Any:
        return ndarray(self.array[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        """As strict as CuPy's, and more so: no other type."""
        own, value = self.array[key], plain(value)
        if isinstance(value, np.ndarray) and (own.dtype, own.shape) != (value.dtype, value.shape):
            raise TypeError(f"{value.dtype}{value.shape} for {own.dtype}{own.shape}")
        self.array[key] = value

    def __len__(self) -> int:
        return len(self.array)

    def get(self, stream: Any = None, out: Any = None, blocking: bool = True) -> np.ndarray:
        if out is None:
            return self.array.copy()
        assert not blocking and stream.ptr == STREAM
        stream.work.append(lambda: np.copyto(out, self.array))
        return out

    def __dlpack__(self, *, stream: int | None = None, **asked: Any) -> Any:
        current = sys.modules["cupy"].cuda.get_current_stream().ptr
        assert stream in (-1, current), "the reader would have to wait for another stream"
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.array.ctypes.data if self.array.size else 0)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        packed = self.array.flags.c_contiguous
        return {
            "shape": self.array.shape,
            "typestr": self.array.dtype.str,
            "strides": None if packed else self.array.strides,
            "data": (self.array.ctypes.data if self.array.size else 0, False),
            "stream": STREAM,
            "version": 3,
        }


ndarray.__module__ = "cupy"


def plain(value: Any) -> Any:
    return value.array if isinstance(value, ndarray) else value


def wrapped(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return ndarray(value)
    if callable(value):
        return lambda *args, **more: wrapped(value(*map(plain, args), **more))
    return value


def concatenate(arrays: Any, out: ndarray) -> ndarray:
    np.concatenate([array.array for array in arrays], out=out.array)
    return out


class Launch(NamedTuple):
    """A kernel that would have been started; the words are read as integers."""

    kernel: Any
    grid: tuple[int, ...]
    block: tuple[int, ...]
    types: tuple[types.Type, ...]
    words: list[int]
    arguments: tuple[Any, ...]
    stream: int


def install(monkeypatch: Any) -> list[Launch]:
    """Take CuPy's and the driver's place; returns the launches to come."""
    cupy = ModuleType("cupy")
    for name in ("empty", "zeros", "ones", "arange"):
        setattr(cupy, name, wrapped(getattr(np, name)))
    cupy.ndarray = ndarray
    cupy.asarray = lambda array: array if isinstance(array, ndarray) else ndarray(array.copy())
    cupy.asnumpy = lambda array: array.get()
    strided = wrapped(np.lib.stride_tricks.as_strided)
    cupy.lib = SimpleNamespace(stride_tricks=SimpleNamespace(as_strided=strided))
    cupy.concatenate = concatenate
    stream = Stream(STREAM)
    cupy.cuda = SimpleNamespace(
        runtime=SimpleNamespace(getDevice=lambda: 0),
        get_current_stream=lambda: stream,
    )
    cupyx = ModuleType("cupyx")
    cupyx.empty_pinned = np.empty
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupyx", cupyx)
    monkeypatch.setattr(target, "_arrays", lambda: cupy)
    monkeypatch.setattr(target, "_multiprocessors_of", lambda device: 132)
    monkeypatch.setattr(target, "_shared_memory_of", lambda device: 228 * 1024)
    context = SimpleNamespace(
        device=SimpleNamespace(id=0), create_external_stream=lambda pointer: pointer
    )
    monkeypatch.setattr(devices._runtime, "ensure_context", contextlib.nullcontext)
    monkeypatch.setattr(devices, "get_context", lambda: context)
    monkeypatch.setattr(api, "current_context", lambda: context)
    return _record(monkeypatch)


class Stream:
    """One of CuPy's streams: copies to the host are done when somebody waits for them."""

    def __init__(self, pointer: int) -> None:
        self.ptr = pointer
        self.events: list[str] = []
        self.work: list[Any] = []

    def synchronize(self) -> None:
        self.events.append("synchronize")
        while self.work:
            self.work.pop(0)()

    def record(self) -> Any:
        return SimpleNamespace(synchronize=self.synchronize)


def _record(monkeypatch: Any) -> list[Launch]:
    launches: list[Launch] = []
    begin, kernels, running = launching.start, [], []

    def compiled(function: Any, kinds: tuple[Any, ...]) -> Any:
        kernels.append((function, types_of(kinds)))
        return SimpleNamespace(handle=len(kernels) - 1)

    def start(*how: Any) -> None:
        running.append(how[5])
        begin(*how)

    def started(handle: int, *launch: int) -> tuple[int]:
        *sizes, _, stream, pointers, _ = launch
        function, kinds = kernels[handle]
        n_words = sum(map(len, map(words_of_numba, kinds, running[-1])))
        addresses = np.ctypeslib.as_array((ctypes.c_uint64 * n_words).from_address(pointers))
        words = [ctypes.c_int64.from_address(int(address)).value for address in addresses]
        grid, block = tuple(sizes[:3]), tuple(sizes[3:])
        launches.append(Launch(function, grid, block, kinds, words, running.pop(), stream))
        return (0,)

    bindings = SimpleNamespace(CUfunction=int, cuLaunchKernel=started)
    monkeypatch.setattr(launching, "bindings", lambda: bindings)
    monkeypatch.setattr(launching, "allow", lambda parameters, shared: None)
    monkeypatch.setattr(launching, "compiled", compiled)
    monkeypatch.setattr(launching, "start", start)
    monkeypatch.setattr(launching, "stream_at", lambda pointer: pointer)
    monkeypatch.setattr(launching, "enter", lambda device: None)
    monkeypatch.setattr(launching.precompiled, "find", lambda *kernel: None)
    monkeypatch.setattr(launching, "_kernels", {})
    monkeypatch.setattr(launching, "_of_thread", launching._OfThread())
    return launches


def words_of_numba(kind: types.Type, argument: Any) -> list[Any]:
    """The words of an argument that Numba's own launcher would start a kernel with."""
    if isinstance(argument, target.DeviceRecords):
        memory = cuda.as_cuda_array(argument._memory, sync=False)
        argument = memory.view(argument.dtype)
    words: list[Any] = []
    reader = SimpleNamespace(extensions=[])
    dispatcher._Kernel._prepare_args(reader, kind, argument, STREAM, [], words)
    return words
