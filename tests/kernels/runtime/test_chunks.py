"""Chunks of a host's table on a GPU: copies and kernels in any order that streams allow."""

from __future__ import annotations

import random
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpuens.kernels.runtime.cuda import chunks
from gpuens.kernels.runtime.cuda.chunks import Chunks

ROW_BYTES = 8


class Event:
    """A point of a stream: ``is_past`` once the work before it is done."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu, self.is_past = gpu, False

    def synchronize(self) -> None:
        self.gpu.run_until(lambda: self.is_past)


class Stream:
    """Work that is done in its order, some time after it was launched."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.queue: deque[tuple[Event | None, Callable[[], None]]] = deque()

    def add(self, work: Callable[[], None], after: Event | None = None) -> None:
        self.queue.append((after, work))

    def record(self) -> Event:
        event = Event(self.gpu)
        self.add(lambda: setattr(event, "is_past", True))
        return event

    def wait_event(self, event: Event) -> None:
        self.add(lambda: None, event)

    @property
    def can_go_on(self) -> bool:
        return bool(self.queue) and (self.queue[0][0] is None or self.queue[0][0].is_past)


class There:
    """An array of the GPU."""

    def __init__(self, gpu: Gpu, values: np.ndarray) -> None:
        self.gpu, self.values = gpu, values

    def __getitem__(self, part: slice) -> There:
        return There(self.gpu, self.values[part])

    def reshape(self, *shape: int) -> There:
        return There(self.gpu, self.values.reshape(*shape))

    def set(self, pinned: np.ndarray, stream: Stream) -> None:
        assert any(np.shares_memory(pinned, memory) for memory in self.gpu.pinned)
        stream.add(lambda: np.copyto(self.values, pinned))
        self.gpu.n_copied += 1


class Gpu:
    """Two streams, of which any may go on that is not waiting."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.copies, self.kernels = Stream(self), Stream(self)
        self.pinned: list[np.ndarray] = []
        self.n_copied = 0

    def run_until(self, is_enough: Callable[[], bool]) -> None:
        while not is_enough():
            able = [stream for stream in (self.copies, self.kernels) if stream.can_go_on]
            self.chance.choice(able).queue.popleft()[1]()

    def empty(self, size: int, dtype: Any) -> There:
        return There(self, np.full(size, 0xEE, dtype))

    def empty_pinned(self, size: int) -> np.ndarray:
        self.pinned.append(np.full(size, 0xEE, np.uint8))
        return self.pinned[-1]


@pytest.fixture(params=range(4))
def gpu(request: Any, monkeypatch: pytest.MonkeyPatch) -> Gpu:
    made = Gpu(request.param)
    monkeypatch.setattr(chunks, "is_simulated", lambda: False)
    monkeypatch.setattr(chunks, "current_device", lambda: 0)
    monkeypatch.setattr(chunks, "_stages", weakref.WeakValueDictionary())
    monkeypatch.setattr(chunks, "empty", made.empty)
    monkeypatch.setattr(chunks, "_empty_pinned", made.empty_pinned)
    monkeypatch.setattr(chunks, "_new_stream", lambda: made.copies)
    monkeypatch.setattr(chunks, "_stream_of_kernels", lambda: made.kernels)
    return made


def table(n_rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 255, (n_rows, ROW_BYTES), np.uint8)


def launched(gpu: Gpu, of: Chunks, rows: np.ndarray, told: Any = None) -> list[Any]:
    """Launch kernels that read the chunks of a walk; returns what they will have read."""
    read: list[Any] = []
    for k, chunk in of.walk(rows, told or (lambda first, last: None)):
        gpu.kernels.add(lambda k=k, chunk=chunk: read.append((k, chunk.values.copy())))
    return read


def require_read(read: list[Any], rows: np.ndarray, size: int, backward: bool) -> None:
    numbers = list(range(-(-len(rows) // size)))
    assert [k for k, _ in read] == (numbers[::-1] if backward else numbers)
    for k, values in read:
        np.testing.assert_array_equal(values, rows[k * size : (k + 1) * size])


@pytest.mark.parametrize("n_resident", [0, 1, 250, 1000])
@pytest.mark.parametrize("size", [1, 97, 100, 500, 2000])
def test_kernels_read_the_rows_of_their_chunks(gpu, size, n_resident):
    rows, other = table(431), table(60, 1)
    of_rows, of_other = Chunks(rows, size, n_resident, 3), Chunks(other, size, 0, 3)
    passes = []
    for k in range(3):
        passes.append((launched(gpu, of_rows, rows), rows, k % 2 == 1))
        passes.append((launched(gpu, of_other, other), other, k % 2 == 1))
    gpu.run_until(lambda: not (gpu.copies.queue or gpu.kernels.queue))
    for read, own, backward in passes:
        require_read(read, own, size, backward)
    assert [memory.size for memory in gpu.pinned] == [size * ROW_BYTES] * 2


def test_resident_chunks_and_those_in_the_buffers_are_copied_once(gpu):
    rows = table(80)
    of = Chunks(rows, 10, 25)
    assert of.n == 8 and of.n_resident == 3 and gpu.n_copied == 3
    for n_copied in (5, 3, 3, 3):  # a pass begins with the two chunks of the last one
        gpu.n_copied = 0
        launched(gpu, of, rows)
        assert gpu.n_copied == n_copied


def test_rows_are_announced_while_others_are_copied(gpu):
    rows, told = table(45), []
    of = Chunks(rows, 10, 10)
    launched(gpu, of, rows, lambda *announced: told.append(announced))
    assert told == [(20, 30), (30, 40), (40, 45)]


def test_buffers_end_with_the_tables(gpu):
    rows = table(30)
    of, another = Chunks(rows, 10, 0), Chunks(rows, 10, 0)
    launched(gpu, of, rows)
    del of
    launched(gpu, another, rows)
    assert len(gpu.pinned) == 2
    del another
    launched(gpu, Chunks(rows, 10, 0), rows)
    assert len(gpu.pinned) == 4
