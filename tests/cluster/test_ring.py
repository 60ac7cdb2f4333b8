"""The collective of processes, its rendezvous, and what it does about workers that are gone."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuens import GradientBoostingRegressor
from gpuens.cluster import rendezvous
from gpuens.cluster.rendezvous import Place, join_ring, open_listener
from gpuens.cluster.ring import KEPT, SMALL, Ring, WorkerLostError
from gpuens.kernels.runtime.dtypes import SUM_CHUNK
from gpuens.tables.worker_rows import pieces_of, ranges_of
from tests.support.lanes import few
from tests.support.thread_workers import HOST, PATIENCE, ring_of_threads

ROOT = Path(__file__).parents[2]


def pulse_threads() -> int:
    return sum(thread.name == "gpuens-pulse" for thread in threading.enumerate())


@pytest.mark.parametrize("size", [2, 3, 5])
def test_sums_and_gathered_arrays(size):
    shapes = [(1,), (3, 2), (SMALL // 8,), (SMALL // 8 + 1,), (KEPT // 8 + 1,), (9,)]
    rng = np.random.default_rng(size)
    values = [[rng.integers(-(2**40), 2**40, s) for s in shapes] for _ in range(size)]
    columns = [rng.standard_normal((rank, 3)).astype(np.float32) for rank in range(size)]

    def work(ring: Ring) -> Any:
        own = [array.copy() for array in values[ring.rank]]
        for array in own:
            ring.add(array)
        return own, ring.gather(columns[ring.rank])

    for sums, gathered in ring_of_threads(size, work):
        for k, total in enumerate(sums):
            assert np.array_equal(total, sum(values[rank][k] for rank in range(size)))
        for own, theirs in zip(gathered, columns, strict=True):
            assert own.dtype == theirs.dtype and np.array_equal(own, theirs)
    assert pulse_threads() == 0


def test_an_error_of_one_worker_ends_all():
    def work(ring: Ring) -> None:
        if ring.rank == 1:
            raise ValueError("bad rows")
        while True:
            ring.add(np.zeros(10_000, np.int64))

    first, second, third = ring_of_threads(3, work)
    assert isinstance(second, ValueError)
    assert isinstance(first, WorkerLostError) and isinstance(third, WorkerLostError)
    assert pulse_threads() == 0


def test_slow_is_not_lost():
    def work(ring: Ring) -> int:
        total = np.ones(1, np.int64)
        if ring.rank == 0:
            time.sleep(3.0)
        ring.add(total)
        return int(total[0])

    assert ring_of_threads(2, work, heartbeat=1.0) == [2, 2]


def test_a_neighbour_that_waits_for_another_is_not_lost():
    """The second worker has its ring when the third has come; the first has it before."""
    listeners = [open_listener(HOST) for _ in range(3)]
    addresses = [listener.getsockname()[:2] for listener in listeners]
    found: list[Any] = []

    def work(rank: int) -> None:
        total = np.ones(1, np.int64)
        try:
            with join_ring(Place(rank, addresses, "token"), listeners[rank], 1.0, PATIENCE) as ring:
                ring.add(total)
            found.append(int(total[0]))
        except WorkerLostError as error:
            found.append(error)

    place = Place(2, addresses, "token")
    early = rendezvous._call(addresses[0], place, "data", time.monotonic() + PATIENCE)
    pulse = rendezvous._call(addresses[0], place, "pulse", time.monotonic() + PATIENCE)
    threads = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    time.sleep(3.0)
    assert found == []
    for connection in (early, pulse, listeners[2]):
        connection.close()
    for thread in threads:
        thread.join(PATIENCE)


def test_other_versions_are_named(monkeypatch):
    own, calls = rendezvous.versions(), []

    def versions() -> dict[str, str]:
        calls.append(threading.get_ident())
        return {**own, "numpy": f"1.{len(set(calls))}"}  # another one in every thread

    monkeypatch.setattr(rendezvous, "versions", versions)
    errors = ring_of_threads(2, lambda ring: None)
    texts = [str(error) for error in errors if type(error) is RuntimeError]
    assert texts and all("Workers must have the same versions" in text for text in texts)
    assert all("numpy 1." in text for text in texts)
    assert all(isinstance(error, RuntimeError) for error in errors)


def test_strangers_are_turned_away():
    listeners = [open_listener(HOST) for _ in range(2)]
    addresses = [listener.getsockname()[:2] for listener in listeners]
    strangers = []
    for message in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\2{}", b"\0\0\0\4null"):
        strangers.append(socket.create_connection(addresses[0]))
        strangers[-1].sendall(message)
        strangers[-1].shutdown(socket.SHUT_WR)
    wrong = {"token": "guessed", "rank": 1, "kind": "data", "versions": {}}
    text = json.dumps(wrong).encode()
    strangers.append(socket.create_connection(addresses[0]))
    strangers[-1].sendall(len(text).to_bytes(4, "big") + text)
    sums = []

    def work(rank: int) -> None:
        place = Place(rank, addresses, "token")
        with join_ring(place, listeners[rank], 30.0, PATIENCE) as ring:
            total = np.array([rank + 1])
            ring.add(total)
            sums.append(int(total[0]))

    other = threading.Thread(target=work, args=(1,), daemon=True)
    other.start()
    work(0)
    other.join(PATIENCE)
    for stranger in strangers:
        stranger.close()
    assert sums == [3, 3]


def test_a_worker_that_never_comes():
    listeners = [open_listener(HOST) for _ in range(2)]
    addresses = [listener.getsockname()[:2] for listener in listeners]
    with (
        listeners[1],
        pytest.raises(WorkerLostError, match="cannot reach its neighbours within 0.2 s"),
    ):
        join_ring(Place(0, addresses, "token"), listeners[0], 1.0, 0.2)
    listeners[1].close()
    gone = open_listener(HOST)
    with pytest.raises(WorkerLostError, match="refused"):
        join_ring(Place(0, addresses, "token"), gone, 1.0, 5.0)


def test_the_loss_of_a_worker_is_known_to_those_that_do_not_call_it():
    """The second of four is gone: the third waited for it until its patience was over, since only
    the first one calls it."""
    listeners = [open_listener(HOST) for _ in range(4)]
    addresses = [listener.getsockname()[:2] for listener in listeners]
    errors: list[Any] = []

    def work(rank: int) -> None:
        try:
            with join_ring(Place(rank, addresses, "token"), listeners[rank], 2.0, 1e3) as ring:
                ring.add(np.ones(1))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in (0, 2, 3)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    assert errors == []
    listeners[1].close()
    for thread in threads:
        thread.join(PATIENCE)
    assert [type(error) for error in errors] == [WorkerLostError] * 3


PROGRAM = """
import sys, json
import numpy as np
from gpuens import GradientBoostingRegressor
from gpuens.cluster.rendezvous import Place, join_ring, open_listener
from gpuens.cluster.ring import WorkerLostError
from gpuens.kernels.runtime.collective import Workers, sharing

