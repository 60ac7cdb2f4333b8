"""Numba's CUDA simulator, made exact and quick.

Numba runs the threads of a simulated block at the same time and polls them. Two of its threads may
then both make what should be one shared array, and most of the time goes into the polling. Here
the threads of a block take turns instead: each runs to its next barrier, then the next one runs,
so that a block behaves the same in every run. The order is reversed at every barrier: an access
that lacks a barrier reads, in one order or the other, what another thread has not written yet.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda as numba_cuda
from numba.core import types
from numba.cuda.simulator import kernel as launching
from numba.cuda.simulator import kernelapi
from numba.np import numpy_support

from ..system import after_fork_in_child


def taken_lock() -> threading.Lock:
    """Return a lock that is held, for another thread to release."""
    lock = threading.Lock()
    lock.acquire()
    return lock


class SimulatedThread(threading.Thread):
    """A thread that runs the threads of blocks, one after another.

    ``threadIdx``, ``blockIdx``, ``thread_id``, ``syncthreads`` and ``syncthreads_count`` are what
    the simulator requires of the thread that a kernel runs in.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.turn = taken_lock()
        self.error: BaseException | None = None

    def take(self, block: SimulatedBlock, thread_idx: Any, thread_id: int) -> None:
        """Become a thread of a block; it starts when it is its turn."""
        self.block = block
        self.blockIdx = block.index
        self.threadIdx = thread_idx
        self.thread_id = thread_id
        self.error = None

    def run(self) -> None:
        while True:
            # Runs until a barrier, or the end of the kernel, passes the turn on.
            self.turn.acquire()
            block = self.block
            try:
                if not block.failed:
                    block.call()
            except BaseException as error:
                self.error = error
                block.failed = True
            block.next_turn()

    def syncthreads(self) -> None:
        block = self.block
        block.waiting.append(self)
        block.next_turn()
        # Its turn comes again when all threads have reached the barrier.
        self.turn.acquire()
        if block.failed:
            raise _AbandonedError

    def syncthreads_count(self, value: Any) -> int:
        block = self.block
        block.votes[self.thread_id] = bool(value)
        self.syncthreads()
        # Behind the barrier all have voted.
        count = int(np.count_nonzero(block.votes))
        self.syncthreads()
        # Behind this one all have counted, and votes may change.
        return count


class _AbandonedError(Exception):
    """Another thread of the block has failed."""


class SimulatedBlock:
    """Replacement for the simulator's ``BlockManager``."""

    def __init__(
        self, function: Callable[..., None], grid_dim: Any, block_dim: Any, debug: bool
    ) -> None:
        self._function = function
        self._block_dim = block_dim
        self.failed = False

    def run(self, grid_point: tuple[int, ...], *args: Any) -> None:
        self.call = lambda: self._function(*args)
        self.index = kernelapi.Dim3(*grid_point)
        points = list(np.ndindex(*self._block_dim))
        self.votes = np.zeros(len(points), np.bool_)
        self.waiting: list[SimulatedThread] = []
        self._done = taken_lock()
        threads = [_idle_thread() for _ in points]
        for thread, point in zip(threads, points, strict=True):
            x, y, z = kernelapi.Dim3(*point)
            width, height, _ = kernelapi.Dim3(*self._block_dim)
            thread.take(self, kernelapi.Dim3(x, y, z), x + width * (y + height * z))
        self._turns = iter(threads)
        try:
            self.next_turn()
            self._done.acquire()
        except BaseException:
            self.failed = True
            raise
        _idle.extend(threads)
        for thread in threads:
            if thread.error is not None and not isinstance(thread.error, _AbandonedError):
                where = f"threadIdx={tuple(thread.threadIdx)} blockIdx={tuple(self.index)}"
                thread.error.add_note(f"In a simulated kernel, {where}.")
                raise thread.error

    def next_turn(self) -> None:
        """Wake the thread whose turn it is; after the last one all have reached the barrier."""
        thread = next(self._turns, None)
        if thread is None:
            arrived, self.waiting = self.waiting, []
            # Reversed: an access without its barrier fails in one order or the other.
            self._turns = reversed(arrived)
            thread = next(self._turns, None)
        (self._done if thread is None else thread.turn).release()


_idle: deque[SimulatedThread] = deque()
after_fork_in_child(_idle.clear)


def _idle_thread() -> SimulatedThread:
    try:
        return _idle.pop()
    except IndexError:
        thread = SimulatedThread()
        thread.start()
        return thread


class SimulatedCuda:
    """The ``cuda`` of kernels: inside a kernel the state of its block, elsewhere Numba's module.

    Numba would put it into the module of every function at each of its calls.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(launching._kernel_context or numba_cuda, name)


def _shared_array(shared: Any, shape: Any, dtype: Any, alignment: int | None = None) -> np.ndarray:
    """One array for each line of source, as Numba's, found without reading the source; without a
    size, the dynamic shared memory."""
    if shape == 0:
        return shared._dynshared.view(dtype)
    caller = sys._getframe(1)
    place = caller.f_code, caller.f_lineno
    found = shared._allocations.get(place)
    if found is None:
        kind = numpy_support.as_dtype(dtype) if isinstance(dtype, types.Type) else dtype
        found = shared._allocations[place] = np.empty(shape, kind)
    return found


def _wrapping(add: Callable[..., Any]) -> Callable[..., Any]:
    """Return an atomic addition that wraps unsigned integers as a GPU does, without a warning."""

    def wrapping(self: Any, array: Any, index: Any, value: Any) -> Any:
        over = "ignore" if array.dtype.kind == "u" else "warn"
        with np.errstate(over=over):
            return add(self, array, index, value)

    return wrapping


def install() -> SimulatedCuda:
    """Change the simulator of this process, and return the ``cuda`` for kernels."""
    launching.BlockManager = SimulatedBlock
    kernelapi.FakeCUDAShared.array = _shared_array
    kernelapi.FakeCUDAAtomic.add = _wrapping(kernelapi.FakeCUDAAtomic.add)
    return SimulatedCuda()


def unwrapped(array: Any) -> np.ndarray:
    """Return the NumPy array behind an argument of a simulated kernel."""
    return array._item._ary
