"""The collective of processes, over TCP: each sends to the next one and receives from the one
before.

::

    data     0 ---> 1 ---> 2 ---> 0      sums and gathered arrays, in pieces
    pulse    0 <--> 1 <--> 2 <--> 0      a byte now and then, from a thread of its own

A process that dies closes its sockets, which its neighbours notice at once; they close theirs, so
that the news goes round. One that was stopped, or whose machine is gone, sends no pulse any more.
One that is merely slow does.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..kernels.runtime.collective import Collective

SMALL = 1 << 14
"""Bytes up to which whole arrays go round, and each process adds them up itself."""
KEPT = 1 << 22
"""Bytes up to which the memory that arrays are received in is kept. Dask has its workers return
memory to the system at once, and the first writing to new memory costs more than the sum."""
AT_ONCE = 1 << 18
"""Bytes that are handed to the system at once."""
LONGEST_WAIT = 0.5
"""Seconds after which a waiting process looks whether a neighbour was declared lost."""
BEATS = 4
"""Pulses in the time after which a silent process is lost."""
GRACE = 1.0
"""Seconds that a process that has sent no pulse yet has left when the other neighbour goes."""


class WorkerLostError(RuntimeError):
    """A worker is gone, or has not answered for too long. ``silent`` is the rank of one that has
    not answered; -1 where a connection was closed, which may only be the news of a loss
    elsewhere."""

    def __init__(self, message: str, silent: int = -1) -> None:
        super().__init__(message, silent)
        self.message, self.silent = message, silent

    def __str__(self) -> str:
        return self.message


class Neighbours(NamedTuple):
    """The connections of a process: data goes to the next one and comes from the one before."""

    to_next: socket.socket
    from_last: socket.socket
    pulses: tuple[socket.socket, ...]


class Ring(Collective):
    """Processes that are connected in a ring (see ``rendezvous.join_ring``). A neighbour is lost
    after ``heartbeat`` seconds of silence, before its first pulse after ``patience`` more: it may
    still wait for its other neighbour."""

    def __init__(
        self, rank: int, size: int, neighbours: Neighbours, heartbeat: float, patience: float = 0.0
    ) -> None:
        self.rank, self.size = rank, size
        self._next, self._last = neighbours.to_next, neighbours.from_last
        self._lost, self._silent = "", -1
        self._rooms = [np.empty(0, np.uint8), np.empty(0, np.uint8)]
        self._closing = threading.Event()
        self._waits = {}
        for sends, receives in ((True, True), (True, False), (False, True)):
            selector = selectors.DefaultSelector()
            if sends:
                selector.register(self._next, selectors.EVENT_WRITE)
            if receives:
                selector.register(self._last, selectors.EVENT_READ)
            self._waits[sends, receives] = selector
        for data in (self._next, self._last):
            data.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            data.setblocking(False)
        self._pulses = neighbours.pulses
        for pulse in self._pulses:  # before any data, so that a worker that finishes was heard of
            with suppress(OSError):
                pulse.sendall(b"!")
        self._watch = threading.Thread(
            target=self._beat, args=(heartbeat, patience), name="gpuens-pulse", daemon=True
        )
        self._watch.start()

    def __enter__(self) -> Ring:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. The neighbours see that this worker is gone."""
        self._closing.set()
        connections = (self._next, self._last, *self._pulses)
        for connection in connections:
            _shut(connection)  # which wakes the thread of the pulse
        self._watch.join()
        for selector in self._waits.values():
            selector.close()
        for connection in connections:
            connection.close()

    def add(self, values: np.ndarray) -> None:
        flat = values.reshape(-1)
        # Two processes send as much either way, whole arrays in one step in place of two.
        if flat.nbytes <= (KEPT if self.size == 2 else SMALL):
            self._add_whole(flat)
        else:
            self._add_large(flat)

    def _add_whole(self, flat: np.ndarray) -> None:
        piece = flat
        for step in range(self.size - 1):
            other = self._room(flat.size, flat.dtype, step & 1)
            self._exchange(piece, other)
            flat += other
            piece = other

    # The array is cut into a part for each process. In size - 1 steps a part's sum goes round,
    # and every process adds its own; in size - 1 more steps the finished parts go round.
    def _add_large(self, flat: np.ndarray) -> None:
        cuts = [flat.size * k // self.size for k in range(self.size + 1)]
        parts = [flat[begin:end] for begin, end in zip(cuts[:-1], cuts[1:], strict=True)]
        received = self._room(max(part.size for part in parts), flat.dtype)
        for step in range(self.size - 1):
            into = parts[(self.rank - step - 1) % self.size]
            self._exchange(parts[(self.rank - step) % self.size], received[: into.size])
            into += received[: into.size]
        for step in range(self.size - 1):
            into = parts[(self.rank - step) % self.size]
            self._exchange(parts[(self.rank + 1 - step) % self.size], into)

    def _room(self, n: int, dtype: np.dtype, which: int = 0) -> np.ndarray:
        """Return memory for n values, one of two arrays that the next call may give away again."""
        n_bytes = n * dtype.itemsize
        if n_bytes > KEPT:
            return np.empty(n, dtype)
        if self._rooms[which].size < n_bytes:
            self._rooms[which] = np.empty(n_bytes, np.uint8)
        return self._rooms[which][:n_bytes].view(dtype)

    def gather(self, values: np.ndarray) -> list[np.ndarray]:
        found: list[Any] = [None] * self.size
        found[self.rank] = values
        length = np.empty(1, np.int64)
        for step in range(self.size - 1):
            own = found[(self.rank - step) % self.size]
            self._exchange(np.array([len(own)]), length)
            other = np.empty((int(length[0]), *values.shape[1:]), values.dtype)
            self._exchange(own, other)
            found[(self.rank - step - 1) % self.size] = other
        return found

    def _exchange(self, out: np.ndarray, into: np.ndarray) -> None:
        """Send one array to the next worker while receiving another from the one before."""
        try:
            self._move(_bytes_of(out), _bytes_of(into))
        except (OSError, ValueError) as error:  # ValueError: of a selector that was closed
            self.give_up(error)

    def has_lost_one(self) -> bool:
        """Return whether a neighbour has closed its connection, or is silent."""
        try:
            for data in (self._next, self._last):
                with suppress(BlockingIOError):
                    if not data.recv(1, socket.MSG_PEEK):
                        return True
        except OSError:
            return True
        return bool(self._lost)

    def give_up(self, error: Exception) -> NoReturn:
        """Close all connections, and raise WorkerLostError."""
        lost = self._lost or f"worker {self._name(-1)} or {self._name(1)} is gone ({error})"
        self.close()
        raise WorkerLostError(lost, self._silent) from error

    def _move(self, out: memoryview, into: memoryview) -> None:
        sent = received = 0
        while sent < len(out) or received < len(into):
            before = sent + received
            with suppress(BlockingIOError):
                if sent < len(out):
                    sent += self._next.send(out[sent : sent + AT_ONCE])
            with suppress(BlockingIOError):
                if received < len(into):
                    n = self._last.recv_into(into[received:])
                    if n == 0:
                        raise ConnectionError("it closed the connection")
                    received += n
            if sent + received == before:
                self._waits[sent < len(out), received < len(into)].select(LONGEST_WAIT)
            if self._lost:
                raise ConnectionError(self._lost)

    def _name(self, step: int) -> int:
        return (self.rank + step) % self.size

    def _beat(self, heartbeat: float, patience: float) -> None:
        """Send further pulses now and then, and declare neighbours lost that send none."""
        names = dict(zip(self._pulses, (self._name(1), self._name(-1)), strict=True))
        heard = dict.fromkeys(self._pulses, time.monotonic() + patience)
        with selectors.DefaultSelector() as selector:
            for pulse in self._pulses:
                pulse.setblocking(False)
                selector.register(pulse, selectors.EVENT_READ)
            while heard and not self._closing.is_set():
                begun = time.monotonic()
                while (left := begun + heartbeat / BEATS - time.monotonic()) > 0 and heard:
                    for key, _ in selector.select(min(left, LONGEST_WAIT)):
                        if not _listen(key.fileobj, selector, heard):
                            _hurry(heard, time.monotonic() + GRACE - heartbeat)
                    if self._closing.is_set():
                        return
                for pulse, last in heard.items():
                    if time.monotonic() - last > heartbeat:
                        self._declare_lost(names[pulse], heartbeat)
                        return
                for pulse in heard:
                    with suppress(OSError):  # a full buffer, or a neighbour that has finished
                        pulse.send(b"!")

    def _declare_lost(self, name: int, heartbeat: float) -> None:
        self._silent = name
        self._lost = f"worker {name} has not answered for {heartbeat:g} s"
        for data in (self._next, self._last):
            _shut(data)  # which wakes the thread that waits for them


def _listen(
    pulse: Any, selector: selectors.BaseSelector, heard: dict[socket.socket, float]
) -> bool:
    """Read a pulse; False at the end of the connection. A neighbour that closes it has finished or
    died, which follows from the data."""
    try:
        alive = bool(pulse.recv(64))
    except BlockingIOError:
        return True
    except OSError:
        alive = False
    if alive:
        heard[pulse] = time.monotonic()
    else:
        selector.unregister(pulse)
        del heard[pulse]
    return alive


def _hurry(heard: dict[socket.socket, float], last: float) -> None:
    """Have a neighbour that was never heard of count as heard of at ``last``: it waits for one that
    will not come, as no process can finish before all are there."""
    for pulse, moment in heard.items():
        if moment > time.monotonic():
            heard[pulse] = last


def _bytes_of(array: np.ndarray) -> memoryview:
    """Return the bytes of a contiguous array, which may be empty."""
    return array.reshape(-1).view(np.uint8).data


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
