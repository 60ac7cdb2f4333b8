"""Where the tables of a program are, and where gpuens trains: in the host's memory, or on a GPU."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from gpuens.datasets import tables as datasets_tables
from gpuens.devices import placement

from .peers import GapError

DEVICE = {"device": (("cpu", "cuda"), "where the tables are, and where libraries train")}
"""The option of a program that measures on either."""
CELLS_AT_ONCE = 2**25
"""Cells of a table that are generated together on a GPU, where a launch costs as much as a
million of them; the host's blocks fit into its cache."""


class Host:
    """The host's memory.

    ``device`` is that of gpuens, ``others`` that of libraries which name their devices as it does.
    """

    device = others = "cpu"

    def put(self, array: np.ndarray) -> Any:
        """Return the array in this place."""
        return array

    def get(self, array: Any) -> np.ndarray:
        """Return a NumPy array."""
        return array.get() if hasattr(array, "get") else np.asarray(array)

    def table(self, make: Callable[..., Any], *args: Any, **more: Any) -> Any:
        """Return a table of ``gpuens.datasets``, generated here."""
        return make(*args, **more)

    def wait(self) -> None:
        """Wait until the work that was started is done."""

    def waiting(self, action: Callable[..., Any]) -> Callable[..., Any]:
        """Return an action that also waits for its work."""

        @wraps(action, assigned=())
        def wait(*args: Any) -> Any:
            result = action(*args)
            self.wait()
            return result

        return wait

    def seconds(self, call: Callable[[], Any]) -> float:
        """Return the time of a call."""
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    def peak_bytes(self, call: Callable[[], Any]) -> int | None:
        """Return the most memory of a GPU that a call takes; None where there is none."""
        return None


class Simulator(Host):
    """CUDA's simulator, which works on NumPy arrays; other libraries stay on the host."""

    device = "cuda"


class Card(Host):
    """A GPU, by CuPy."""

    device = others = "cuda"

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy

    def put(self, array: np.ndarray) -> Any:
        return self.cupy.asarray(array)

    def table(self, make: Callable[..., Any], *args: Any, **more: Any) -> Any:
        before = datasets_tables.BLOCK
        datasets_tables.BLOCK = CELLS_AT_ONCE
        try:
            return make(*args, device="cuda", **more)
        finally:
            datasets_tables.BLOCK = before

    def wait(self) -> None:
        self.cupy.cuda.runtime.deviceSynchronize()

    def seconds(self, call: Callable[[], Any]) -> float:
        """Return the time between two events of the current stream."""
        before, after = self.cupy.cuda.Event(), self.cupy.cuda.Event()
        before.record()
        call()
        after.record()
        after.synchronize()
        return float(self.cupy.cuda.get_elapsed_time(before, after)) / 1e3

    def peak_bytes(self, call: Callable[[], Any]) -> int | None:
        pool = self.cupy.get_default_memory_pool()
        gc.collect()
        pool.free_all_blocks()
        before = pool.total_bytes()
        call()
        self.wait()
        return int(pool.total_bytes() - before)


def place_of(device: str) -> Host:
    """Return a place by the name of its device; raises GapError if it cannot be used."""
    if device == "cpu":
        return Host()
    if placement.simulated():
        return Simulator()
    if (problem := placement.gpu_problem()) is not None:
        raise GapError(f"a GPU: {problem}")
    import cupy

    return Card(cupy)
