"""Launches that are captured once and repeated as a whole.

A launch from Python costs some hundred microseconds of the host, a tree of depth eight takes more
than sixty of them, and a small tree keeps the GPU busy for less than that. A CUDA graph starts them
all at once. It needs the same arguments each time: arrays that stay where they are.

``GPUENS_CUDA_GRAPHS=1`` turns graphs on. They are off until they have been measured on a GPU. In
the simulator a graph is the list of its launches.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from . import target


def wanted() -> bool:
    """Return whether the environment currently requests graphs."""
    return os.environ.get("GPUENS_CUDA_GRAPHS", "0") == "1"


class Graph:
    """The launches of ``work()``, recorded; it must neither allocate on the device nor wait for it,
    and its kernels must have been compiled."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._captured = _record(work) if target.is_simulated() else _capture(work)

    def launch(self) -> None:
        """Start it on the current stream."""
        if target.is_simulated():
            for launch in self._captured:
                target.launch(*launch)
        else:
            self._captured.launch(target.cupy_stream())


def _record(work: Callable[[], None]) -> list[tuple[Any, ...]]:
    with target.recording() as launches:
        work()
    return launches


def _capture(work: Callable[[], None]) -> Any:
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)  # the default stream cannot be captured
    with stream:
        stream.begin_capture()
        try:
            work()
        except BaseException:
            with suppress(Exception):  # of a capture that has failed nothing is wanted
                stream.end_capture()
            raise
        return stream.end_capture()
