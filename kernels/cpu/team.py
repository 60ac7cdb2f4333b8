"""A team of threads that run one compiled function together.

Numba's ``prange`` costs a fork and a join for every loop, a long compilation, and a threading
layer that differs between machines. Here the operating system's threads call one
``nogil`` function with their number, share arrays, and meet at a barrier, which costs well
under a microsecond: a whole tree is grown in a single parallel region.

A worker must not allocate or raise between barriers, or the others would wait for ever.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ..compilation import inner

SPINS_BEFORE_YIELD = 4000
CACHE_LINE = 8
"""int64 entries between two counters that different threads write."""
MIN_WORK_PER_THREAD = 20_000
"""Array elements below which another thread costs more than it saves."""


@intrinsic
def atomic_add(typingctx, array, index, value):
    """Add to an int64 array entry and return the value before."""

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.atomic_rmw("add", builder.gep(data, [args[1]]), args[2], "seq_cst")

    return types.int64(array, types.int64, types.int64), codegen


@intrinsic
def atomic_load(typingctx, array, index):
    """Read an int64 array entry that another thread may be writing."""

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.load_atomic(builder.gep(data, [args[1]]), "seq_cst", 8)

    return types.int64(array, types.int64), codegen


@intrinsic
def yield_thread(typingctx):
    """Let another thread of the machine have this core."""
    symbol = "SwitchToThread" if sys.platform == "win32" else "sched_yield"

    def codegen(context, builder, signature, args):
        function = ir.FunctionType(ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, function, symbol), [])
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def prefetch(typingctx, array, index):
    """Ask for the cache line of an array entry."""

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        pointer = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(8).as_pointer())
        flags = [ir.IntType(32)] * 3
        function = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), *flags])
        declared = cgutils.get_or_insert_function(builder.module, function, "llvm.prefetch.p0")
        read, locality, data_cache = (ir.Constant(ir.IntType(32), v) for v in (0, 3, 1))
        builder.call(declared, [pointer, read, locality, data_cache])
        return context.get_dummy_value()

    return types.void(array, types.uint64), codegen


@inner
def wait(barrier, n_threads):
    """Return once all threads have called this.

    ``barrier[0]`` counts arrivals over the whole life of the region, so it never has to be
    reset: a thread leaves when the count reaches the next multiple of ``n_threads``.
    """
    if n_threads == 1:
        return
    arrived = atomic_add(barrier, 0, 1)
    target = (arrived // n_threads + 1) * n_threads
    spins = 0
    while atomic_load(barrier, 0) < target:
        spins += 1
        if spins > SPINS_BEFORE_YIELD:
            yield_thread()


class _Helper(threading.Thread):
    """A daemon thread that waits for calls."""

    def __init__(self) -> None:
        super().__init__(name="gpuens-cpu", daemon=True)
        self.calls: SimpleQueue[tuple[Callable[..., None], tuple[Any, ...], SimpleQueue[Any]]]
        self.calls = SimpleQueue()
        self.start()

    def run(self) -> None:
        while True:
            function, args, done = self.calls.get()
            try:
                function(*args)
                done.put(None)
            except BaseException as error:
                done.put(error)
            del function, args, done


_idle: list[_Helper] = []
_lock = threading.Lock()
_n_threads = threading.local()


def _forget_helpers() -> None:
    _idle.clear()


if hasattr(os, "register_at_fork"):  # threads do not survive a fork
    os.register_at_fork(after_in_child=_forget_helpers)


@contextmanager
def using_threads(n: int) -> Iterator[None]:
    """Let the operations inside the block use up to n threads (1 outside of any)."""
    before = get_threads()
    _n_threads.value = n
    try:
        yield
    finally:
        _n_threads.value = before


def get_threads() -> int:
    """How many threads the operations called from this thread may use."""
    return getattr(_n_threads, "value", 1)


def threads_for(work: int) -> int:
    """How many threads pay off for a number of array elements."""
    return max(1, min(get_threads(), work // MIN_WORK_PER_THREAD))


@contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """Hold Ctrl-C back until the team is done: helpers that wait at a barrier for a caller
    that never arrives would wait for ever."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pending.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pending and callable(before):
        before(signal.SIGINT, pending[0])


def run(worker: Callable[..., None], n_threads: int, *args: Any) -> None:
    """Run ``worker(thread, n_threads, barrier, *args)`` on every thread of a team.

    The calling thread is number 0. Several threads may call this at the same time; each
    call has helpers of its own.
    """
    barrier = np.zeros(CACHE_LINE, np.int64)
    if n_threads == 1:
        worker(0, 1, barrier, *args)
        return
    with _interrupts_deferred():
        with _lock:
            team = [_idle.pop() if _idle else _Helper() for _ in range(n_threads - 1)]
        done: SimpleQueue[Any] = SimpleQueue()
        for number, helper in enumerate(team, start=1):
            helper.calls.put((worker, (number, n_threads, barrier, *args), done))
        try:
            worker(0, n_threads, barrier, *args)
        finally:
            errors = [error for error in (done.get() for _ in team) if error is not None]
            with _lock:
                _idle.extend(team)
    if errors:
        raise errors[0]
