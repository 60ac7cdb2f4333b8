"""Threads of the CPU that this process may use."""

from __future__ import annotations

import functools
import os

import joblib


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
