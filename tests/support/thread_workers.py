"""Workers that are threads of this process, and cuts of a table among them."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuens.cluster.rendezvous import Place, join_ring, open_listener
from gpuens.cluster.ring import Ring
from gpuens.kernels.runtime.collective import Collective

HOST = "127.0.0.1"
PATIENCE = 300.0
"""Seconds after which a worker that waits for the others gives up."""


class Meeting:
    """Where the threads of a group leave arrays for each other."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.barrier = threading.Barrier(size, timeout=PATIENCE)
        self.places: list[Any] = [None] * size


class ThreadCollective(Collective):
    """The collective of threads; counts its calls."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self._meeting, self.rank, self.size = meeting, rank, meeting.size
        self.n_calls = 0

    def add(self, values: np.ndarray) -> None:
        assert values.dtype in (np.int32, np.int64)
        values[...] = np.sum(self.gather(values[None]), axis=0)[0]

    def gather(self, values: np.ndarray) -> list[np.ndarray]:
        meeting = self._meeting
        self.n_calls += 1
        meeting.places[self.rank] = values.copy()
        meeting.barrier.wait()
        found = list(meeting.places)
        meeting.barrier.wait()
        return found


def run_workers(size: int, work: Callable[[ThreadCollective], Any]) -> list[Any]:
    """Return the results of ``work(collective)`` of every worker; an error of one ends all."""
    meeting = Meeting(size)
    results: list[Any] = [None] * size
    errors: list[Exception] = []

    def target(rank: int) -> None:
        try:
            results[rank] = work(ThreadCollective(meeting, rank))
        except threading.BrokenBarrierError as error:
            errors.append(error)
        except Exception as error:
            errors.insert(0, error)
            meeting.barrier.abort()

    _run(target, size)
    if errors:
        raise errors[0]
    return results


def ring_of_threads(
    size: int, work: Callable[[Any], Any], heartbeat: float = 30.0, kind: type[Ring] = Ring
) -> list[Any]:
    """Return the results, or errors, of ``work(ring)`` of every worker of a ring of sockets."""
    listeners = [open_listener(HOST) for _ in range(size)]
    addresses = [listener.getsockname()[:2] for listener in listeners]
    results: list[Any] = [None] * size

    def target(rank: int) -> None:
        try:
            place = Place(rank, addresses, "token")
            with join_ring(place, listeners[rank], heartbeat, PATIENCE, kind) as ring:
                results[rank] = work(ring)
        except Exception as error:
            results[rank] = error

    _run(target, size)
    return results


def _run(target: Callable[[int], None], size: int) -> None:
    """Run a function of each rank in a thread with a copy of this context."""
    contexts = [contextvars.copy_context() for _ in range(size)]
    threads = [
        threading.Thread(target=context.run, args=(target, rank), daemon=True)
        for rank, context in enumerate(contexts)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a worker hangs"


def cut(arrays: Sequence[Any], ends: Sequence[int]) -> list[tuple[Any, ...]]:
    """Cut arrays into the rows up to each of ``ends``; None is not cut."""
    begins = [0, *ends[:-1]]
    return [
        tuple(None if array is None else array[begin:end] for array in arrays)
        for begin, end in zip(begins, ends, strict=True)
    ]
