"""Kernels on hardware: how Numba compiles them, and how compiled ones are kept on disk.

Numba keeps kernels by argument types, compute capability and the versions of CUDA, numba-cuda and
Numba, in ``__pycache__`` beside this file or in ``NUMBA_CACHE_DIR``. Of functions in a kernel's
closure it takes the pickled bytes, which are others in every process: here they are described by
name and source (see ``runtime.disk`` for the rest of the cache).
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from types import CellType, SimpleNamespace
from typing import Any

import numpy as np

from ..disk import keep_on_disk

PACKAGE = __package__.removesuffix(".runtime.cuda")


def load_compiler() -> None:
    """Load the libraries that Numba compiles kernels with: an error names the missing one."""
    from cuda.pathfinder import load_nvidia_dynamic_lib
    from numba.cuda.cudadrv.nvvm import NVVM

    NVVM()
    load_nvidia_dynamic_lib("nvJitLink")


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
    if keep_on_disk(compiled) and closure:
        named = SimpleNamespace(__code__=function.__code__, __closure__=(CellType(closure),))
        compiled._cache._py_func = named  # the index takes no more than these of a function
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


def types_of(kinds: Iterable[Any]) -> tuple[Any, ...]:
    """Return the types in Numba of arguments of these kinds (see ``launching.kind_of``)."""
    from numba import from_dtype, types

    return tuple(
        types.Array(from_dtype(kind[0]), *kind[1:]) if isinstance(kind, tuple) else from_dtype(kind)
        for kind in kinds
    )


def kinds_of(arguments: Iterable[Any]) -> tuple[Any, ...]:
    """Return the kinds of arguments of these types in Numba."""
    from numba import types
    from numba.np.numpy_support import as_dtype

    return tuple(
        (as_dtype(kind.dtype), kind.ndim, kind.layout)
        if isinstance(kind, types.Array)
        else as_dtype(kind)
        for kind in arguments
    )


def compiled(function: Any, kinds: Iterable[Any]) -> Any:
    """Return the kernel of ``cuda.core`` that Numba compiles for the current device, or loads from
    the disk.

    Raises
    ------
    RuntimeError
        numba-cuda is not installed.
    """
    if find_spec("numba_cuda") is None:
        raise RuntimeError(
            f"The kernel {function.py_func.__qualname__} did not come compiled for this GPU, these "
            "types or a custom loss, and the package numba-cuda, which compiles it, is not "
            "installed. Run: pip install 'gpuens[cuda13]', or 'gpuens[cuda12]' for a driver of "
            "CUDA 12."
        )
    return function.compile(types_of(kinds))._codelibrary.get_cufunc().kernel
