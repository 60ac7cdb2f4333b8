"""The rows of a host's table on the device, chunk by chunk: the first chunks stay there, the others
go there in each pass, through two buffers of pinned memory.

Each pinned buffer has one on the device. While the kernels read one of these, the host fills the
other's pinned one, and a stream of its own copies it::

    host      fill A   fill B   fill A            fill B
    copies             A ----   B ----   A ----   ...     not before the kernels have read A
    kernels                     A: chunk 5        B: chunk 6

Passes go forward and backward in turn: one begins with the two chunks that the one before has left
in the buffers. Not measured on hardware.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np

from ..arrays import Array
from .target import cupy_stream, current_device, empty, is_simulated


class _Simulated:
    """A stream, and an event of it, whose work is done when it is begun."""

    def record(self) -> _Simulated:
        return self

    def wait_event(self, event: Any) -> None:
        pass

    def synchronize(self) -> None:
        pass


def _new_stream() -> Any:
    if is_simulated():
        return _Simulated()
    import cupy

    return cupy.cuda.Stream(non_blocking=True)


def _stream_of_kernels() -> Any:
    return _Simulated() if is_simulated() else cupy_stream()


def _empty_pinned(n_bytes: int) -> np.ndarray:
    if is_simulated():
        return np.empty(n_bytes, np.uint8)
    import cupyx

    pinned: np.ndarray = cupyx.empty_pinned(n_bytes, np.uint8)
    return pinned


class Buffer:
    """Pinned memory, and as much on the device: ``there``. ``holds`` names the content of both."""

    def __init__(self, n_bytes: int) -> None:
        self.pinned, self.there = _empty_pinned(n_bytes), empty(n_bytes, np.uint8)
        self.holds: Any = None
        self.copied: Any = None
        # The memory on the device may have been another array's, which kernels still read.
        self.was_read = _stream_of_kernels().record()


class StagingBuffers:
    """The two buffers of a thread, each of so many bytes, which some threads fill."""

    def __init__(self, n_bytes: int, n_threads: int) -> None:
        self._copies = _new_stream()
        self._n_threads = n_threads
        self._threads = ThreadPoolExecutor(n_threads) if n_threads > 1 else None
        self._buffers = [Buffer(n_bytes) for _ in range(2)]  # the one that was used last at the end

    def fill(self, name: Any, values: np.ndarray) -> Buffer:
        """Begin to copy bytes into a buffer, if none holds what has this name."""
        held = next((buffer for buffer in self._buffers if buffer.holds == name), None)
        # The buffer that holds the chunk, or the one that was used longer ago.
        buffer = self._next(held)
        if held is None:
            # Until the copy has begun it holds nothing: an error in between must not leave a wrong
            # name.
            buffer.holds = None
            self._copies.wait_event(buffer.was_read)
            self._send(buffer, values, buffer.there)
            buffer.holds = name
        return buffer

    def send(self, values: np.ndarray, target: Array) -> None:
        """Begin to copy bytes to an array, which the kernels to come wait for."""
        buffer = self._next(None)
        buffer.holds = None
        # The array may have been another one's, which kernels still read.
        self._copies.wait_event(_stream_of_kernels().record())
        self._send(buffer, values, target)
        _stream_of_kernels().wait_event(buffer.copied)

    def _next(self, held: Buffer | None) -> Buffer:
        buffer = self._buffers[0] if held is None else held
        self._buffers.remove(buffer)
        self._buffers.append(buffer)
        return buffer

    def _send(self, buffer: Buffer, values: np.ndarray, target: Array) -> None:
        if buffer.copied is not None:
            buffer.copied.synchronize()  # its last content has left the pinned memory
        pinned = buffer.pinned[: values.size]
        copy_among(self._threads, self._n_threads, pinned, values)
        if is_simulated():
            target[: values.size] = pinned
        else:
            target[: values.size].set(pinned, stream=self._copies)
        buffer.copied = self._copies.record()

    def __del__(self) -> None:
        """Wait for the copies: others get the buffers' memory next."""
        for buffer in getattr(self, "_buffers", []):
            if buffer.copied is not None:
                buffer.copied.synchronize()


