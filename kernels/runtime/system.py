"""Everything that operating systems do differently: no other module uses what only one of them has.

Linux is the first choice everywhere, and what it lacks nothing. Windows has neither forks, nor
reading and writing at a place of a file, nor the C library of the process; macOS has forks, but
keeps its figures about memory elsewhere. Functions look for what they need when they are called.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

# Processes.


def after_fork_in_child(function: Callable[[], Any]) -> None:
    """Call a function in every process that is forked from this one; Windows has no forks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


class ForkSafeLock:
    """Holds a lock, for ``with lock.held:``. The thread that holds it does not exist in a fork,
    where it would never be released.

    It is a lock of Python itself that ``with`` takes: an interrupt comes either before or within
    the block, which releases it. After ``acquire`` in an ``__enter__`` of our own an interrupt
    would leave it taken for good.
    """

    held: threading.Lock

    def __init__(self) -> None:
        self._renew()
        after_fork_in_child(self._renew)

    def _renew(self) -> None:
        self.held = threading.Lock()


def processor_features() -> set[str]:
    """Return what Linux reports of the first processor, in Linux's names also on other systems."""
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("flags"):
                return set(line.partition(":")[2].split())
    return _features_that_numpy_found()


_LATE = "BMI BMI2 LZCNT MOVBE"
"""Features that NumPy requires from 2.4 on; all processors of Intel and AMD with AVX2 have them."""
_LINUX_NAMES = {
    "SSE3 SSSE3 SSE41 SSE42 POPCNT": "cx16 lahf_lm pni popcnt sse4_1 sse4_2 ssse3",
    f"AVX AVX2 F16C FMA3 {_LATE}": "abm avx avx2 bmi1 bmi2 f16c fma movbe xsave",
}
"""Features by NumPy's names, and what processors of x86-64 with all of them have, by Linux's."""


def _features_that_numpy_found() -> set[str]:
    """Return what NumPy asked the processor for when it was imported, on any system. It counts only
    what the system keeps for its processes."""
    found: set[str] = set()
    with suppress(ImportError, AttributeError):
        features = import_module("numpy._core._multiarray_umath").__cpu_features__
        late = _LATE.split()
        for needed, names in _LINUX_NAMES.items():
            if all(features.get(name, name in late) for name in needed.split()):
                found |= set(names.split())
    return found


def cuda_driver() -> ctypes.CDLL:
    """Open the library of NVIDIA's driver.

    Raises
    ------
    OSError
        There is none.
    """
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


# Files.

_moving = threading.Lock()
"""Held while a file's position is that of a write, where these cannot name a place."""


def write_at(descriptor: int, data: Any, offset: int) -> None:
    """Write all of the data at a place of a file that was opened in binary mode.

    Threads may write to the same file at once; the position of the file may change.
    """
    left = memoryview(data).cast("B")
    while left:
        if hasattr(os, "pwrite"):
            written = os.pwrite(descriptor, left, offset)
        else:
            with _moving:
                os.lseek(descriptor, offset, os.SEEK_SET)
                written = os.write(descriptor, left)
        left, offset = left[written:], offset + written


def descriptors_past_cache(path: str) -> Iterator[int]:
    """Open a file for ``read_at``, which closes none: first past the system's cache, where its file
    system has that, then through it. Yield nothing where ``read_at`` does not work."""
    if not hasattr(os, "preadv"):
        return
    for flag in (getattr(os, "O_DIRECT", 0), 0):
        with suppress(OSError):
            yield os.open(path, os.O_RDONLY | os.O_CLOEXEC | flag)


def read_at(descriptor: int, memory: memoryview, offset: int) -> int:
    """Read from a place of a file into memory, and return the number of bytes."""
    return os.preadv(descriptor, [memory], offset)


def will_read(mapping: mmap.mmap, first: int, end: int) -> None:
    """Announce that bytes of a mapped file are read soon, where the system takes such advice."""
    if hasattr(mmap, "MADV_WILLNEED"):
        first -= first % mmap.PAGESIZE
        mapping.madvise(mmap.MADV_WILLNEED, first, end - first)


# Memory.

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


def return_free_heap() -> None:
    """Return memory that has been freed to the system: glibc keeps much of it for what the same
    threads may need later."""
    with suppress(OSError, AttributeError, TypeError):  # Windows cannot open the process itself
        ctypes.CDLL(None).malloc_trim(0)


def _free_on_machine() -> int | None:
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with suppress(Exception):  # whatever psutil meets on a system that it does not know
        import psutil  # slow to import, and not needed on Linux

        return int(psutil.virtual_memory().available)
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
    with suppress(OSError, ValueError):  # "max" means that there is no limit
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
