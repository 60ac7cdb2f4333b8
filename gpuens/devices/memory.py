"""Free memory of the host."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import numpy as np

_CGROUP = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")
_Files = tuple[str, str, tuple[str, str]]
_VERSION_2: _Files = ("memory.max", "memory.current", ("inactive_file", "active_file"))
_VERSION_1: _Files = (
    "memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file"),
)  # fmt: skip
"""The files with the limit of a control group and with what it uses, and the entries of
``memory.stat`` that are pages of files."""
_UNLIMITED = 2**62
"""Version 1 has a number near 2**63 for no limit."""


def available_memory() -> int | None:
    """Return the bytes that this process can still allocate, None if that is unknown.

    The least of what the machine has free, and of what its control groups and the limit on its
    address space leave.
    """
    sizes = _free_on_machine(), _left_in_groups(), _left_in_address_space()
    found = [size for size in sizes if size is not None]
    return min(found) if found else None


def _free_on_machine() -> int | None:
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _left_in_address_space() -> int | None:
    """Return what ``ulimit -v`` leaves, None where it is not set."""
    with suppress(ImportError, OSError, ValueError):
        import resource  # Windows has none

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            return max(0, limit - pages * resource.getpagesize())
    return None


def _left_in_groups() -> int | None:
    """Return the least of what the control groups of this process leave, from its own one up to
    that of the machine or the container."""
    own = ""
    with suppress(OSError, ValueError):
        own = _OWN_GROUPS.read_text(encoding="ascii")
    left = [_left_in(folder, files) for folder, files in _groups(own, _CGROUP)]
    found = [size for size in left if size is not None]
    return min(found) if found else None


@lru_cache(4)
def _groups(own: str, mounted: Path) -> list[tuple[Path, _Files]]:
    """Return the groups that ``/proc/self/cgroup`` names and those above them which have a limit
    when they are first seen, and the names of their files: a fit reads them in microseconds."""
    paths = {"": "/", "memory": "/"}
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        paths |= {name: path for name in controllers.split(",") if name in paths}
    found = []
    roots = (_VERSION_2, mounted, paths[""]), (_VERSION_1, mounted / "memory", paths["memory"])
    for files, root, path in roots:
        group = root / path.lstrip("/")
        above = [folder for folder in group.parents if folder.is_relative_to(root)]
        found += [(f, files) for f in (group, *above) if _limit(f / files[0]) is not None]
    return found


def _limit(file: Path) -> int | None:
    with suppress(OSError, ValueError):  # "max" is no limit
        limit = int(file.read_text(encoding="ascii"))
        return limit if limit < _UNLIMITED else None
    return None


def _left_in(folder: Path, files: _Files) -> int | None:
    """Return what a group leaves. Pages of files do not count: the system keeps them for speed, and
    takes them away where memory is needed, those that were used several times, too."""
    limit_file, used_file, of_files = files
    with suppress(OSError, ValueError):
        limit = _limit(folder / limit_file)
        if limit is None:
            return None
        used = int((folder / used_file).read_text(encoding="ascii"))
        with suppress(OSError):
            for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines():
                name, _, size = line.partition(" ")
                used -= int(size) if name in of_files else 0
        return max(0, limit - max(0, used))
    return None


def return_freed_memory() -> None:
    """Return memory that has been freed to the system: glibc and pyarrow keep much of it for what
    the same threads may need later."""
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def format_bytes(n: float) -> str:
    """Write a number of bytes with a unit."""
    power = min(4, int(np.log2(max(n, 1)) // 10))
    return f"{n / 1024**power:.3g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"
