"""A pause of Python's garbage collection, a tenth of the time of the compiler.

Numba keeps nearly all that it makes while it compiles a kernel, and the collector goes through it
again and again.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

from .system import after_fork_in_child

_lock = threading.Lock()
_running = 0
"""Calls of functions without collection, in all threads."""
_collects = True
"""Whether garbage was collected before the first of them."""


def uncollected(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function during which no garbage is collected automatically."""

    def call(*args: Any, **kwargs: Any) -> Any:
        _pause()
        try:
            return function(*args, **kwargs)
        finally:
            _resume()

    return call


def _pause() -> None:
    global _running, _collects
    with _lock:
        if _running == 0:
            _collects = gc.isenabled()
            gc.disable()
        _running += 1


def _resume() -> None:
    global _running
    with _lock:
        _running -= 1
        if _running == 0 and _collects:
            gc.enable()


def _after_fork() -> None:
    """Forget the calls of threads that a forked process does not have."""
    global _lock, _running
    _lock = threading.Lock()
    if _running and _collects:
        gc.enable()
    _running = 0


after_fork_in_child(_after_fork)
