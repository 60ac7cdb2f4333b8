"""A stand-in for CuPy on machines without a GPU: NumPy arrays that claim to be on one.

It has just what the readers of arrays use, so that their GPU paths run in every test. The
same tests run with CuPy itself where there is a GPU (``make gpu-check``).
"""

from __future__ import annotations

import contextlib
import sys
from types import ModuleType, SimpleNamespace

import numpy as np

from gpuens.devices import placement as devices


class MemoryPool:
    """CuPy's, of which nothing is used."""

    free, used, limit = 0, 0, 0

    def malloc(self, size):
        raise NotImplementedError

    def free_bytes(self):
        return self.free

    def used_bytes(self):
        return self.used

    def get_limit(self):
        return self.limit


def install(monkeypatch, gpus=2):
    """Make ``import cupy`` give a stand-in with a number of GPUs; returns it."""
    current = [0]

    class ndarray(np.ndarray):  # noqa: N801
        gpu = 0

        def __array_finalize__(self, other):
            self.gpu = getattr(other, "gpu", current[0])

        @property
        def device(self):
            return SimpleNamespace(id=self.gpu)

        def get(self):
            return np.asarray(self).view(np.ndarray)

    @contextlib.contextmanager
    def device(index):
        before, current[0] = current[0], index
        yield
        current[0] = before

    class OutOfMemoryError(MemoryError):
        pass

    def asarray(array, dtype=None, order=None):
        if isinstance(array, ndarray):
            return np.asanyarray(array, dtype=dtype, order=order)
        return np.array(array, dtype=dtype, order=order).view(ndarray)

    cupy = ModuleType("cupy")
    cupy.__getattr__ = lambda name: getattr(np, name)
    cupy.__version__ = "14.0.0"
    cupy.ndarray, cupy.asarray, cupy.array = ndarray, asarray, asarray
    cupy.zeros = lambda shape: asarray(np.zeros(shape))
    pool = MemoryPool()
    cupy.get_default_memory_pool = lambda: pool
    cupy.cuda = SimpleNamespace(
        get_allocator=lambda: pool.malloc,
        get_current_stream=lambda: SimpleNamespace(ptr=0, synchronize=lambda: None),
        Device=device,
        memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        runtime=SimpleNamespace(
            runtimeGetVersion=lambda: 13000,
            getDeviceCount=lambda: gpus,
            getDevice=lambda: current[0],
            memGetInfo=lambda: (2**30, 2**34),
            getDeviceProperties=lambda index: {
                "name": b"Stand-in", "totalGlobalMem": 2**34, "major": 9, "minor": 0
            },
        ),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    devices.card_problem.cache_clear()
    monkeypatch.setattr(devices, "gpu_problem", lambda: None)
    monkeypatch.setattr(devices, "simulated", lambda: False)
    return cupy


def on_gpu(cupy, array, index):
    """An array on a certain GPU of the stand-in."""
    with cupy.cuda.Device(index):
        return cupy.array(array)
