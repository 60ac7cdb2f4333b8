"""Kernels that were compiled before: one native library in the wheel, called without Numba.

``python -m building`` writes the folder ``kernels/prebuilt``: a library for each level of the
machine's processors, and a table of the kernels and types of arguments in them. A library runs only
what the sources say: its table holds a stamp of all the files that its kernels are made of. What
is not in it is compiled by Numba.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
import json
import os
import platform
import sys
import sysconfig
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from .system import ForkSafeLock, processor_features

FOLDER = Path(__file__).parents[1] / "prebuilt"
TABLE = "cpu.json"
FORMAT = 3
PACKAGE = Path(__file__).parents[2]
"""The folder that holds ``kernels``: files of a stamp are named from here."""

LEVELS = {
    "x86-64": {
        "x86-64-v3": "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave",
        "x86-64-v2": "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3",
    },
    "arm64": {"armv8-a": ""},
}
"""Levels of processors by architecture, the best first, and what Linux calls the features they
add."""
ARCHITECTURES = {"x86_64": "x86-64", "amd64": "x86-64", "aarch64": "arm64", "arm64": "arm64"}
"""Names of the architectures on different systems."""
WHEELS = {
    "Linux": ("x86-64", "arm64"), "Darwin": ("x86-64", "arm64"), "Windows": ("x86-64",),
}  # fmt: skip
"""The systems that have a wheel with compiled kernels, and their architectures."""

NUMBERS: dict[Any, tuple[bytes, str]] = {
    int: (b"p", "int64"),
    float: (b"d", "float64"),
    bool: (b"b", "bool"),
    np.float64: (b"d", "float64"),
    np.float32: (b"s", "float32"),
    np.bool_: (b"b", "bool"),
    **{
        np.dtype(f"{sign}int{bits}").type: (b"i", f"{sign}int{bits}")
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
}
"""Types of numbers: how ``building/calls.c`` reads them, and how keys name them."""


FUNCTIONS = (
    "gpuens_know", "gpuens_called", "gpuens_start", "gpuens_kernel", "gpuens_learn", "gpuens_words",
)  # fmt: skip
"""The functions of a library for its caller; the others are kernels."""


class Unusable(Exception):  # noqa: N818
    """There is no library to use; the text says why."""


class Damaged(Unusable):
    """The library cannot be used because its files are not as they were built."""


class KernelSource(Protocol):
    """A source of kernels that Numba need not compile."""

    def bind(self, kernel: Any) -> Callable[..., Any]:
        """Return the function that runs a kernel."""


# What a kernel was compiled for: the build and the caller form keys by these functions.


def name_of(kernel: Any) -> str:
    """Return the name of a kernel in the table."""
    return f"{kernel.__module__}.{kernel.__qualname__}"


def key_of(arguments: Iterable[Any]) -> str:
    """Return what the machine code of a kernel depends on, by its arguments.

    Raises
    ------
    LookupError
        An argument is of a type that only Numba knows.
    """
    return ", ".join(map(_kind, arguments))


def _kind(argument: Any) -> str:
    cls = type(argument)
    if cls is np.ndarray:
        flags = argument.flags
        layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        access = "" if flags.writeable else " read-only"
        return f"{_name(argument.dtype)}[{argument.ndim}{layout}{access}]"
    if isinstance(argument, tuple):
        name = f"{cls.__module__}.{cls.__qualname__}" if cls is not tuple else ""
        return f"{name}({key_of(argument)})"
    if cls in NUMBERS and (cls is not int or -(2**63) <= argument < 2**63):
        return NUMBERS[cls][1]
    raise LookupError(f"{cls.__module__}.{cls.__qualname__}")


@functools.cache
def _name(dtype: np.dtype) -> str:
    return str(dtype.descr) if dtype.fields else dtype.str


def stamp_of(files: Iterable[str]) -> str:
    """Return a hash of sources, which are named from the folder of the package."""
    digest = hashlib.sha256()
    for name in files:
        digest.update((PACKAGE / name).read_bytes())
    return digest.hexdigest()


def digest_of(path: Path) -> str:
    """Return a hash of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


