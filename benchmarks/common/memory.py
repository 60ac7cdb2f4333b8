"""Memory of this process: what calls take, and what can be given back. Only on Linux."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpuens.devices.memory_plan import return_freed_memory

from .peers import GapError

PROC = Path("/proc/self")
PAUSE = 0.01
"""Seconds between two readings of the allocated memory."""


def give_back() -> None:
    """Return memory to the system, also that of objects in cycles."""
    gc.collect()
    return_freed_memory()


def field(name: str) -> int:
    """Return a field of the kernel's status of this process in bytes."""
    try:
        lines = (PROC / "status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))
    except (OSError, StopIteration):
        raise GapError(f"memory is read from {PROC}/status ({name})") from None


def peak_of(call: Callable[[], Any]) -> tuple[int, Any]:
    """Return by how much the resident size grows in a call at most, and the call's result.

    The kernel's own high-water mark is reset before and read afterwards, which misses nothing.
    """
    give_back()
    try:
        (PROC / "clear_refs").write_text("5")
    except OSError:
        raise GapError(f"the high-water mark of memory is reset by {PROC}/clear_refs") from None
    before = field("VmRSS")
    result = call()
    return max(0, field("VmHWM") - before), result


class Allocated:
    """The memory that is allocated inside the block, read by a thread: pages of files do not
    count."""

    def __enter__(self) -> Allocated:
        give_back()
        self.before = self.most = field("RssAnon")
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(PAUSE):
            self.most = max(self.most, field("RssAnon"))
