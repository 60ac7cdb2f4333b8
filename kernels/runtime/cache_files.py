"""Files of Numba's caches, written by several processes at the same time.

Numba counts the files of a function's compiled kernels and writes the index first. Two processes
that compile different kernels of one function then take the same number: the index of one of them
names the other's kernel, which every later process runs. Here a file is named by what is in it, and
stands before the index names it. What two processes can still lose is an entry of the index: its
kernel is compiled once more.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Any


def name_data_by_key(cache_file: Any) -> None:
    """Let an ``IndexDataCacheFile`` of Numba or numba-cuda, whose ``_source_stamp`` is final, name
    its files so."""
    cache_file.save = functools.partial(_save, cache_file)


def _save(cache_file: Any, key: Any, data: Any) -> None:
    content = repr((key, cache_file._source_stamp)).encode()
    number = int.from_bytes(hashlib.sha256(content).digest()[:8], "big")
    name = cache_file._data_name(number)
    cache_file._save_data(name, data)
    overloads = cache_file._load_index()
    overloads[key] = name
    cache_file._save_index(overloads)