# The library.


class Library:
    """An open library.

    Attributes
    ----------
    level : str
        The processors that it is for.
    used : set of str
        The kernels that ran from it.
    missed : Counter
        Calls that Numba compiled for, by the kernel's name and the key of the arguments.
    """

    def __init__(self, level: str, path: Path, table: dict[str, dict[str, list[str]]]) -> None:
        self.level, self.table = level, table
        self.used: set[str] = set()
        self.missed: Counter[tuple[str, str]] = Counter()
        try:
            self._library = library = ctypes.PyDLL(str(path))
            for name in FUNCTIONS:
                getattr(library, name)
        except (OSError, AttributeError) as error:
            raise Damaged(str(error)) from error
        self._start()
        library.gpuens_know.argtypes = ctypes.py_object, ctypes.c_char
        library.gpuens_know.restype = None
        library.gpuens_kernel.argtypes = ctypes.c_char_p, ctypes.py_object
        library.gpuens_kernel.restype = ctypes.py_object
        library.gpuens_learn.argtypes = (
            ctypes.py_object, ctypes.py_object, ctypes.c_void_p, ctypes.c_char,
        )  # fmt: skip
        library.gpuens_words.argtypes = (ctypes.py_object,)
        library.gpuens_words.restype = ctypes.py_object
        library.gpuens_know(np.ndarray, b"a")
        for cls, (meaning, _) in NUMBERS.items():
            library.gpuens_know(cls, meaning)
        self._compare_layouts()

    def _start(self) -> None:
        """Give the library the addresses of the functions and objects of Python that it needs."""
        library = self._library
        library.gpuens_called.restype = ctypes.c_char_p
        library.gpuens_start.argtypes = ctypes.c_void_p, *[ctypes.py_object] * 2
        library.gpuens_start.restype = None
        called = list(iter(map(library.gpuens_called, itertools.count()).__next__, None))
        try:
            functions = [getattr(ctypes.pythonapi, name.decode()) for name in called]
        except AttributeError as error:
            raise Unusable(f"this Python lacks a function ({error})") from error
        addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in functions]
        table = (ctypes.c_void_p * len(addresses))(*addresses)
        library.gpuens_start(table, None, MemoryError)

    def _compare_layouts(self) -> None:
        """Refuse a Python or a NumPy whose objects are laid out in another way."""
        record = np.zeros(3, [("a", np.int8), ("b", np.float64)])
        arrays = np.arange(24.0).reshape(2, 3, 4)[:, ::2], np.asfortranarray(np.eye(3)), record
        expected: list[int] = []
        for array in arrays:
            address = array.__array_interface__["data"][0]
            expected += (0, 0, array.size, array.itemsize, address, *array.shape, *array.strides)
        numbers = 7, np.uint8(9), True, 1.5, np.float32(2.5)
        of_numbers = 7, 9, 1, 0x3FF8000000000000, 0x40200000
        if self._library.gpuens_words((*arrays, numbers)) != (*expected, *of_numbers):
            raise Unusable("this Python or NumPy lays out its objects in another way")

    def bind(self, kernel: Any) -> Callable[..., Any]:
        """Return the function that runs a kernel, from the library where it has it."""
        name = name_of(kernel)

        def first(*arguments: Any) -> Any:
            """Run it with arguments whose types it is called with for the first time."""
            try:
                key = key_of(arguments)
            except LookupError as error:
                key = str(error)
            if key in self.table.get(name, ()):
                symbol, result = self.table[name][key]
                machine_code: Any = getattr(self._library, symbol, None)
                address = ctypes.cast(machine_code, ctypes.c_void_p)
                if address and self._library.gpuens_learn(run, arguments, address, result.encode()):
                    self.used.add(name)
                    return run(*arguments)
            self.missed[name, key] += 1
            return kernel.made(*arguments)

        run: Callable[..., Any] = self._library.gpuens_kernel(name.encode(), first)
        return run


