"""Threads of the CPU that this process may use."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import joblib

from ..kernels.scalars.lazy_jit import in_python

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_threads(
    function: Callable[[Item], Result], items: Iterable[Item], n_threads: int
) -> list[Result]:
    """Return the results of a function for some items, computed in threads.

    The interpreter starts no threads once it is ending: a fit in ``atexit``, or in a thread that
    outlives the main one, then runs on one, and so does plain Python. ``function`` may have been
    called for an item before.
    """
    items = list(items)
    if n_threads > 1 and len(items) > 1 and not in_python.get():
        with ThreadPoolExecutor(n_threads) as pool:
            try:
                results = pool.map(function, items)
            except RuntimeError:  # from the pool: those of the function come with its results
                pool.shutdown(cancel_futures=True)
            else:
                return list(results)
    return [function(item) for item in items]


@functools.cache
def available_threads() -> int:
    """Return the number of threads that this process may keep busy.

    The least of the CPUs of the machine, those that the process is bound to, the quota of
    its container (cgroup), and ``OMP_NUM_THREADS`` and ``NUMBA_NUM_THREADS``, which joblib
    sets in its workers so that together they do not ask for more than there are. Asked
    once a process.
    """
    limits = [joblib.cpu_count()]
    for variable in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        first = os.environ.get(variable, "").split(",")[0].strip()
        if first.isdecimal() and int(first) > 0:
            limits.append(int(first))
    return min(limits)
