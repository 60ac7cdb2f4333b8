"""The host's time for a launch of each kernel of growth, with the driver's call stubbed.

Arrays are objects with the attributes that CuPy's have; the time of the driver itself, of CuPy's
attributes and of its current stream is what a card adds (``gpu_unknowns`` measures all of it).
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numba import types
from numba.np.numpy_support import as_dtype

from gpuens.kernels import catalogue
from gpuens.kernels.runtime.cuda import launching, target

from ..common.program import Results

GROWTH = ("grow_", "histogram_", "partition_move", "scatter_")
"""Beginnings of the names of their entries in the catalogue."""
CHANGED = {"the same": 0, "two others": 2, "all others": None}
"""How many of a launch's arrays are not those of the launch before."""
ROWS = 8


dtype_of = functools.cache(as_dtype)
"""Arrays of a type have one object for it, as the tables of growth do."""


class Array:
    """An array of a device, as the launcher sees it."""

    def __init__(self, kind: types.Array) -> None:
        self.dtype = dtype_of(kind.dtype)
        self.shape = (ROWS,) * kind.ndim
        steps = [ROWS**k * self.dtype.itemsize for k in range(kind.ndim)]
        self.strides = tuple(steps if kind.layout == "F" else reversed(steps))
        self.size = ROWS**kind.ndim
        self.data = SimpleNamespace(ptr=id(self))


def argument_of(kind: types.Type) -> Any:
    """Return an argument of a type."""
    if isinstance(kind, types.Array):
        return Array(kind)
    return {types.int64: 3, types.float64: 0.5}.get(kind) or as_dtype(kind).type(3)


def stub_driver(patch: pytest.MonkeyPatch) -> None:
    """Let a launch end where the driver would be called."""
    done = (0,)
    driver = SimpleNamespace(CUfunction=int, CUstream=int, cuLaunchKernel=lambda *launch: done)
    patch.setattr(launching, "bindings", lambda: driver)
    patch.setattr(launching, "stream_at", int)
    patch.setattr(launching, "enter", lambda device: None)
    patch.setattr(launching.precompiled, "find", lambda *kernel: None)
    patch.setattr(launching, "compiled", lambda *kernel: SimpleNamespace(handle=1))
    patch.setattr(launching, "_kernels", {})
    patch.setattr(launching, "_of_thread", launching._OfThread())


@contextlib.contextmanager
def stubbed() -> Iterator[None]:
    """Stub the driver, and as much of CuPy as a launch asks for."""
    stream = SimpleNamespace(ptr=7)
    runtime = SimpleNamespace(getDevice=lambda: 0)
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime, get_current_stream=lambda: stream))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, "_arrays", lambda: cupy)
        stub_driver(patch)
        yield


def turns_of(kinds: Sequence[types.Type], changed: int | None) -> list[tuple[Any, ...]]:
    """Return two lists of arguments that differ in so many arrays."""
    first = tuple(map(argument_of, kinds))
    arrays = [i for i, kind in enumerate(kinds) if isinstance(kind, types.Array)][:changed]
    second = tuple(argument_of(kinds[i]) if i in arrays else a for i, a in enumerate(first))
    return [first, second]


def microseconds(kernel: Any, turns: list[tuple[Any, ...]], launches: int, repeats: int) -> float:
    """Return the time of the processor for a launch, the least of some runs."""
    one, other = turns
    runs = []
    for _ in range(repeats):
        begin = time.thread_time()
        for _ in range(launches // 2):
            target.launch(kernel, 64, 32, *one)
            target.launch(kernel, 64, 32, *other)
        runs.append(time.thread_time() - begin)
    return 1e6 * min(runs) / (launches // 2 * 2)


def measure(launches: int = 200, repeats: int = 60) -> Results:
    """Measure microseconds of the host for a launch."""
    found: Results = {}
    with stubbed():
        for entry in catalogue.entries():
            if entry.name.startswith(GROWTH):
                found[entry.name] = {
                    "arguments": len(entry.arguments),
                    **{
                        name: microseconds(
                            entry.kernel, turns_of(entry.arguments, n), launches, repeats
                        )
                        for name, n in CHANGED.items()
                    },
                }
    mean = {name: float(np.mean([row[name] for row in found.values()])) for name in CHANGED}
    return {"microseconds": found, "mean": mean}
