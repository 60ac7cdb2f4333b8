"""Functions of the user's, for losses and metrics."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from numba import types
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError

from ..kernels.scalars.primitives import formula


def check_function(function: Any, arguments: tuple[str, ...], name: str) -> None:
    """Refuse what cannot be called with so many arguments.

    Raises
    ------
    TypeError
        Names the function, its signature and the one that is wanted.
    """
    wanted = f"{name}({', '.join(arguments)})"
    if not callable(function):
        raise TypeError(f"{name} must be a function {wanted}, got {function!r}.")
    try:
        signature = inspect.signature(_python(function))
    except ValueError:  # a built-in function that does not tell
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise TypeError(
            f"{name} must be a function {wanted}, got {_name(function)}{signature}."
        ) from error


def compiled(function: Any, arguments: tuple[str, ...], name: str) -> Any:
    """A scalar function as CPU kernels and CUDA kernels call it.

    Parameters
    ----------
    function : function of numbers
        As Numba compiles it; or one that Numba's ``njit`` made.
    arguments : tuple of str
        What it takes: float64 each.
    name : str
        What it is called in errors.

    Raises
    ------
    TypeError
        It takes other arguments, Numba cannot compile it, or its result is no number.
    """
    check_function(function, arguments, name)
    if not (inspect.isfunction(function) or isinstance(function, Dispatcher)):
        raise TypeError(
            f"{name} must be a Python function, which Numba can compile, got {function!r}."
        )
    return _compiled(function, len(arguments), name)


@functools.lru_cache(maxsize=256)
def _compiled(function: Any, n_arguments: int, name: str) -> Any:
    dispatcher = function if isinstance(function, Dispatcher) else formula(function)
    signature = (types.float64,) * n_arguments
    try:
        dispatcher.compile(signature)
    except NumbaError as error:
        reason = " ".join(line.strip() for line in str(error).splitlines() if line.strip())
        raise TypeError(
            f"{name}={_name(function)} cannot be compiled by Numba: write it as a function of "
            "single numbers, without arrays or objects, or pass an array function. Numba says: "
            f"{reason}"
        ) from error
    result = dispatcher.overloads[signature].signature.return_type
    if not isinstance(result, (types.Integer, types.Float, types.Boolean)):
        raise TypeError(f"{name}={_name(function)} must return a number, got {result}.")
    return dispatcher


def _python(function: Any) -> Callable[..., Any]:
    return function.py_func if isinstance(function, Dispatcher) else function


def _name(function: Any) -> str:
    return getattr(function, "__name__", repr(function))


def named(**functions: Any) -> str:
    """``a=f, b=g`` of functions, for representations; leaves out None."""
    given = (f"{key}={_name(value)}" for key, value in functions.items() if value is not None)
    return ", ".join(given)
