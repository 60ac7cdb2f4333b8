"""How functions are compiled for the CPU."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.dispatcher import Dispatcher

from .cache_files import name_data_by_key

inner = njit(
    nogil=True,
    error_model="numpy",
    boundscheck=False,
    no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
    _nrt=False,
)
"""The decorator of functions that compiled functions call. They have no entry from Python,
whose compilation would cost more than their own (see ``callable_from_python``), and they cannot
allocate, so that Numba does not count references: each view of an array would cost two atomic
additions, more than the work on a short line."""

inlined = njit(
    nogil=True,
    error_model="numpy",
    boundscheck=False,
    no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
    _nrt=False,
    inline="always",
)
"""``inner`` for functions that take tuples of many arrays: a tuple is passed word by word, which
costs more than a short function's work. They become part of their caller before it is compiled,
so that a long one should have one caller."""

_cached = njit(
    nogil=True, cache=True, error_model="numpy", boundscheck=False, no_cfunc_wrapper=True
)


_cached_without_allocation = njit(
    nogil=True,
    cache=True,
    error_model="numpy",
    boundscheck=False,
    no_cfunc_wrapper=True,
    _nrt=False,
)


def kernel(function: Callable[..., Any]) -> Any:
    """The decorator of every CPU kernel: compiled on first use, kept on disk.

    Numba's cache notices changes of the file that a kernel stands in, but a kernel is made of
    functions from many files; so the stamp of its cache entry is that of all of them.
    """
    return _stamped(_cached(function))


def kernel_without_allocation(function: Callable[..., Any]) -> Any:
    """The same for a kernel that creates no arrays (see ``inner``)."""
    return _stamped(_cached_without_allocation(function))


def _stamped(compiled: Any) -> Any:
    cache_file = getattr(compiled._cache, "_cache_file", None)
    if cache_file is not None:
        own = Path(compiled.py_func.__code__.co_filename)
        cache_file._source_stamp = (cache_file._source_stamp, _stamp_of_sources(own))
        name_data_by_key(cache_file)
    return compiled


def callable_from_python(function: Dispatcher) -> Any:
    """An ``inner`` function with an entry from Python."""
    return kernel(function.py_func)


_IMPORT = re.compile(r"^from (\.+)([\w.]*) import ([\w, ]+|\([^)]*\))", re.MULTILINE)


@functools.cache
def _stamp_of_sources(path: Path) -> str:
    """Hash of the sources that a file's kernels are made of: its own and what it imports."""
    digest = hashlib.sha256()
    for source in sorted(_imported({path}, path)):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _imported(known: set[Path], path: Path) -> set[Path]:
    """Add the files of this package that a file imports, directly or not, to those known."""
    for dots, module, names in _IMPORT.findall(_text(path)):
        folder = path.parents[len(dots) - 1].joinpath(*filter(None, module.split(".")))
        found = [folder.with_suffix(".py"), folder / "__init__.py"]
        found += [folder / f"{name.split(' ')[0]}.py" for name in re.findall(r"\w+", names)]
        for source in found:
            if source not in known and source.is_file():
                known.add(source)
                _imported(known, source)
    return known


@functools.cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
