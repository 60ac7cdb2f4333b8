"""How processes find each other and become a ring.

Each opens a listener on a port that the system chooses, learns the addresses of all, connects to
the next one and waits for the one before. A process without the ring's token is turned away;
processes with other versions of the libraries that decide about models are refused.
"""

from __future__ import annotations

import json
import selectors
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .ring import Neighbours, Ring, WorkerLostError

LONGEST_HELLO = 1 << 16
"""Bytes of a greeting."""
LONGEST_GREETING = 5.0
"""Seconds that something that connects may take to introduce itself."""
DATA, PULSE = "data", "pulse"

Address = tuple[str, int]


class Place(NamedTuple):
    """The place of a process in a ring: its rank, the addresses of all listeners, and a token that
    is known to these processes alone."""

    rank: int
    addresses: Sequence[Address]
    token: str


def versions() -> dict[str, str]:
    """Return what must be the same in all processes."""
    from .. import __version__

    return {"gpuens": __version__, "numpy": np.__version__, "byte order": sys.byteorder}


def open_listener(host: str) -> socket.socket:
    """Return a socket that listens on a free port of this machine's address ``host``."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, 0), family=family)


def join_ring(
    place: Place,
    listener: socket.socket,
    heartbeat: float,
    patience: float,
    kind: type[Ring] = Ring,
) -> Ring:
    """Connect with the neighbours within ``patience`` seconds, and close the listener. Raises a
    WorkerLostError if a neighbour cannot be reached, is gone again, or does not come in time, and a
    RuntimeError if one has other versions."""
    deadline = time.monotonic() + patience
    opened: list[socket.socket] = []
    try:
        with listener:
            address = place.addresses[(place.rank + 1) % len(place.addresses)]
            for use in (DATA, PULSE):
                opened.append(_call(address, place, use, deadline))
            watch = _Next(opened[0], deadline)
            found = _await_last(listener, place, deadline, opened, watch)
        watch.read_answer()
        _check_answer(_receive(opened[1], deadline))
        neighbours = Neighbours(opened[0], found[DATA], (opened[1], found[PULSE]))
        left = max(0.0, deadline - time.monotonic())
        return kind(place.rank, len(place.addresses), neighbours, heartbeat, left)
    except BaseException as error:
        for connection in opened:
            connection.close()
        if isinstance(error, OSError):
            raise WorkerLostError(
                f"worker {place.rank} cannot reach its neighbours within {patience:g} s ({error})"
            ) from error
        raise


def _call(address: Address, place: Place, kind: str, deadline: float) -> socket.socket:
    """Connect to the next process and introduce this one."""
    connection = socket.create_connection(address, timeout=_left(deadline))
    hello = {"token": place.token, "rank": place.rank, "kind": kind, "versions": versions()}
    try:
        _send(connection, hello)
    except BaseException:
        connection.close()
        raise
    return connection


class _Next:
    """The data connection to the next process, which says nothing on it but its answer: if it
    closes it, some process is gone, and those that wait for each other learn it one by one."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self.connection, self._deadline = connection, deadline
        self._has_answered = False

    def read_answer(self) -> None:
        if not self._has_answered:
            _check_answer(_receive(self.connection, self._deadline))
            self._has_answered = True

    def look(self) -> None:
        """Read what has come: the answer, or the end, which is a ConnectionError."""
        if self._has_answered:
            _read(self.connection, 1, self._deadline)
        self.read_answer()


def _await_last(
    listener: socket.socket,
    place: Place,
    deadline: float,
    opened: list[socket.socket],
    watch: _Next,
) -> dict[str, socket.socket]:
    """Accept the connections of the process before, while the next one is there."""
    last = (place.rank - 1) % len(place.addresses)
    found: dict[str, socket.socket] = {}
    while len(found) < 2:
        _wait_for_a_caller(listener, watch, deadline)
        listener.settimeout(_left(deadline))
        connection, _ = listener.accept()
        opened.append(connection)
        try:
            hello = _receive(connection, min(deadline, time.monotonic() + LONGEST_GREETING))
        except (OSError, ValueError):  # not a worker
            hello = {}
        if hello.get("token") != place.token or hello.get("rank") != last:
            opened.remove(connection)
            connection.close()
            continue
        problem = _difference(hello["versions"], last, place.rank)
        _send(connection, {"problem": problem})
        if problem:
            raise RuntimeError(problem)
        found[hello["kind"]] = connection
    return found


def _wait_for_a_caller(listener: socket.socket, watch: _Next, deadline: float) -> None:
    with selectors.DefaultSelector() as selector:
        for watched in (listener, watch.connection):
            selector.register(watched, selectors.EVENT_READ)
        while ready := {key.fileobj for key, _ in selector.select(_left(deadline))}:
            if watch.connection in ready:
                watch.look()
            if listener in ready:
                return
    raise TimeoutError("timed out")


def _difference(theirs: dict[str, str], their_rank: int, rank: int) -> str:
    """Describe how the versions of two processes differ; empty if they do not."""
    own = versions()
    wrong = [name for name in own if theirs.get(name) != own[name]]
    if not wrong:
        return ""
    return (
        f"Workers must have the same versions: worker {their_rank} has "
        + ", ".join(f"{name} {theirs.get(name)}" for name in wrong)
        + f", worker {rank} has "
        + ", ".join(f"{name} {own[name]}" for name in wrong)
        + ". Install the same on all of them."
    )


def _check_answer(answer: dict[str, Any]) -> None:
    if answer["problem"]:
        raise RuntimeError(answer["problem"])


def _send(connection: socket.socket, message: dict[str, Any]) -> None:
    text = json.dumps(message).encode()
    connection.sendall(len(text).to_bytes(4, "big") + text)


def _receive(connection: socket.socket, deadline: float) -> dict[str, Any]:
    length = int.from_bytes(_read(connection, 4, deadline), "big")
    if length > LONGEST_HELLO:
        raise ValueError("not a greeting")
    message = json.loads(_read(connection, length, deadline))
    if not isinstance(message, dict):
        raise ValueError("not a greeting")
    return message


def _read(connection: socket.socket, n: int, deadline: float) -> bytes:
    found = b""
    while len(found) < n:
        connection.settimeout(_left(deadline))
        piece = connection.recv(n - len(found))
        if not piece:
            raise ConnectionError("a neighbour closed the connection")
        found += piece
    return found


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left
