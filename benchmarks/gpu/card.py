"""The card that ``gpu_check`` measures, and what stands in for it in a rehearsal."""

from __future__ import annotations

import gc
import subprocess
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuens.datasets import tables as datasets_tables

CELLS_AT_ONCE = 2**25
"""Cells of a table that are generated together on a card, where a launch costs as much as a
million of them; the host's blocks fit into its cache."""
QUERY = ("name", "driver_version", "memory.total", "compute_cap", "clocks.max.sm", "power.limit")
"""What is asked of ``nvidia-smi``."""


class Card:
    """A GPU, by CuPy.

    Parameters
    ----------
    cupy : module
    """

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self.kept: dict[Any, Any] = {}
        """What the cases of a process share."""

    def put(self, array: np.ndarray) -> Any:
        """A copy in the card's memory."""
        return self.cupy.asarray(array)

    def get(self, array: Any) -> np.ndarray:
        """A copy in the host's memory."""
        return array.get() if hasattr(array, "get") else np.asarray(array)

    def table(self, make: Callable[..., Any], *args: Any, **more: Any) -> Any:
        """What a function of ``gpuens.datasets`` makes, generated in the card's memory."""
        before = datasets_tables.BLOCK
        datasets_tables.BLOCK = CELLS_AT_ONCE
        try:
            return make(*args, device="cuda", **more)
        finally:
            datasets_tables.BLOCK = before

    def synchronise(self) -> None:
        """Wait until the card has done all."""
        self.cupy.cuda.runtime.deviceSynchronize()

    def seconds(self, call: Callable[[], Any]) -> float:
        """Of one call, the card's work included."""
        self.synchronise()
        start = time.perf_counter()
        call()
        self.synchronise()
        return time.perf_counter() - start

    def free_bytes(self) -> int:
        """What further arrays may take, after all that nobody uses has been given back."""
        self.give_back()
        return int(self.cupy.cuda.runtime.memGetInfo()[0])

    def give_back(self) -> None:
        """Return the memory of arrays that are gone."""
        gc.collect()
        self.cupy.get_default_memory_pool().free_all_blocks()

    def peak_bytes(self, call: Callable[[], Any]) -> int:
        """The most memory that CuPy has taken from the card during a call."""
        self.give_back()
        pool = self.cupy.get_default_memory_pool()
        before = pool.total_bytes()
        call()
        self.synchronise()
        return int(pool.total_bytes() - before)

    def is_alive(self) -> bool:
        """Whether the card still computes: after an illegal access it does not, in this
        process."""
        try:
            self.synchronise()
            return int(self.cupy.ones(3).sum()) == 3
        except Exception:
            return False


class Rehearsal(Card):
    """NumPy in the card's place, where Numba simulates CUDA."""

    def __init__(self) -> None:
        super().__init__(np)

    def table(self, make: Callable[..., Any], *args: Any, **more: Any) -> Any:
        return make(*args, **more)

    def synchronise(self) -> None:
        pass

    def free_bytes(self) -> int:
        return 2**34

    def give_back(self) -> None:
        gc.collect()

    def peak_bytes(self, call: Callable[[], Any]) -> int:
        call()
        return 0


def the_card(rehearsal: bool) -> Card:
    """What this process measures."""
    if rehearsal:
        return Rehearsal()
    import cupy

    return Card(cupy)


def describe_card() -> dict[str, Any]:
    """Name, driver, memory and limits of the card; what nobody says is left out."""
    found: dict[str, Any] = {}
    try:
        command = ["nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader"]
        text = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        values = text.stdout.strip().splitlines()[0].split(",")
        found = dict(zip(QUERY, (value.strip() for value in values), strict=False))
    except (OSError, subprocess.SubprocessError, IndexError) as error:
        found["nvidia-smi"] = f"failed: {error}"
    try:
        import cupy

        runtime = cupy.cuda.runtime
        properties = runtime.getDeviceProperties(runtime.getDevice())
        found["cuda_of_driver"] = runtime.driverGetVersion()
        found["cuda_of_cupy"] = runtime.runtimeGetVersion()
        found["multiprocessors"] = int(properties["multiProcessorCount"])
        found["bytes"] = int(properties["totalGlobalMem"])
    except Exception as error:  # a description is worth no failure
        found["cupy"] = f"failed: {type(error).__name__}: {error}"
    return found
