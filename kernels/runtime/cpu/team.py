"""A team of threads that run one compiled function together.

Numba's ``prange`` costs a fork and a join for every loop, a long compilation, and a threading
layer that differs between machines. Here the operating system's threads call one
``nogil`` function with their number, share arrays, and meet at a barrier, which costs well
under a microsecond: a whole tree is grown in a single parallel region.

A worker must not allocate or raise between barriers, or the others would wait for ever.
"""

from __future__ import annotations

import os
import platform
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import numpy as np

from ...scalars.lazy_jit import Intrinsic
from ..arrays import LINE_BYTES
from ..compilation import inner

SPINS_BEFORE_YIELD = 1000
POLLS_BEFORE_SLEEP = 2000
CACHE_LINE = LINE_BYTES // 8
"""int64 entries between two counters that different threads write."""
MIN_WORK_PER_THREAD = 20_000
"""Array elements below which another thread costs more than it saves."""


@Intrinsic
def atomic_add(typingctx, array, index, value):
    """Add to an int64 array entry and return the value before."""
    from numba import types

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.atomic_rmw("add", builder.gep(data, [args[1]]), args[2], "seq_cst")

    return types.int64(array, types.int64, types.int64), codegen


@Intrinsic
def atomic_load(typingctx, array, index):
    """Read an int64 array entry that another thread may be writing."""
    from numba import types

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.load_atomic(builder.gep(data, [args[1]]), "seq_cst", 8)

    return types.int64(array, types.int64), codegen


@Intrinsic
def pause(typingctx):
    """Mark a waiting loop, so that the core's other hardware thread gets its units."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils

    machine = platform.machine().lower()

    def codegen(context, builder, signature, args):
        if machine in ("x86_64", "amd64"):
            name, operands = "llvm.x86.sse2.pause", []
        elif machine in ("aarch64", "arm64"):
            name, operands = "llvm.aarch64.hint", [ir.Constant(ir.IntType(32), 1)]
        else:
            # Other processors wait without a hint.
            return context.get_dummy_value()
        function = ir.FunctionType(ir.VoidType(), [operand.type for operand in operands])
        declared = cgutils.get_or_insert_function(builder.module, function, name)
        builder.call(declared, operands)
        return context.get_dummy_value()

    return types.void(), codegen


@Intrinsic
def yield_thread(typingctx):
    """Let another thread of the machine have this core."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils

    symbol = "SwitchToThread" if sys.platform == "win32" else "sched_yield"

    def codegen(context, builder, signature, args):
        function = ir.FunctionType(ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, function, symbol), [])
        return context.get_dummy_value()

    return types.void(), codegen


@Intrinsic
def prefetch(typingctx, array, index):
    """Load the cache line of an array entry in advance."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        pointer = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(8).as_pointer())
        flags = [ir.IntType(32)] * 3
        function = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), *flags])
        declared = cgutils.get_or_insert_function(builder.module, function, "llvm.prefetch.p0")
        # Read, keep in all caches, data: the arguments of ``llvm.prefetch``.
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
    # Sequentially consistent: what a thread wrote before it arrived is seen by all that leave.
    arrived = atomic_add(barrier, 0, 1)
    target = (arrived // n_threads + 1) * n_threads
    spins = 0
    while atomic_load(barrier, 0) < target:
        spins += 1
        pause()
        if spins > SPINS_BEFORE_YIELD:
            # More threads than processors: those that have not arrived need one.
            yield_thread()


class _Helper(threading.Thread):
    """A daemon thread that waits for calls: (function, arguments, list for its outcome)."""

    def __init__(self) -> None:
        super().__init__(name="gpuens-cpu", daemon=True)
        self.calls: SimpleQueue[tuple[Callable[..., None], tuple[Any, ...], list[Any]]]
        self.calls = SimpleQueue()
        self.start()

    def run(self) -> None:
        while True:
            function, args, outcomes = self.calls.get()
            try:
                function(*args)
                outcome = None
            except BaseException as error:
                # Any exception: a helper that ended would leave its caller waiting.
                outcome = error
            del function, args  # before the caller goes on: they hold its arrays
            outcomes.append(outcome)
            del outcome, outcomes


def _await(outcomes: list[Any], n: int) -> None:
    """Return when n helpers are done. They were at the last barrier a moment ago, so this
    polls: going to sleep and being woken costs more than most trees of a small table."""
    polls = 0
    while len(outcomes) < n:
        polls += 1
        time.sleep(0 if polls < POLLS_BEFORE_SLEEP else 1e-4)


_ALONE = np.zeros(CACHE_LINE, np.int64)
"""The barrier of a single thread, which never waits."""
_idle: deque[_Helper] = deque()
_n_threads = threading.local()


if hasattr(os, "register_at_fork"):  # threads do not survive a fork
    os.register_at_fork(after_in_child=_idle.clear)


def _helper() -> _Helper:
    """Return an idle helper. There is no lock: one that another thread holds during a
    fork would stay locked in the child."""
    try:
        return _idle.pop()
    except IndexError:
        return _Helper()


@contextmanager
def using_threads(n: int) -> Iterator[None]:
    """Let the operations inside the block use up to n threads (1 outside of any).

    The interpreter starts no threads once its main thread has ended: then it is one.
    """
    before = get_threads()
    _n_threads.value = n if threading.main_thread().is_alive() else 1
    try:
        yield
    finally:
        _n_threads.value = before


def get_threads() -> int:
    """Return how many threads the operations called from this thread may use."""
    return getattr(_n_threads, "value", 1)


def threads_for(work: int) -> int:
    """Return how many threads pay off for a number of array elements."""
    return max(1, min(get_threads(), work // MIN_WORK_PER_THREAD))


@contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """Hold Ctrl-C back until the team is done: helpers that wait at a barrier for a caller
    that never arrives would wait for ever."""
    installed = signal.getsignal(signal.SIGINT)  # None: by a program that embeds Python
    # Only the main thread receives signals.
    if threading.current_thread() is not threading.main_thread() or installed is None:
        yield
        return
    pending = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pending.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pending and callable(before):
        # Now, as if the signal had come behind the region.
        before(signal.SIGINT, pending[0])


def run(worker: Callable[..., None], n_threads: int, *args: Any) -> None:
    """Run ``worker(thread, n_threads, barrier, *args)`` on every thread of a team.

    The calling thread is number 0. Several threads may call this at the same time; each
    call has helpers of its own.
    """
    if n_threads == 1:
        worker(0, 1, _ALONE, *args)
        return
    barrier = np.zeros(CACHE_LINE, np.int64)
    with _interrupts_deferred():
        team = [_helper() for _ in range(n_threads - 1)]
        outcomes: list[Any] = []
        for number, helper in enumerate(team, start=1):
            helper.calls.put((worker, (number, n_threads, barrier, *args), outcomes))
        try:
            # The caller works too: a team of two starts one helper.
            worker(0, n_threads, barrier, *args)
        finally:
            # Also after an error: helpers still write to arrays of the caller.
            _await(outcomes, len(team))
            _idle.extend(team)
    for outcome in outcomes:
        if outcome is not None:
            raise outcome
