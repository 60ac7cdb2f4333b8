"""Kernels on hardware: how Numba compiles them, and how compiled ones are kept on disk.

Numba keeps kernels by argument types, compute capability and the versions of CUDA, numba-cuda and
Numba, in ``__pycache__`` beside this file or in ``NUMBA_CACHE_DIR``. Of functions in a kernel's
closure it takes the pickled bytes, which are others in every process: here they are described by
name and source (see ``runtime.disk`` for the rest of the cache).
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import CellType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from ...scalars.lazy_jit import declaration
from ..disk import keep_on_disk

RELEASE = re.compile(r"Cuda compilation tools, release (\d+)\.(\d+)")
"""Line of PTX with the version of libNVVM."""
PACKAGE = __package__.removesuffix(".runtime.cuda")


@functools.cache
def numba_cuda() -> ModuleType:
    """Import Numba's module ``cuda`` with its declarations for arrays.

    Raises
    ------
    ImportError
        numba-cuda is not installed. Numba's own, older one is never used.
    """
    if not is_installed():
        raise ImportError("The package numba-cuda is not installed.")
    with newest_numpy_allowed():
        cuda = import_module("numba.cuda")
        import_module("numba.cuda.cudaimpl")
    return cuda


@contextmanager
def newest_numpy_allowed() -> Iterator[None]:
    """Let numba-cuda 0.30 be imported inside the block with NumPy 2.5: it declares a version of
    ``row_stack``, which is not there any more, and calls once what is deprecated."""
    names = vars(np)
    is_missing = "row_stack" not in names
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The 'generic' unit for NumPy", DeprecationWarning)
        if is_missing:
            names["row_stack"] = np.vstack
        try:
            yield
        finally:
            if is_missing:
                del names["row_stack"]


def is_installed() -> bool:
    """Return whether numba-cuda is installed; kernels that came compiled do without it."""
    return find_spec("numba_cuda") is not None


def declaration_for_cuda(function: Callable[[], None]) -> None:
    """Let a function that registers overloads for CUDA run before anything is compiled, if there is
    a compiler for CUDA: what is compiled for the CPU needs none."""

    def declare() -> None:
        try:
            numba_cuda()
        except Exception:  # which the compilation of a kernel for CUDA raises
            return
        function()

    declaration(declare)


# Whether the compiler works: each step raises an error of one of several libraries if not.

TRIAL = """target triple = "nvptx64-nvidia-cuda"
target datalayout = "{layout}"
define void @trial() {{
  ret void
}}
!nvvmir.version = !{{!0}}
!0 = !{{i32 {}, i32 {}, i32 {}, i32 {}}}
"""
"""A function that does nothing, as libNVVM reads it."""


def read_declarations() -> None:
    """Import everything that numba-cuda compiles with."""
    numba_cuda()
    from numba.cuda.descriptor import cuda_target

    cuda_target.typing_context.refresh()
    cuda_target.target_context.refresh()


def trial_ptx(capability: tuple[int, int]) -> str:
    """Return the PTX that libNVVM writes of ``TRIAL`` for a compute capability."""
    numba_cuda()
    from numba.cuda.cudadrv import nvrtc, nvvm

    library = nvvm.NVVM()
    text = TRIAL.format(*library.get_ir_version(), layout=library.data_layout)
    arch = nvrtc.get_arch_option(*architecture_of(capability))
    return nvvm.compile_ir(text, arch=arch).decode().strip("\0")


def link_trial(ptx: str, capability: tuple[int, int]) -> None:
    """Link PTX as numba-cuda does: by nvJitLink, by the driver where that is missing."""
    from cuda.core import Linker, LinkerOptions, ObjectCode

    options = LinkerOptions(arch="sm_{}{}{}".format(*architecture_of(capability)))
    Linker(ObjectCode.from_ptx(ptx.encode()), options=options).link("cubin")


def nvjitlink_version() -> tuple[int, int] | None:
    """Return the version of CUDA that nvJitLink is of, None if it is not found."""
    try:
        from cuda.bindings import nvjitlink

        major, minor = nvjitlink.version()
    except Exception:  # of cuda-bindings and cuda-pathfinder, with types of their own
        return None
    return int(major), int(minor)


def release_of(ptx: str) -> str:
    """Return the version of CUDA that the libNVVM of PTX is of."""
    found = RELEASE.search(ptx)
    return f"{found[1]}.{found[2]}" if found else "an unknown version"


def architecture_of(capability: tuple[int, int]) -> tuple[int, int, str]:
    """Return what numba-cuda compiles for: from 9.0 on with what is not in later architectures."""
    return (*capability, "a" if capability >= (9, 0) else "")


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
        # A function from outside of the package has no description that would change with it.
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
        # The line tells apart functions of one name, as the branches of a factory define them.
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
    if not is_installed():
        raise RuntimeError(
            f"The kernel {function.py_func.__qualname__} did not come compiled for this GPU, these "
            "types or a custom loss, and the package numba-cuda, which compiles it, is not "
            "installed. Run: pip install 'gpuens[cuda13]', or 'gpuens[cuda12]' for a driver of "
            "CUDA 12."
        )
    return function.compile(types_of(kinds))._codelibrary.get_cufunc().kernel
