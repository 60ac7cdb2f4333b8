"""The team of threads that runs CPU kernels."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest

from gpuens.kernels.runtime.compilation import kernel
from gpuens.kernels.runtime.cpu import team
from gpuens.kernels.runtime.cpu.team import atomic_add, get_threads, run, using_threads, wait
from gpuens.kernels.runtime.system import ForkSafeLock


@kernel
def _count(thread, n_threads, barrier, rounds, totals, seen):
    """In every round each thread adds 1, then sees what all have added."""
    for r in range(rounds):
        atomic_add(totals, r, 1)
        wait(barrier, n_threads)
        seen[thread, r] = totals[r]


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_all_threads_meet_at_every_barrier(n_threads):
    totals, seen = np.zeros(300, np.int64), np.zeros((n_threads, 300), np.int64)
    run(_count, n_threads, 300, totals, seen)
    assert np.all(totals == n_threads)
    assert np.all(seen == n_threads)


def test_several_callers_have_teams_of_their_own():
    results = []

    def call():
        totals, seen = np.zeros(50, np.int64), np.zeros((3, 50), np.int64)
        for _ in range(20):
            totals[:] = 0
            run(_count, 3, 50, totals, seen)
        results.append(bool(np.all(seen == 3)))

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert results == [True] * 4


def test_errors_of_a_helper_reach_the_caller():
    def worker(thread, n_threads, barrier):
        if thread == 1:
            raise ValueError("in a helper")

    with pytest.raises(ValueError, match="in a helper"):
        run(worker, 2)
    totals, seen = np.zeros(5, np.int64), np.zeros((2, 5), np.int64)
    run(_count, 2, 5, totals, seen)  # the helper is still of use
    assert np.all(seen == 2)


def test_interrupts_wait_for_the_team():
    order = []

    def worker(thread, n_threads, barrier):
        if thread == 0:
            os.kill(os.getpid(), signal.SIGINT)
            order.extend(range(3))

    with pytest.raises(KeyboardInterrupt):
        run(worker, 2)
    assert order == [0, 1, 2]


def test_number_of_threads_belongs_to_the_block_and_the_calling_thread():
    other = []
    with using_threads(4):
        caller = threading.Thread(target=lambda: other.append(get_threads()))
        caller.start()
        caller.join()
        with using_threads(2):
            assert get_threads() == 2
        assert get_threads() == 4
    assert (other, get_threads()) == ([1], 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_forked_process_starts_threads_of_its_own():
    totals, seen = np.zeros(5, np.int64), np.zeros((2, 5), np.int64)
    run(_count, 2, 5, totals, seen)
    with pytest.warns(DeprecationWarning) if os.sys.version_info >= (3, 12) else _nothing():
        child = os.fork()
    if child == 0:
        _count_and_exit(totals, seen)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_forked_while_a_thread_gets_its_helpers(monkeypatch):
    """What that thread holds is never released in the child."""
    totals, seen = np.zeros(5, np.int64), np.zeros((2, 5), np.int64)
    run(_count, 2, 5, totals.copy(), seen.copy())  # compiles
    started, forked = threading.Event(), threading.Event()

    class Slow(team._Helper):
        def __init__(self):
            started.set()
            forked.wait(60)
            super().__init__()

    team._idle.clear()
    with monkeypatch.context() as patched:
        patched.setattr(team, "_Helper", Slow)
        caller = threading.Thread(target=run, args=(_count, 2, 5, totals.copy(), seen.copy()))
        caller.start()
        started.wait(60)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        _count_and_exit(totals, seen)
    forked.set()
    caller.join()
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_lock_is_open_in_a_forked_process():
    lock = ForkSafeLock()
    with lock.held:
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            with lock.held:
                os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs signal.setitimer")
def test_an_interrupt_leaves_no_lock_taken():
    lock, interrupts = ForkSafeLock(), 0
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        while interrupts < 300:
            try:
                signal.setitimer(signal.ITIMER_REAL, 2e-5)
                for _ in range(10**6):
                    with lock.held:
                        pass
            except KeyboardInterrupt:
                interrupts += 1
                assert not lock.held.locked()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _count_and_exit(totals, seen):
    totals[:] = 0
    run(_count, 2, 5, totals, seen)
    os._exit(0 if np.all(seen == 2) else 1)


def _nothing():
    from contextlib import nullcontext

    return nullcontext()
