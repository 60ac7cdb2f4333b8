"""Compiled kernels on disk.

Numba keeps them by argument types, compute capability and the versions of CUDA, numba-cuda and
Numba, in ``__pycache__`` beside this file or where ``NUMBA_CACHE_DIR`` says. Two things it leaves
to us. It notices changes of no file but the one that a kernel stands in, and a kernel is made of
functions from many files. And of functions in a kernel's closure it takes the pickled bytes, which
are others in every process.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import CellType, SimpleNamespace
from typing import Any

import numpy as np

from ..cache_files import name_data_by_key
from ..compilation import _stamp_of_sources

PACKAGE = __package__.removesuffix(".runtime.cuda")


def kept_on_disk(compiled: Any) -> Any:
    """The kernel, which is loaded from the disk from its second process on.

    A kernel with functions from outside of this package, as a custom loss has, is compiled in
    every process: nothing says when they change. So is all where no folder can be written to.
    """
    function = compiled.py_func
    cells = function.__closure__ or ()
    try:
        closure = tuple(describe(cell.cell_contents) for cell in cells)
    except LookupError:
        return compiled
    with suppress(RuntimeError):  # Numba finds no place for the cache
        compiled.enable_caching()
        cache = compiled._cache
        stamp = _stamp_of_sources(Path(function.__code__.co_filename))
        cache._cache_file._source_stamp = (cache._cache_file._source_stamp, stamp)
        name_data_by_key(cache._cache_file)
        if closure:
            named = SimpleNamespace(__code__=function.__code__, __closure__=(CellType(closure),))
            cache._py_func = named  # of which the index takes no more than these
    return compiled


def describe(value: Any) -> tuple[Any, ...]:
    """What tells a value in a closure from others, the same in every process as long as the
    sources are the same.

    Raises
    ------
    LookupError
        Nothing does.
    """
    function = getattr(value, "py_func", value)
    if hasattr(function, "__code__"):
        if not function.__module__.startswith(PACKAGE):
            raise LookupError(f"{function.__qualname__} is of {function.__module__}.")
        code, cells = function.__code__, function.__closure__ or ()
        of_closure = tuple(describe(cell.cell_contents) for cell in cells)
        return (function.__module__, function.__qualname__, code.co_firstlineno, of_closure)
    if isinstance(value, tuple):
        return ("tuple", *map(describe, value))
    if isinstance(value, (bool, int, float, str, type(None), np.generic, type, np.dtype)):
        return type(value).__name__, repr(value)
    raise LookupError(f"{value!r} is no constant.")
