"""Locks that are open in a process that was forked while another thread held them."""

from __future__ import annotations

import os
import threading
from typing import Any


class ForkSafeLock:
    """A lock for ``with``. The thread that holds it does not exist in a fork, where it would never
    be released."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: Any) -> None:
        self._lock.release()
