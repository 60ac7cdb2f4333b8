"""Which implementation of an operation runs: the only place that asks."""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from types import ModuleType
from typing import Any

from array_api_compat import is_cupy_array, is_numpy_array


class Implementation(enum.Enum):
    """The folders that hold an operation under the same file name."""

    REFERENCE = "reference"
    CPU = "cpu"
    CUDA = "cuda"


_forced: ContextVar[Implementation | None] = ContextVar("gpuens_implementation", default=None)


@contextmanager
def using(implementation: Implementation) -> Iterator[None]:
    """Run every operation inside the block with one implementation.

    Without it the arrays decide: NumPy runs on the CPU, CuPy on CUDA, anything else on the
    reference. The simulator, whose arrays are NumPy's, needs it, and so do the tests.
    """
    token = _forced.set(implementation)
    try:
        yield
    finally:
        _forced.reset(token)


def implementation_for(array: Any) -> Implementation:
    """The implementation that runs an operation whose first array is ``array``."""
    forced = _forced.get()
    if forced is not None:
        return forced
    if is_numpy_array(array):
        return Implementation.CPU
    if is_cupy_array(array):
        return Implementation.CUDA
    return Implementation.REFERENCE


def implementation(contract: str, array: Any) -> ModuleType:
    """Return the module that implements an operation for an array.

    Parameters
    ----------
    contract : str
        ``__name__`` of the module that holds the operation's contract. The implementations
        are in the folders beside it, under the same file name.
    array : array
        The operation's main argument.
    """
    return _module(contract, implementation_for(array))


@functools.cache
def _module(contract: str, implementation: Implementation) -> ModuleType:
    room, _, op = contract.rpartition(".")
    return import_module(f"{room}.{implementation.value}.{op}")
