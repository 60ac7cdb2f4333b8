"""Free memory of the host."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import numpy as np

_CGROUP = Path("/sys/fs/cgroup")


def available_memory() -> int | None:
    """Return the bytes that this process can still allocate, None if that is unknown.

    The least of what the machine has free and what its control group allows.
    """
    found = [size for size in (_free_on_machine(), _left_in_group()) if size is not None]
    return min(found) if found else None


def _free_on_machine() -> int | None:
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _left_in_group() -> int | None:
    with suppress(OSError, ValueError):
        limit = (_CGROUP / "memory.max").read_text(encoding="ascii").strip()
        used = (_CGROUP / "memory.current").read_text(encoding="ascii")
        if limit != "max":
            return max(0, int(limit) - int(used))
    return None


def format_bytes(n: float) -> str:
    """Write a number of bytes with a unit."""
    power = min(4, int(np.log2(max(n, 1)) // 10))
    return f"{n / 1024**power:.3g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"
