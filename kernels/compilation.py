"""How functions are compiled for the CPU."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.dispatcher import Dispatcher

inner = njit(
    nogil=True,
    error_model="numpy",
    boundscheck=False,
    no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
)
"""The decorator of functions that compiled functions call. They have no entry from Python,
whose compilation would cost more than their own (see ``callable_from_python``)."""

_cached = njit(
    nogil=True, cache=True, error_model="numpy", boundscheck=False, no_cfunc_wrapper=True
)


def kernel(function: Callable[..., Any]) -> Any:
    """The decorator of every CPU kernel: compiled on first use, kept on disk.

    Numba's cache notices changes of the file that a kernel stands in, but a kernel is made of
    functions from many files; so the stamp of its cache entry is that of all of them.
    """
    compiled = _cached(function)
    cache_file = getattr(compiled._cache, "_cache_file", None)
    if cache_file is not None:
        cache_file._source_stamp = (cache_file._source_stamp, _stamp_of_sources())
    return compiled


def callable_from_python(function: Dispatcher) -> Any:
    """An ``inner`` function with an entry from Python."""
    return kernel(function.py_func)


@functools.cache
def _stamp_of_sources() -> str:
    """Hash of the sources that kernels for the CPU are made of."""
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for pattern in ("*.py", "scalars/*.py", "cpu/*.py"):
        for path in sorted(root.glob(pattern)):
            digest.update(path.read_bytes())
    return digest.hexdigest()
