"""The implementation that runs an operation: the only module that inspects arrays for it."""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import numpy as np
from array_api_compat import is_cupy_array, is_numpy_array

from ..scalars.lazy_jit import in_python
from .arrays import Array


class Implementation(enum.Enum):
    """The folders of a room that implement its operations, each under the same file names."""

    REFERENCE = "reference"
    CPU = "cpu"
    CUDA = "cuda"


_forced: ContextVar[Implementation | None] = ContextVar("gpuens_implementation", default=None)


@contextmanager
def using(implementation: Implementation | None) -> Iterator[None]:
    """Run every operation inside the block with one implementation.

    With None, and without a block, the arrays decide: NumPy runs on the CPU, CuPy on CUDA, anything
    else on the reference. Inside a block of the reference Numba is not used at all. The simulator,
    whose arrays are NumPy's, needs it, and so do the tests.
    """
    token = _forced.set(implementation)
    is_reference = implementation is Implementation.REFERENCE
    plain = in_python.set(is_reference)
    # In Python unsigned numbers wrap and divisions by zero give infinity as in compiled code.
    quiet = np.errstate(all="ignore") if is_reference else nullcontext()
    try:
        with quiet:
            yield
    finally:
        in_python.reset(plain)
        _forced.reset(token)


def using_cuda() -> AbstractContextManager[None]:
    """Run every operation inside the block on CUDA, whatever its arrays are."""
    return using(Implementation.CUDA)


def implementation_for(array: Array) -> Implementation:
    """Return the implementation that runs an operation whose main array is ``array``."""
    forced = _forced.get()
    if forced is not None:
        return forced
    if is_numpy_array(array):
        return Implementation.CPU
    if is_cupy_array(array):
        return Implementation.CUDA
    return Implementation.REFERENCE


def implementation(contract: str, array: Array) -> ModuleType:
    """Return the module that implements the operations of a contract for an array.

    A CPU or CUDA file that would not be faster than the reference is not written: where an
    implementation has no file of the contract's name, the reference runs.

    Parameters
    ----------
    contract : str
        ``__name__`` of the module that holds the contract. The implementations are in the
        folders beside it, under the same file name.
    array : array
        The operation's main argument.
    """
    if type(array) is np.ndarray and _forced.get() is None:  # what a round does nine times
        return _cpu_module(contract)
    return _module(contract, implementation_for(array))


def composed(contract: str) -> ModuleType:
    """Return the module that makes up an operation of others, which dispatch by themselves."""
    return _module(contract, Implementation.REFERENCE)


@functools.cache
def _cpu_module(contract: str) -> ModuleType:
    return _module(contract, Implementation.CPU)


@functools.cache
def _module(contract: str, implementation: Implementation) -> ModuleType:
    room, _, stem = contract.rpartition(".")
    own = f"{room}.{implementation.value}"
    has_own = find_spec(own) and find_spec(f"{own}.{stem}")
    return import_module(f"{own}.{stem}" if has_own else f"{room}.reference.{stem}")
