"""Locks that are open in a process that was forked while another thread held them."""

from __future__ import annotations

import threading

from .system import after_fork_in_child


class ForkSafeLock:
    """Holds a lock, for ``with lock.held:``. The thread that holds it does not exist in a fork,
    where it would never be released.

    It is a lock of Python itself that ``with`` takes: an interrupt comes either before or within
    the block, which releases it. After ``acquire`` in an ``__enter__`` of our own an interrupt
    would leave it taken for good.
    """

    held: threading.Lock

    def __init__(self) -> None:
        self._renew()
        after_fork_in_child(self._renew)

    def _renew(self) -> None:
        self.held = threading.Lock()