def open_library(folder: Path = FOLDER) -> Library:
    """Open the library for this processor.

    Raises
    ------
    Unusable
        Says why there is none.
    """
    chosen = os.environ.get("GPUENS_KERNELS", "native")
    if chosen not in ("native", "compiled"):
        raise ValueError(f"GPUENS_KERNELS must be 'native' or 'compiled', got {chosen!r}.")
    if chosen == "compiled":
        raise Unusable("GPUENS_KERNELS=compiled is set")
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise Unusable("there is none for PyPy and free-threaded Python")
    try:
        text = (folder / TABLE).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise Unusable("this installation comes without a library") from None
    except OSError as error:
        raise Damaged(str(error)) from error
    try:
        table = json.loads(text)
        if table["format"] != FORMAT:
            raise Unusable("the library is of another version")
        level = _level(table["libraries"])
        file, digest = table["libraries"][level]
        if _stamp(tuple(table["sources"])) != table["stamp"]:
            raise Unusable("it was compiled from other sources")
        if digest_of(folder / file) != digest:
            raise Damaged(f"{file} is not the file that was built")
        kernels = table["kernels"]
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise Damaged(f"{type(error).__name__}: {error}") from error
    return Library(level, folder / file, kernels)


def _stamp(files: tuple[str, ...]) -> str:
    try:
        return stamp_of(files)
    except OSError:  # sources were deleted
        return ""


def _level(built: Iterable[str]) -> str:
    """Return the best level of this processor that there is a library for."""
    if not has_wheel():
        raise Unusable(f"there is none for {platform.system()} on {platform.machine()}")
    here = levels()
    if here.keys().isdisjoint(built):
        raise Unusable(f"it is for {' and '.join(built)}, not for {platform.machine()}")
    features, needed, found = processor_features(), set[str](), None
    for level, added in reversed(here.items()):
        needed |= set(added.split())
        if level in built and needed <= features:
            found = level
    if found is None:
        raise Unusable(f"this processor is below {' and '.join(built)}")
    return found


def architecture() -> str:
    """Return the architecture of this process, empty where it has no levels."""
    return ARCHITECTURES.get(platform.machine().lower(), "")


def levels() -> dict[str, str]:
    """Return the levels of this architecture."""
    return LEVELS.get(architecture(), {})


def has_wheel() -> bool:
    """Return whether there is a wheel with compiled kernels for this system."""
    return architecture() in WHEELS.get(platform.system(), ())


def is_from_sources(folder: Path = FOLDER) -> bool:
    """Return whether this installation lacks what the wheel for this system brings."""
    return has_wheel() and not folder.is_dir()


# The library of this process.

_lock = ForkSafeLock()
_opened: KernelSource | str | None = None
"""The source of kernels, or why there is none; None before the first kernel runs."""


def source() -> KernelSource | str:
    """Return the source of this process's kernels, or why Numba compiles all of them."""
    global _opened
    with _lock.held:
        if _opened is None:
            try:
                _opened = open_library()
            except Unusable as error:
                _opened = str(error)
                if isinstance(error, Damaged):
                    warnings.warn(
                        f"The compiled kernels that came with gpuens cannot be used ({error}): "
                        "Numba compiles them at their first use, which takes up to a minute. "
                        "Install gpuens again: pip install --force-reinstall --no-deps gpuens",
                        RuntimeWarning,
                        stacklevel=2,
                    )
        return _opened


def use(chosen: KernelSource | str | None) -> None:
    """Take the kernels that are first called from now on from another source; None: the one that
    is found."""
    global _opened
    with _lock.held:
        _opened = chosen


def bound(kernel: Any) -> Callable[..., Any]:
    """Return the function that runs a kernel."""
    found = source() if kernel.__module__.startswith("gpuens.") else ""
    return kernel.made if isinstance(found, str) else found.bind(kernel)