class Tell:
    runs_on_every_worker = True
    def after_iteration(self, state):
        print(state.iteration, flush=True)

listener = open_listener("127.0.0.1")
print(json.dumps(listener.getsockname()), flush=True)
rank, addresses, ends, heartbeat, params = json.loads(sys.stdin.readline())
rng = np.random.default_rng(0)
X = rng.standard_normal((ends[-1], 6)); y = X[:, 0] * X[:, 1] + X[:, 2]
first = [0, *ends][rank]
rows = slice(first, ends[rank])
place = Place(rank, [tuple(a) for a in addresses], "token")
try:
    with join_ring(place, listener, heartbeat, 300.0) as ring:
        with sharing(Workers(ring, first, ends[rank] - first, ends[-1])):
            model = GradientBoostingRegressor(callbacks=[Tell()], **params).fit(X[rows], y[rows])
    print(model.forest_.fingerprint(), flush=True)
except WorkerLostError as error:
    print("lost:", error, flush=True)
"""


@contextlib.contextmanager
def processes(ends: list[int], heartbeat: float, **params: Any) -> Any:
    """Start a process for each range of rows."""
    command = [sys.executable, "-W", "error", "-c", PROGRAM]
    started = [subprocess.Popen(command, cwd=ROOT, text=True, stdin=-1, stdout=-1) for _ in ends]
    try:
        addresses = [json.loads(p.stdout.readline()) for p in started]
        for rank, p in enumerate(started):
            p.stdin.write(json.dumps([rank, addresses, ends, heartbeat, params]) + "\n")
            p.stdin.flush()
        yield started
    finally:
        for p in started:
            p.kill()
            p.communicate()


PARAMS = {"n_estimators": 6, "random_state": 1, "device": "cpu", "subsample": 0.5}


def test_processes_train_the_model_of_fit():
    ends = [3072, 5000]
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ends[-1], 6))
    plain = GradientBoostingRegressor(**PARAMS).fit(X, X[:, 0] * X[:, 1] + X[:, 2])
    with processes(ends, 60.0, **PARAMS) as started:
        found = [p.stdout.read().splitlines()[-1] for p in started]
    assert found == [plain.forest_.fingerprint()] * 2


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="the system cannot stop a process")
@pytest.mark.parametrize(
    ("number", "heartbeat", "says"),
    few([("SIGKILL", 60.0, "closed the connection"), ("SIGSTOP", 5.0, "worker 1 has not")]),
)
def test_a_worker_that_is_killed_or_stopped(number, heartbeat, says):
    endless = PARAMS | {"n_estimators": 100_000}
    with processes([2048, 4096, 5000], heartbeat, **endless) as started:
        assert "5\n" in started[1].stdout
        os.kill(started[1].pid, getattr(signal, number))
        found = [started[k].stdout.read().splitlines()[-1] for k in (0, 2)]
        assert [started[k].wait() for k in (0, 2)] == [0, 0]
    assert all(text.startswith("lost:") for text in found)
    assert any(says in text for text in found)


@given(st.lists(st.integers(0, 9000), min_size=1, max_size=8).filter(any), st.integers(1, 6))
def test_ranges_are_whole_chunks_of_all_rows(lengths, n_workers):
    n = sum(lengths)
    ranges = ranges_of(lengths, n_workers)
    assert 1 <= len(ranges) <= n_workers
    assert ranges[0][0] == 0 and ranges[-1][1] == n
    assert all(begin % SUM_CHUNK == 0 and begin < end for begin, end in ranges)
    assert [end for _, end in ranges[:-1]] == [begin for begin, _ in ranges[1:]]
    starts = np.cumsum([0, *lengths])
    for begin, end in ranges:
        rows = [
            np.arange(starts[part] + first, starts[part] + last)
            for part, first, last in pieces_of(lengths, begin, end)
        ]
        assert np.array_equal(np.concatenate(rows), np.arange(begin, end))


def test_parts_are_divided_only_where_workers_would_be_uneven():
    assert ranges_of([100_100, 99_900], 2) == [(0, 100_352), (100_352, 200_000)]
    assert ranges_of([200_000], 4)[1] == (49_152, 99_328)
    assert ranges_of([10, 0, 20], 3) == [(0, 30)]
    assert pieces_of([10, 0, 20], 5, 12) == [(0, 5, 10), (2, 0, 2)]
