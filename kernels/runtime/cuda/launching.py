"""The launcher: compiled kernels are started by the driver from parameter blocks that are kept.

Numba's launcher inspects every argument at each launch, which takes 110 to 130 µs of Python. Here
every thread keeps a parameter block for each kernel, which the driver reads, and a launch writes
down only the arguments that are not those of the launch before. An array is recognised by its
identity, and by its shape where it has several axes: those of users can be given another shape in
place. Blocks keep no array alive; an array that is deleted is forgotten.

A block has a slot of eight bytes for each word of the arguments in the calling convention of
Numba, which compiles the kernels. A number is one word. An array is two null pointers (its owner,
on the host), the number of its entries, the size of one, the address, the shape and the strides
in bytes.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Sequence
from itertools import compress
from operator import ne
from struct import Struct
from types import ModuleType
from typing import Any
from weakref import ref

import numpy as np

from .. import kernel_origins
from . import errors, precompiled
from .compiling import compiled

NUMBERS = {
    kind: (np.dtype(kind), Struct(f"<{format}"))
    for kind, format in (
        (int, "q"), (float, "d"), (np.int32, "i"), (np.int64, "q"), (np.uint32, "I"),
        (np.uint64, "Q"), (np.float32, "f"), (np.float64, "d"),
    )
}  # fmt: skip
"""The type in the kernel and the bytes of each number that kernels take."""
WORD = 8
OF_ARRAY = tuple(Struct(f"<4qQ{2 * n_axes}q") for n_axes in range(5))
"""The words of an array by its number of axes."""
ADDRESS = 4 * WORD
"""Where the address of an array is among its words."""
STATIC_SHARED = 48 * 1024
"""Bytes of shared memory that every kernel may have."""


def kind_of(argument: Any) -> Any:
    """Return what the specialisation of a kernel depends on: the type of a number, and the type,
    axes and layout of an array.

    Raises
    ------
    TypeError
        Kernels take no such argument.
    """
    number = NUMBERS.get(type(argument))
    if number is not None:
        return number[0]
    if isinstance(argument, np.generic) or not hasattr(argument, "strides"):
        raise TypeError(f"A kernel takes arrays and numbers, not {argument!r}.")
    return argument.dtype, len(argument.shape), layout_of(argument)


def layout_of(array: Any) -> str:
    """Return ``C``, ``F`` or ``A``, as Numba names memory layouts.

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


