"""Kernels on hardware: how compiled ones are kept on disk and started.

Numba keeps kernels by argument types, compute capability and the versions of CUDA, numba-cuda and
Numba, in ``__pycache__`` beside this file or in ``NUMBA_CACHE_DIR``. Of functions in a kernel's
closure it takes the pickled bytes, which are others in every process: here they are described by
name and source (see ``runtime.compilation`` for the rest of the cache).

Numba's launcher inspects every argument at each launch, which takes 110 to 130 µs of Python. Here
the words of the arguments are written down as the compiled kernel expects them and handed to
``cuda.core``: 29 µs of Python on average, 10 to 52 by kernel, before the driver's part (measured
with the driver mocked, not on hardware). Numba compiles the kernel at its first launch and starts
it that time.

``GPUENS_CUDA_LAUNCHER=direct`` turns this on. It is off until it has been measured on a GPU.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Iterable
from contextlib import suppress
from types import CellType, SimpleNamespace
from typing import Any

import numpy as np

from ..compilation import stamp_with_sources

PACKAGE = __package__.removesuffix(".runtime.cuda")


def kept_on_disk(compiled: Any) -> Any:
    """Return the kernel, which is loaded from the disk from its second process on.

    A kernel with functions from outside of this package, as a custom loss has, is compiled in
    every process, because nothing shows when they change. So is every kernel where no folder can
    be written to.
    """
    function = compiled.py_func
    cells = function.__closure__ or ()
    try:
        closure = tuple(describe(cell.cell_contents) for cell in cells)
    except LookupError:
        return compiled
    with suppress(RuntimeError):  # Numba finds no place for the cache
        compiled.enable_caching()
        cache = compiled._cache
        stamp_with_sources(cache._cache_file, function)
        if closure:
            named = SimpleNamespace(__code__=function.__code__, __closure__=(CellType(closure),))
            cache._py_func = named  # the index takes no more than these of a function
    return compiled


def describe(value: Any) -> tuple[Any, ...]:
    """Describe a value in a closure: equal for equal values, in every process with the same
    sources.

    Raises
    ------
    LookupError
        The value has no such description.
    """
    function = getattr(value, "py_func", value)
    if hasattr(function, "__code__"):
        if not function.__module__.startswith(PACKAGE):
            raise LookupError(f"{function.__qualname__} is defined in {function.__module__}.")
        code, cells = function.__code__, function.__closure__ or ()
        of_closure = tuple(describe(cell.cell_contents) for cell in cells)
        return (function.__module__, function.__qualname__, code.co_firstlineno, of_closure)
    if isinstance(value, tuple):
        return ("tuple", *map(describe, value))
    if isinstance(value, (bool, int, float, str, type(None), np.generic, type, np.dtype)):
        return type(value).__name__, repr(value)
    raise LookupError(f"{value!r} is not a constant.")


WORD_OF = {
    np.dtype(kind): word
    for kind, word in (
        (np.int32, ctypes.c_int32),
        (np.int64, ctypes.c_int64),
        (np.uint32, ctypes.c_uint32),
        (np.uint64, ctypes.c_uint64),
        (np.float32, ctypes.c_float),
        (np.float64, ctypes.c_double),
    )
}

NUMBERS = (int, float, np.generic)


@functools.cache
def is_direct() -> bool:
    """Return whether kernels are started directly; the environment is read at the first launch."""
    return os.environ.get("GPUENS_CUDA_LAUNCHER", "stock") == "direct"


def load_compiler() -> None:
    """Load the libraries that Numba compiles kernels with: an error names the missing one."""
    from cuda.pathfinder import load_nvidia_dynamic_lib
    from numba.cuda.cudadrv.nvvm import NVVM

    NVVM()
    load_nvidia_dynamic_lib("nvJitLink")


def kind_of(argument: Any) -> Any:
    """Return what the specialisation of a kernel depends on."""
    if isinstance(argument, NUMBERS):
        return type(argument)
    return argument.dtype, len(argument.shape), _order(argument)


def words_of(argument: Any) -> list[Any]:
    """Return an argument as Numba's calling convention passes it to a kernel.

    An array is two null pointers (its owner, on the host), the number of its entries, the size of
    one, the address, the shape and the strides in bytes.
    """
    if isinstance(argument, np.generic):
        return [WORD_OF[argument.dtype](argument.item())]
    if isinstance(argument, float):
        return [ctypes.c_double(argument)]
    if isinstance(argument, int):
        return [ctypes.c_int64(argument)]
    words = [0, 0, argument.size, argument.dtype.itemsize, address_of(argument)]
    return [*words, *argument.shape, *argument.strides]


def address_of(array: Any) -> int:
    """Return the address of a device array."""
    return int(array.__cuda_array_interface__["data"][0])


def _order(array: Any) -> str:
    """``C``, ``F`` or ``A``, as Numba names memory layouts.

    Where an axis has one entry its stride means nothing: a kernel that was compiled for one row
    of a table must not be taken for more rows with the same gaps between them.
    """
    if array.size == 0 or _is_packed(reversed(array.shape), reversed(array.strides), array):
        return "C"
    return "F" if _is_packed(array.shape, array.strides, array) else "A"


def _is_packed(lengths: Iterable[int], strides: Iterable[int], array: Any) -> bool:
    """Return whether entries lie without gaps, the first of these axes fastest."""
    expected = array.dtype.itemsize
    for length, stride in zip(lengths, strides, strict=True):
        if length != 1:
            if stride != expected:
                return False
            expected *= length
    return True


_started: dict[tuple[Any, ...], Any] = {}


def start(
    function: Any,
    blocks: int | tuple[int, int],
    threads: int,
    device: int,
    stream: Any,
    args: tuple[Any, ...],
    shared: int = 0,
) -> None:
    """Launch a kernel on a stream of a device; the first time there by Numba, which compiles it.

    A compiled kernel belongs to its device: its address is meaningless on another one.
    """
    key = (function, device, shared, *map(kind_of, args))
    kernel = _started.get(key)
    if kernel is None:
        allow_shared(function, device, args, shared)
        function[blocks, threads, stream, shared](*args)
        _started[key] = _compiled(function, args)
        return
    from cuda.core import launch
    from numba.cuda.cudadrv import driver

    words = [word for argument in args for word in words_of(argument)]
    launch(driver._to_core_stream(stream), _configuration(blocks, threads, shared), kernel, *words)


def _compiled(function: Any, args: tuple[Any, ...]) -> Any:
    """Return the kernel of ``cuda.core`` that Numba has compiled for the current device and these
    arguments."""
    types = tuple(map(function.typeof_pyval, args))
    return function.overloads[types]._codelibrary.get_cufunc().kernel


@functools.cache
def _configuration(blocks: int | tuple[int, int], threads: int, shared: int) -> Any:
    from cuda.core import LaunchConfig

    return LaunchConfig(grid=blocks, block=threads, shmem_size=shared)


STATIC_SHARED = 48 * 1024
"""Bytes of shared memory that every kernel may have."""
_allowed: set[tuple[Any, ...]] = set()


def allow_shared(function: Any, device: int, args: tuple[Any, ...], n_bytes: int) -> None:
    """Compile a kernel for the current device, and allow it so much dynamic shared memory there:
    beyond ``STATIC_SHARED`` the driver must be told before a launch."""
    if n_bytes <= STATIC_SHARED:
        return
    key = (function, device, n_bytes, *map(kind_of, args))
    if key not in _allowed:
        function.compile(tuple(map(function.typeof_pyval, args)))
        set_most_shared(_compiled(function, args), device, n_bytes)
        _allowed.add(key)


def set_most_shared(kernel: Any, device: int, n_bytes: int) -> None:
    """Set how much dynamic shared memory a kernel of ``cuda.core`` may have on a device."""
    from cuda.bindings import driver

    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    (error,) = driver.cuKernelSetAttribute(attribute, n_bytes, kernel.handle, device)
    if error != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"A block of device {device} has no {n_bytes} bytes of shared memory.")
