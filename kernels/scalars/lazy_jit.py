"""Functions that Numba compiles, made without importing Numba until one of them is needed.

A module of kernels holds decorated functions as objects of this file. Compiled code that refers
to one gets Numba's own object in its place: Numba finds it by ``_numba_type_`` and by
``isinstance``.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from types import ModuleType
from typing import Any, TypeVar

Value = TypeVar("Value")


class lazy_property(functools.cached_property[Value]):  # noqa: N801
    """``functools.cached_property`` without the lock that it has until Python 3.12: if a process is
    forked while another thread holds that, it is never released there."""

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        if self.attrname not in instance.__dict__:
            instance.__dict__[self.attrname] = self.func(instance)
        return instance.__dict__[self.attrname]


in_python: ContextVar[bool] = ContextVar("gpuens_in_python", default=False)
"""Whether functions that Python calls run as they are written, without Numba."""

_declarations: list[Callable[[], None]] = []
_declaring = threading.RLock()


def declaration(function: Callable[[], None]) -> Callable[[], None]:
    """Decorate a function that registers overloads: it runs once, before anything is compiled."""
    _declarations.append(function)
    return function


def load_numba() -> ModuleType:
    """Import Numba and register all overloads so far.

    Raises
    ------
    RuntimeError
        Numba compiles nothing in this process.
    """
    import numba

    if numba.config.DISABLE_JIT:
        raise RuntimeError(
            "NUMBA_DISABLE_JIT=1 is set, and the kernels of gpuens run only compiled. Unset it "
            "for this process; functions of your own are not compiled without @njit either."
        )
    with _declaring:
        while _declarations:
            _declarations.pop(0)()
    return numba


class Deferred:
    """A function and, once it is needed, the object that Numba makes of it (``made``)."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function

    @functools.cached_property
    def made(self) -> Any:
        """Return Numba's object for the function."""
        return self._make(load_numba())

    def _make(self, numba: ModuleType) -> Any:
        raise NotImplementedError

    def __call__(self, *args: Any) -> Any:
        return self.made(*args)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python itself asks for these, which must not import Numba
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.made, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__module__}.{self.__qualname__}>"

    def __reduce__(self) -> str:
        return self.__qualname__


class Function(Deferred):
    """A function that Numba compiles with certain options of ``njit``, for compiled functions to
    call."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        super().__init__(function)
        self.options = options

    def _make(self, numba: ModuleType) -> Any:
        from .bitcode import LinkedCompiler  # here: it imports Numba

        options = {**self.options, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        return numba.njit(pipeline_class=LinkedCompiler, **options)(self.py_func)

    def _make_callable(self, numba: ModuleType) -> Any:
        """Return Numba's object for Python to call."""
        return numba.njit(**self.options)(self.py_func)

    @functools.cached_property
    def _entry(self) -> Any:
        return self._make_callable(load_numba())

    def __call__(self, *args: Any) -> Any:
        return self.py_func(*args) if in_python.get() else self._entry(*args)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class that ``isinstance`` sees: numba-cuda recognises by it what it may compile."""
        dispatcher = sys.modules.get("numba.core.dispatcher")
        return getattr(dispatcher, "Dispatcher", type(self))


class Intrinsic(Deferred):
    """A function that writes instructions itself (see ``numba.extending.intrinsic``)."""

    def _make(self, numba: ModuleType) -> Any:
        return numba.extending.intrinsic(self.py_func)

    @functools.cached_property
    def _numba_type_(self) -> Any:
        from numba.core.registry import cpu_target

        cpu_target.typing_context.refresh()
        return cpu_target.typing_context.resolve_value_type(self.made)


def deferred(**options: Any) -> Callable[[Callable[..., Any]], Function]:
    """Return a decorator: ``njit`` with these options, applied when the function is needed."""
    return lambda function: Function(function, options)
