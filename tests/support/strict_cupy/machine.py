"""Devices, streams, events and memory of the stand-in, and a log of what waits and where work runs.

The current device and stream belong to a thread, as CuPy's do: a new thread begins on the first
device and its default stream. Kernels have finished when they return; copies to the host that do
not block arrive when the stream or an event after them is waited for.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

FIRST_POINTER = 4711
"""Handle of the first stream that is made; the default stream's is 0."""


class Log:
    """What has happened since ``clear``.

    waits : list of str
        Names of the calls after which the host had the result of a computation.
    uploads : list of str
        Names of the calls that copied from the host.
    places : set of (device, stream)
        Where operations ran, streams by their handles.
    compiled : set of str
        Kernels that CuPy would have compiled at their first use (see ``compiled``).
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.waits: list[str] = []
        self.uploads: list[str] = []
        self.places: set[tuple[int, int]] = set()
        self.compiled: set[str] = set()


class OutOfMemoryError(MemoryError):
    """What CuPy raises when a device has no more memory."""


OutOfMemoryError.__module__ = "cupy.cuda.memory"


class MemoryPool:
    """CuPy's pool, which says what it was told to."""

    def __init__(self) -> None:
        self.free = self.used = self.limit = 0

    def malloc(self, size: int) -> Any:
        raise NotImplementedError("The stand-in allocates NumPy arrays.")

    def free_bytes(self) -> int:
        return self.free

    def used_bytes(self) -> int:
        return self.used

    def total_bytes(self) -> int:
        return self.free + self.used

    def get_limit(self) -> int:
        return self.limit

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        self.limit = size or 0

    def free_all_blocks(self, stream: Any = None) -> None:
        self.free = 0


class Counter:
    """Bytes of arrays that are alive, and the most that there were."""

    def __init__(self) -> None:
        self.bytes = self.peak = 0
        self._known: set[int] = set()

    def add(self, memory: np.ndarray, size: int) -> None:
        """Count an array that owns its memory, until it is gone."""
        if id(memory) not in self._known:
            self._known.add(id(memory))
            self.bytes += size
            self.peak = max(self.peak, self.bytes)
            weakref.finalize(memory, self._remove, id(memory), size)

    def _remove(self, name: int, size: int) -> None:
        self._known.discard(name)
        self.bytes -= size

    def knows(self, memory: np.ndarray) -> bool:
        """Return whether memory belongs to an array that is counted."""
        return id(owner_of(memory)) in self._known


def owner_of(memory: np.ndarray) -> np.ndarray:
    """Return the array that owns the memory of a view."""
    while isinstance(memory.base, np.ndarray):
        memory = memory.base
    return memory


class State:
    """One machine with GPUs: ``reset`` makes another one of it."""

    def __init__(self) -> None:
        self.reset(2)

    def reset(self, gpus: int) -> None:
        self.gpus = gpus
        self.log = Log()
        self.pool = MemoryPool()
        self.pinned, self.allocated = Counter(), Counter()
        self.here = threading.local()
        self.defaults = [Stream(0, index) for index in range(max(gpus, 1))]
        self.streams = 0
        self.properties = [
            {
                "name": b"Stand-in",
                "totalGlobalMem": 2**34,
                "major": 9,
                "minor": 0,
                "uuid": index.to_bytes(16, "big") + b"GPU",
            }
            for index in range(gpus)
        ]
        self.memory = (2**30, 2**34)

    @property
    def device(self) -> int:
        return getattr(self.here, "device", 0)

    @device.setter
    def device(self, index: int) -> None:
        if not 0 <= index < self.gpus:
            raise ValueError(f"cudaErrorInvalidDevice: invalid device ordinal {index}")
        self.here.device = index

    @property
    def stream(self) -> Stream:
        return self._streams().get(self.device, self.defaults[self.device])

    @stream.setter
    def stream(self, stream: Stream) -> None:
        self._streams()[self.device] = stream

    def _streams(self) -> dict[int, Stream]:
        if not hasattr(self.here, "streams"):
            self.here.streams = {}
        return self.here.streams


class Event:
    """A point of a stream."""

    def __init__(self, block: bool = False, disable_timing: bool = False) -> None:
        self._stream: Stream | None = None
        self._after = 0
        self.seconds = 0.0

    def record(self, stream: Stream | None = None) -> None:
        self.seconds = time.perf_counter()
        self._stream = state.stream if stream is None else stream
        self._after = self._stream.begun

    @property
    def done(self) -> bool:
        return self._stream is None or self._stream.arrived >= self._after

    def synchronize(self) -> None:
        state.log.waits.append("event.synchronize")
        if self._stream is not None:
            self._stream.arrive(self._after)


