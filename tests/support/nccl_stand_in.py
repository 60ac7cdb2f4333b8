"""A stand-in for CuPy's NCCL, between the threads of a process: it records calls, and does them.

A sum is done by a thread of its own once all workers have called it, and until then the stream that
was named is not done, as on a GPU.
"""

from __future__ import annotations

import ctypes
import threading
from types import ModuleType
from typing import Any

import numpy as np

from tests.support import strict_cupy

TYPES = {2: np.int32, 4: np.int64}
"""By NCCL's numbers of them."""


class Sum:
    """A sum that waits for all workers."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.places: dict[int, np.ndarray] = {}
        self.is_done = threading.Event()

    def take(self, rank: int, values: np.ndarray) -> None:
        self.places[rank] = values
        if len(self.places) == self.size:
            total = np.sum(list(self.places.values()), axis=0, dtype=values.dtype)
            for own in self.places.values():
                own[...] = total
            self.is_done.set()


class Group:
    """The communicators that have a name in common."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sums: list[Sum] = []
        self.gpus: dict[int, int] = {}
        self.is_complete = threading.Event()


class NCCL(ModuleType):
    """The module. ``calls`` are (what, rank, arguments); the workers in ``failing`` have an error
    when they make their communicator, for which the others wait without end."""

    available = True
    NCCL_SUM, NCCL_INT32, NCCL_INT64 = 0, 2, 4

    def __init__(self) -> None:
        super().__init__("cupy.cuda.nccl")
        self.calls: list[tuple[str, int, tuple[Any, ...]]] = []
        self.groups: dict[bytes, Group] = {}
        self.failing: set[int] = set()
        self.NcclCommunicator = lambda *args: Communicator(self, *args)

    def get_version(self) -> int:
        return 22703

    def get_unique_id(self) -> bytes:
        name = len(self.groups).to_bytes(128, "big")
        self.groups[name] = Group()
        return name


class Communicator:
    """A worker's end of a group; it must have a GPU of its own."""

    def __init__(self, nccl: NCCL, size: int, name: bytes, rank: int) -> None:
        self._nccl, self._size, self._rank = nccl, size, rank
        self._group, self._n_sums, self._is_aborted = nccl.groups[name], 0, threading.Event()
        nccl.calls.append(("begin", rank, (size,)))
        if rank in nccl.failing:
            raise RuntimeError("NCCL_ERROR_SYSTEM_ERROR: unhandled system error")
        with self._group.lock:
            assert strict_cupy.state.device not in self._group.gpus.values(), "Duplicate GPU"
            self._group.gpus[rank] = strict_cupy.state.device
            if len(self._group.gpus) == size:
                self._group.is_complete.set()
        self._group.is_complete.wait()

    def allReduce(  # noqa: N802
        self, source: int, target: int, count: int, kind: int, operation: int, stream: int
    ) -> None:
        assert operation == NCCL.NCCL_SUM and source == target
        own = strict_cupy.state.stream
        assert stream == own.ptr and self._group.gpus[self._rank] == strict_cupy.state.device
        dtype = np.dtype(TYPES[kind])
        memory = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(source)
        self._nccl.calls.append(("add", self._rank, (dtype, count)))
        with self._group.lock:
            if len(self._group.sums) == self._n_sums:
                self._group.sums.append(Sum(self._size))
            taken = self._group.sums[self._n_sums]
            taken.take(self._rank, np.frombuffer(memory, dtype))
        self._n_sums += 1
        own.add(lambda: None)
        number = own.begun

        def arrive() -> None:
            while not taken.is_done.wait(0.01):
                if self._is_aborted.is_set():
                    return
            own.arrive(number)

        threading.Thread(target=arrive, daemon=True).start()

    def abort(self) -> None:
        self._is_aborted.set()
        self._nccl.calls.append(("abort", self._rank, ()))
