"""Compilation of functions: kernels that Python calls, and what these call."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from ..scalars.lazy_jit import Function, deferred, in_python, lazy_property

_CALLED: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": False,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "_nrt": False,
}

inner = deferred(**_CALLED)
"""The decorator of functions that compiled functions call. They have no entry from Python,
whose compilation would cost more than their own (see ``callable_from_python``), and they cannot
allocate, so that Numba does not count references: each view of an array would cost two atomic
additions, more than the work on a short line.

A constant argument has a type of its own: where other calls pass values, ``i64(1)`` in place of 1
spares the compilation of a second version."""

inlined = deferred(**_CALLED, inline="always")
"""``inner`` for functions that take tuples of many arrays: a tuple is passed word by word, which
costs more than a short function's work. They become part of their caller before it is compiled,
so that a long one should have one caller."""

fused = deferred(**_CALLED, forceinline=True)
"""``inlined`` for long functions: they are typed on their own, and LLVM makes them part of their
caller. Numba takes a time for ``inlined`` ones that grows with the square of what they call: a
first tree of CART took 50 CPU seconds to compile where all were, and takes 20. Those that return an
array of their own, such as a line of a larger one, have to be ``inlined``."""

_OPTIONS = {
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": False,
    "no_cfunc_wrapper": True,
}


class CpuKernel(Function):
    """A function that Python calls: from the native library, or compiled on first use and kept on
    disk."""

    @lazy_property
    def _run(self) -> Callable[..., Any]:
        from .native import bound  # here, so that no kernel is stamped with that file

        return bound(self)

    def __call__(self, *args: Any) -> Any:
        return self.py_func(*map(with_fields, args)) if in_python.get() else self._run(*args)

    def _make(self, numba: ModuleType) -> Any:
        from .disk import keep_on_disk  # here, so that no kernel is stamped with that file

        compiled = self._make_callable(numba)
        keep_on_disk(compiled)
        return compiled


def with_fields(value: Any) -> Any:
    """Return records, also those in tuples, whose fields are attributes as in compiled code; for
    plain Python. What already is so stays: callers of many functions convert once."""
    if type(value) is np.ndarray:
        return value if value.dtype.names is None else Records(value)
    if isinstance(value, tuple) and not any(type(part) is Records for part in value):
        parts = map(with_fields, value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def arguments(value: Any) -> Any:
    """Return an argument in the form that functions called from Python take here, for callers that
    pass it many times."""
    return with_fields(value) if in_python.get() else value


class Records:
    """Records of NumPy, each with its fields as attributes; NumPy's own take ten times as long."""

    __slots__ = ("_values", "size")

    def __init__(self, values: np.ndarray) -> None:
        self._values = values
        self.size = values.size

    def __getitem__(self, key: Any) -> Any:
        found = self._values[key]
        return _Record(found) if type(found) is np.void else Records(found)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._values[key] = value._values if isinstance(value, _Record) else value


class _Record:
    """One of ``Records``: a view."""

    __slots__ = ("_values",)

    def __init__(self, values: np.void) -> None:
        object.__setattr__(self, "_values", values)

    def __getattr__(self, name: str) -> Any:
        return self._values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self._values[name] = value


def kernel(function: Callable[..., Any]) -> CpuKernel:
    """Decorate a CPU kernel: it is compiled on first use and kept on disk."""
    return CpuKernel(function, _OPTIONS)


def kernel_without_allocation(function: Callable[..., Any]) -> CpuKernel:
    """Decorate a CPU kernel that creates no arrays (see ``inner``)."""
    return CpuKernel(function, {**_OPTIONS, "_nrt": False})


def callable_from_python(function: Function) -> CpuKernel:
    """Return an ``inner`` function with an entry from Python."""
    return kernel(function.py_func)