def copy_among(
    threads: ThreadPoolExecutor | None, n_threads: int, target: np.ndarray, values: np.ndarray
) -> None:
    """Copy values, a part of them in each of some threads."""
    if threads is not None:
        parts = (np.array_split(array, n_threads) for array in (target, values))
        with suppress(RuntimeError):  # the interpreter starts no threads once it is ending
            deque(threads.map(np.copyto, *parts), 0)
            return
    np.copyto(target, values)


_stages: weakref.WeakValueDictionary[tuple[int, ...], StagingBuffers] = (
    weakref.WeakValueDictionary()
)


def stage_of(n_bytes: int, n_threads: int) -> StagingBuffers:
    """Return the two buffers of this thread on the current device, which all tables share."""
    device = 0 if is_simulated() else current_device()
    key = threading.get_ident(), device, n_bytes
    if (stage := _stages.get(key)) is None:
        stage = _stages[key] = StagingBuffers(n_bytes, n_threads)
    return stage


class Chunks:
    """The chunks of a table, which is passed to each walk: whatever is kept with a table holds no
    reference to it.

    Parameters
    ----------
    table : uint8, shape (n_rows, n_bytes of a row), contiguous, NumPy
    size : int
        Rows of a chunk.
    n_resident : int
        Rows that stay on the device, rounded up to whole chunks.
    n_threads : int
        Threads that copy rows into pinned memory.
    """

    def __init__(self, table: np.ndarray, size: int, n_resident: int, n_threads: int = 1) -> None:
        self.size = size
        self.n = -(-table.shape[0] // size)
        self.n_resident = min(-(-n_resident // size), self.n)
        self._name = object()
        self._is_forward = True
        self._stage = stage_of(size * table.shape[1], n_threads)
        self._resident = [
            empty(self._rows(table, k).size, np.uint8) for k in range(self.n_resident)
        ]
        for k, chunk in enumerate(self._resident):
            self._stage.send(self._rows(table, k), chunk)

    def walk(
        self, table: np.ndarray, will_need: Callable[[int, int], None]
    ) -> Iterator[tuple[int, Array]]:
        """Yield the number of each chunk, and its rows on the device.

        Only kernels that are launched before the next chunk is asked for may read it.
        ``will_need`` is told the rows that are read from the host behind the next chunk.
        """
        order = list(range(self.n))
        if not self._is_forward:
            # Back from where the last pass ended: two chunks are still in the buffers.
            order.reverse()
        self._is_forward = not self._is_forward
        ahead = deque(k for k in order if k >= self.n_resident)
        filled: deque[Buffer] = deque()

        def fill_next() -> None:
            if ahead:
                name = (self._name, k := ahead.popleft())
                if ahead:
                    first = ahead[0] * self.size
                    will_need(first, min(first + self.size, table.shape[0]))
                filled.append(self._stage.fill(name, self._rows(table, k)))

        # Both buffers are on their way before the first chunk is asked for.
        fill_next()
        fill_next()
        for k in order:
            n = min(self.size, table.shape[0] - k * self.size)
            if k < self.n_resident:
                yield k, self._resident[k].reshape(n, -1)
                continue
            buffer = filled.popleft()
            _stream_of_kernels().wait_event(buffer.copied)
            yield k, buffer.there[: n * table.shape[1]].reshape(n, -1)
            # Kernels that were launched meanwhile read the buffer: its next copy waits for them.
            buffer.was_read = _stream_of_kernels().record()
            fill_next()

    def _rows(self, table: np.ndarray, k: int) -> np.ndarray:
        return table[k * self.size : (k + 1) * self.size].reshape(-1)
