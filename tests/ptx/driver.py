"""The CUDA driver's place taken, on a machine that has none.

Numba types the arguments, compiles a kernel for the compute capability of the current GPU with the
flags of a real launch, keeps it on disk and writes down the words of its arguments, and so does
the project's own launcher. What would load a cubin keeps the library that the PTX is in, and what
would start a kernel hands it over with its words.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import cuda.core
import numpy as np
import pytest
from numba import cuda as numba_cuda
from numba import types
from numba.cuda import api, codegen, dispatcher
from numba.cuda.cudadrv import devices, driver
from numba.np.numpy_support import as_dtype

from gpuens.kernels.runtime.cuda import launching, target
from tests.support.ptx_option import Gpu

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

    def regions(self, words: Sequence[int | float]) -> list[Region]:
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


def parameter_block(places: Sequence[tuple[int, int]], words: Sequence[Any]) -> bytes:
    """What the driver makes of the words that a kernel is started with.

    ``cuda.core`` hands over a Python integer in eight bytes and a value of ``ctypes`` in its own;
    the driver reads as many as the kernel expects, which is a fault where that is another number.

    Parameters
    ----------
    places : sequence of (offset, size)
        Of each parameter, in bytes.
    words : sequence of int or ctypes value
    """
    assert len(places) == len(words), f"{len(words)} words for {len(places)} parameters"
    block = bytearray(max((offset + size for offset, size in places), default=0))
    for number, ((offset, size), word) in enumerate(zip(places, words, strict=True)):
        if isinstance(word, ctypes._SimpleCData):
            held = bytes(word)
        elif type(word) is int:
            held = word.to_bytes(8, "little", signed=True)
        else:
            raise TypeError(f"Word {number} is {word!r}, neither an int nor of ctypes.")
        if len(held) != size:
            raise TypeError(f"Word {number} has {len(held)} bytes, the kernel reads {size}.")
        block[offset : offset + size] = held
    return bytes(block)


def plain(word: Any) -> int | float:
    """The number in a word."""
    return word.value if isinstance(word, ctypes._SimpleCData) else word


@dataclass(frozen=True)
class Stream:
    """One of CuPy's streams, as Numba names it."""

    handle: int

    def __int__(self) -> int:
        return self.handle


@dataclass(frozen=True)
class Module:
    """A loaded cubin, which here is none."""

    kernel: Kernel
    initialized: bool = True

    def get_function(self, name: str) -> Any:
        assert name == self.kernel.entry
        return SimpleNamespace(kernel=self.kernel, module=self)


_allowed: dict[Kernel, int] = {}
"""Bytes of dynamic shared memory, by kernel, where they have been set."""


def _set_most_shared(kernel: Kernel, device: int, n_bytes: int) -> None:
    """What the project's launcher asks of the driver."""
    assert n_bytes <= kernel.gpu.most_shared, f"{kernel.gpu.name} has no {n_bytes} bytes"
    _allowed[kernel] = n_bytes


_known: dict[Gpu, int] = {}


def _identity(gpu: Gpu) -> int:
    """The number by which Numba keeps what it has loaded: one for each kind of GPU of the process,
    whatever its number among those that are installed."""
    return _known.setdefault(gpu, len(_known))


Start = Callable[..., None]
"""Takes a stream, a ``LaunchConfig``, a ``Kernel`` and the words of its arguments."""


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
        Does what ``cuda.core.launch`` does; without it kernels are compiled only.
    """

    def context(device: int | None = None) -> Any:
        number = current() if device is None else device
        gpu = gpus[number]
        return SimpleNamespace(
            device=SimpleNamespace(id=_identity(gpu), **vars(gpu.device)),
            create_external_stream=Stream,
            create_module_image=lambda library, *_: Module(Kernel(library, gpu)),
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devices._runtime, "ensure_context", contextlib.nullcontext)
        for module in (devices, dispatcher):
            patch.setattr(module, "get_context", context)
        patch.setattr(api, "current_context", context)
        patch.setattr(dispatcher, "get_current_device", lambda: context().device)
        patch.setattr(numba_cuda, "gpus", [gpu.device for gpu in gpus])
        patch.setattr(codegen.CUDACodeLibrary, "get_cubin", lambda library, cc=None: library)
        compile_ = dispatcher.CUDADispatcher.compile
        patch.setattr(dispatcher.CUDADispatcher, "compile", _noting(compile_))
        patch.setattr(driver, "_to_core_stream", lambda stream: stream)
        patch.setattr(dispatcher, "launch", start)
        patch.setattr(cuda.core, "launch", start)
        patch.setattr(launching, "_started", {})
        patch.setattr(launching, "_allowed", set())
        patch.setattr(launching, "set_most_shared", _set_most_shared)
        _forget()
        yield
    _forget()


def _forget() -> None:
    """What the project keeps of a device."""
    for kept in (target._multiprocessors_of, target._wrapped_stream):
        kept.cache_clear()


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
