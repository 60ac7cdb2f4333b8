"""Free memory of the host."""

from __future__ import annotations

import sys

import numpy as np

from ..kernels.runtime.system import available_memory, return_free_heap

__all__ = ["available_memory", "format_bytes", "return_freed_memory"]


def return_freed_memory() -> None:
    """Return memory that has been freed to the system: glibc and pyarrow keep much of it for what
    the same threads may need later."""
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    return_free_heap()


def format_bytes(n: float) -> str:
    """Write a number of bytes with a unit."""
    power = min(4, int(np.log2(max(n, 1)) // 10))
    return f"{n / 1024**power:.3g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"