class Parameters:
    """The parameter block of a kernel that one thread starts on one device.

    Attributes
    ----------
    kernel : Loaded
    ids : list
        The identity of each argument whose words the block has. That of an array is overwritten
        when it is deleted, before another object can be given it.
    pointers : int
        The address of the table of the addresses of all words, as the driver expects it.
    """

    def __init__(self, function: Any, device: int, args: Sequence[Any]) -> None:
        self.function, self.device = function, device
        self.bind(args)

    def bind(self, args: Sequence[Any]) -> None:
        """Choose the kernel for arguments of these kinds, and write all of them."""
        kinds = tuple(map(kind_of, args))
        self.kernel = kernel_for(self.function, self.device, kinds)
        n_words = [1 + (ADDRESS // WORD + 2 * k[1] if isinstance(k, tuple) else 0) for k in kinds]
        self._offsets = [WORD * n for n in np.cumsum([0, *n_words]).tolist()]
        self._words = np.zeros(sum(n_words), np.int64)
        begin = self._words.ctypes.data
        # The driver reads a table of addresses, one for each word. Neither moves as long as the
        # block lives, so that both are written once.
        self._pointers = np.arange(begin, begin + self._words.nbytes, WORD, np.uint64)
        self.pointers = self._pointers.ctypes.data
        self._addresses = memoryview(self._words.view(np.uint64))
        self._places = [(offset + ADDRESS) // WORD for offset in self._offsets]
        self._all = range(len(args))
        self._types: list[type | None] = [None] * len(args)
        self.kinds = kinds
        self.ids: list[Any] = [None] * len(args)
        # Called when an array is deleted: another object may get its identity.
        self._forget = [functools.partial(self.ids.__setitem__, i) for i in range(len(args))]
        self._held: list[Any] = [None] * len(args)
        self._lies: list[Any] = [None] * len(args)
        self._shapes: dict[int, tuple[int, ...]] = {}
        for i, argument in enumerate(args):
            self._put(i, argument)

    def write(self, args: Sequence[Any]) -> None:
        """Write the arguments that are not those of the block."""
        # The common launch has the same objects as the one before: comparing identities is all it
        # costs.
        ids = list(map(id, args))
        if ids != self.ids:
            if len(ids) != len(self.ids):
                self.bind(args)
                return
            for i in list(compress(self._all, map(ne, ids, self.ids))):
                argument = args[i]
                if type(argument) is self._types[i] and self._lies[i] == (
                    argument.dtype, argument.shape, argument.strides
                ):  # fmt: skip
                    # Another array of the same form: only its address differs.
                    self._addresses[self._places[i]] = argument.data.ptr
                    self._held[i] = ref(argument, self._forget[i])
                    self.ids[i] = ids[i]
                elif not self._put(i, argument):
                    self.bind(args)
                    return
        # Identity does not notice an array that was given another shape in place.
        for i, shape in self._shapes.items():
            if args[i].shape != shape:
                self.bind(args)
                return

    def _put(self, i: int, argument: Any) -> bool:
        """Write an argument, and return whether it is of the kind that the kernel is for."""
        offset = self._offsets[i]
        number = NUMBERS.get(type(argument))
        if number is not None:
            if number[0] != self.kinds[i]:
                return False
            number[1].pack_into(self._words, offset, argument)
            self._held[i] = argument
        else:
            if kind_of(argument) != self.kinds[i]:
                return False
            dtype, shape, strides = argument.dtype, argument.shape, argument.strides
            self._lies[i], self._types[i] = (dtype, shape, strides), type(argument)
            OF_ARRAY[len(shape)].pack_into(
                self._words, offset, 0, 0, argument.size, dtype.itemsize, argument.data.ptr,
                *shape, *strides,
            )  # fmt: skip
            if len(shape) > 1:
                self._shapes[i] = shape
            self._held[i] = ref(argument, self._forget[i])
        self.ids[i] = id(argument)
        return True


class _OfThread(threading.local):
    """The parameter blocks of a thread, by kernel and device."""

    def __init__(self) -> None:
        self.parameters: dict[tuple[Any, int], Parameters] = {}


_of_thread = _OfThread()


def start(
    function: Any,
    blocks: int | tuple[int, int],
    threads: int,
    device: int,
    stream: int,
    args: tuple[Any, ...],
    shared: int = 0,
) -> None:
    """Launch a kernel on a stream of the current device.

    Raises
    ------
    RuntimeError
        The driver refuses the launch.
    """
    # Parameter blocks are a thread's own, so that launches of several threads need no lock.
    key = (function, device)
    parameters = _of_thread.parameters.get(key)
    if parameters is None:
        enter(device)
        parameters = _of_thread.parameters[key] = Parameters(function, device, args)
    else:
        parameters.write(args)
    if shared > parameters.kernel.shared:
        allow(parameters, shared)
    width, height = blocks if isinstance(blocks, tuple) else (blocks, 1)
    (status,) = bindings().cuLaunchKernel(
        parameters.kernel.handle, width, height, 1, threads, 1, 1, shared, stream_at(stream),
        parameters.pointers, 0,
    )  # fmt: skip
    if status:
        check(function, status, f" with {width:,} x {height:,} blocks of {threads:,} threads")


def check(function: Any, status: Any, how: str = "") -> None:
    """Raise an error unless the driver reports success.

    Raises
    ------
    RuntimeError
    """
    if status:
        name = function.py_func.__qualname__
        raise RuntimeError(
            f"The CUDA driver does not start the kernel {name}{how}: {errors.remedy(status.name)}"
        )


def allow(parameters: Parameters, shared: int) -> None:
    """Let a kernel have so many bytes of dynamic shared memory in all threads.

    Raises
    ------
    RuntimeError
        The device has less.
    """
    driver, kernel = bindings(), parameters.kernel
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    with _loading:
        # Again under the lock: another thread may have asked for as much meanwhile.
        if shared > kernel.shared:
            (status,) = driver.cuKernelSetAttribute(
                attribute, shared, driver.CUkernel(int(kernel.handle)), parameters.device
            )
            check(parameters.function, status, f" with {shared:,} bytes of shared memory a block")
            kernel.shared = shared


class Loaded:
    """A kernel on a device.

    Parameters
    ----------
    compiled : cuda.core.Kernel
        Keeps it loaded.

    Attributes
    ----------
    handle : CUfunction
    shared : int
        Bytes of dynamic shared memory that it may have.
    """

    def __init__(self, compiled: Any) -> None:
        self.handle = bindings().CUfunction(int(compiled.handle))
        self.shared = STATIC_SHARED
        self._compiled = compiled


_kernels: dict[tuple[Any, ...], Loaded] = {}
"""By function, device and kinds."""
_loading = threading.Lock()


def kernel_for(function: Any, device: int, kinds: tuple[Any, ...]) -> Loaded:
    """Return the kernel for arguments of these kinds, compiled ahead or at its first launch.

    A compiled kernel belongs to its device: its address is meaningless on another one.
    """
    key = (function, device, *kinds)
    # One thread compiles or loads a kernel, the others wait for it.
    with _loading:
        if key not in _kernels:
            found = precompiled.find(function, device, kinds)
            if found is None:
                found = compiled(function, kinds)
                kernel_origins.note(kernel_origins.COMPILED, function)
            _kernels[key] = Loaded(found)
        return _kernels[key]


@functools.cache
def bindings() -> ModuleType:
    """Return the driver's functions. They release the GIL."""
    from cuda.bindings import driver

    return driver


def enter(device: int) -> None:
    """Make the memory of a device, which is CuPy's current one, this thread's: nothing that CuPy
    does without the device does so.

    Raises
    ------
    RuntimeError
        The driver refuses it.
    """
    from cuda.core import Device

    try:
        Device(device).set_current()
    except Exception as error:  # of cuda-core, with a type of its own
        name = errors.name_in(error)
        if name is None:
            raise
        raise RuntimeError(
            f"The CUDA driver gives no context on cuda:{device}: {errors.remedy(name)}"
        ) from error


@functools.cache
def stream_at(pointer: int) -> Any:
    """Return the stream at an address."""
    return bindings().CUstream(pointer)