class Stream:
    """A queue of copies to the host that have not arrived."""

    def __init__(self, ptr: int, device_id: int) -> None:
        self.ptr, self.device_id = ptr, device_id
        self.begun = self.arrived = 0
        self._queue: list[Callable[[], None]] = []
        self._before: list[Stream] = []
        self._lock = threading.RLock()  # a default stream belongs to all threads

    def __enter__(self) -> Stream:
        if self.device_id != state.device:
            raise RuntimeError(
                f"This stream was not created on the current device (stream: {self.device_id}, "
                f"current: {state.device})."
            )
        self._before.append(state.stream)
        state.stream = self
        return self

    def __exit__(self, *error: Any) -> None:
        state.stream = self._before.pop()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.ptr, self.device_id) == (
            other.ptr,
            other.device_id,
        )

    def __hash__(self) -> int:
        return hash((self.ptr, self.device_id))

    def use(self) -> Stream:
        state.stream = self
        return self

    @property
    def done(self) -> bool:
        return self.arrived == self.begun

    def add(self, copy: Callable[[], None]) -> None:
        """Queue a copy to the host."""
        with self._lock:
            self._queue.append(copy)
            self.begun += 1

    def arrive(self, number: int) -> None:
        """Do the copies up to this one."""
        with self._lock:
            while self.arrived < number:
                copy = self._queue.pop(0)
                self.arrived += 1  # before a copy that waits for others itself
                copy()

    def synchronize(self) -> None:
        state.log.waits.append("stream.synchronize")
        self.arrive(self.begun)

    def record(self, event: Event | None = None) -> Event:
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Nothing: work has finished when it was begun."""


state = State()


def new_stream(
    null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: int | None = None
) -> Stream:
    """Return a stream of the current device: what ``cupy.cuda.Stream()`` makes."""
    if null:
        return state.defaults[state.device]
    state.streams += 1
    return Stream(FIRST_POINTER + state.streams, state.device)


def external_stream(ptr: int, device_id: int = -1) -> Stream:
    """Return the stream that another library has made."""
    return Stream(ptr, state.device if device_id < 0 else device_id)


class Device:
    """A number of a GPU; as a context the current one of the thread."""

    def __init__(self, device: Any = None) -> None:
        self.id = state.device if device is None else int(getattr(device, "id", device))
        self._before: list[int] = []

    def __enter__(self) -> Device:
        self._before.append(state.device)
        state.device = self.id
        return self

    def __exit__(self, *error: Any) -> None:
        state.device = self._before.pop()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __int__(self) -> int:
        return self.id

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"

    def use(self) -> Device:
        state.device = self.id
        return self

    def synchronize(self) -> None:
        state.log.waits.append("device.synchronize")


def empty_pinned(shape: Any, dtype: Any = float, order: Any = "C") -> np.ndarray:
    """Return memory of the host that copies read while the host goes on; it comes in powers of
    two."""
    memory = np.empty(shape, dtype, order)
    state.pinned.add(memory, 1 << max(0, memory.nbytes - 1).bit_length())
    return memory


def fetch(values: np.ndarray, stream: Stream) -> None:
    """Begin a copy from pinned memory, which must not change before somebody has waited."""
    if not state.pinned.knows(values):
        raise TypeError("A copy that does not block needs pinned memory.")
    expected = values.copy()

    def arrive() -> None:
        if values.tobytes() != expected.tobytes():
            raise AssertionError("Pinned memory was written to while it was being copied.")

    stream.add(arrive)


def begun(name: str) -> None:
    """Note that an operation has started on the current stream."""
    state.log.places.add((state.device, state.stream.ptr))


def waited(name: str) -> None:
    """Note that the host has waited for a result."""
    state.log.waits.append(name)


def uploaded(name: str) -> None:
    """Note that a call has copied from the host."""
    state.log.uploads.append(name)


def module() -> SimpleNamespace:
    """Return the content of ``cupy.cuda``."""
    runtime = SimpleNamespace(
        runtimeGetVersion=lambda: 13000,
        getDeviceCount=lambda: state.gpus,
        getDevice=lambda: state.device,
        setDevice=lambda index: setattr(state, "device", index),
        memGetInfo=lambda: state.memory,
        getDeviceProperties=lambda index: state.properties[index],
        deviceSynchronize=lambda: waited("deviceSynchronize"),
        streamLegacy=1,
    )
    return SimpleNamespace(
        Device=Device,
        Event=Event,
        ExternalStream=external_stream,
        MemoryPool=MemoryPool,
        Stream=new_stream,
        get_allocator=lambda: state.pool.malloc,
        get_current_stream=lambda device_id=-1: state.stream,
        get_device_id=lambda: state.device,
        get_elapsed_time=lambda start, end: 1e3 * (end.seconds - start.seconds),
        is_available=lambda: state.gpus > 0,
        memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        runtime=runtime,
    )
