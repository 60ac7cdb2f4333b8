"""Compiled kernels on disk: Numba's cache, of which no fault ever reaches a caller.

Numba's cache falls short in four ways. It notices changes of no file but the one that defines a
kernel, and a kernel is made of functions from many files. It counts the files of a function's
compiled kernels and writes the index first: two processes that compile different kernels of one
function then take the same number, and the index of one of them names the other's kernel, which
every later process runs. It raises where there is no folder to write to, or no space. And it runs
whatever a damaged file holds. Here the stamp of a cache entry covers all sources, a file is named
by its content and written before the index names it, a file that is not as it was written counts
as missing, and kernels that cannot be kept are compiled in every process, with one warning. Two
processes can still lose an entry of the index: its kernel is compiled once more.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import warnings
from pathlib import Path
from typing import Any

from .first_use import watch
from .source_stamps import stamp_of_sources
from .system import ForkSafeLock

_warning = ForkSafeLock()
_warned: set[str] = set()
"""Subjects of warnings, each of which is given once."""


def keep_on_disk(compiled: Any) -> bool:
    """Let Numba's or numba-cuda's dispatcher load its kernels from the disk and keep them there.

    Returns
    -------
    bool
        False if there is no place: then every process compiles them.
    """
    try:
        stamp = stamp_of_sources(Path(compiled.py_func.__code__.co_filename))
        compiled.enable_caching()
    except (OSError, RuntimeError) as error:  # Numba's "no locator available"
        _warn("nowhere", f"gpuens found no folder to keep compiled kernels in ({error}).")
        return False
    cache = compiled._cache
    cache._impl.locator.ensure_cache_path = lambda: None  # raises; ``_save`` does it
    made_safe(cache._cache_file, stamp)
    return True


def made_safe(cache_file: Any, stamp: str) -> Any:
    """Return an ``IndexDataCacheFile`` of Numba or numba-cuda that notices changes of every source
    (by their stamp), serves several processes at a time, and never raises."""
    cache_file._source_stamp = (cache_file._source_stamp, stamp)
    cache_file.save = functools.partial(_save, cache_file)
    cache_file.load = functools.partial(_load, cache_file)
    return cache_file


def _save(cache_file: Any, key: Any, data: Any) -> None:
    watch.finish()
    content = repr((key, cache_file._source_stamp)).encode()
    number = int.from_bytes(hashlib.sha256(content).digest()[:8], "big")
    name = cache_file._data_name(number)
    payload = cache_file._dump((key, data))
    try:
        os.makedirs(cache_file._cache_path, exist_ok=True)
        cache_file._save_data(name, (hashlib.sha256(payload).digest(), payload))
        cache_file._save_index({**_index(cache_file), key: name})
    except OSError as error:
        _warn("unwritable", f"gpuens cannot keep a compiled kernel on disk ({error}).")


def _load(cache_file: Any, key: Any) -> Any:
    found = _found(cache_file, key)
    if found is None:
        watch.start(cache_file._cache_path)
    return found


def _found(cache_file: Any, key: Any) -> Any:
    name = _index(cache_file).get(key)
    if name is None:
        return None
    try:
        digest, payload = cache_file._load_data(name)
        if hashlib.sha256(payload).digest() != digest:
            return None
        kept, data = pickle.loads(payload)
    except Exception:  # damaged bytes unpickle with any error
        return None
    return data if kept == key else None


def _index(cache_file: Any) -> dict[Any, str]:
    """Return the files of a function's kernels by key; an index that is damaged is empty."""
    try:
        return dict(cache_file._load_index())
    except Exception:  # as above
        return {}


def _warn(subject: str, what: str) -> None:
    with _warning.held:
        if subject in _warned:
            return
        _warned.add(subject)
    warnings.warn(
        f"{what} Every process compiles it again, which takes up to a minute. Let NUMBA_CACHE_DIR "
        "name a folder that can be written to, on a disk with 200 MB of free space.",
        RuntimeWarning,
        stacklevel=2,
    )
