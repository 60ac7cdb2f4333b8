"""Telling processes that hang from a machine that has other work to do."""

from __future__ import annotations

import os
import time
from pathlib import Path

IDLE = 0.3
"""Seconds on processors below which a process has waited for something all the time."""
PAUSE = 1.0
"""Seconds between two looks."""


def seconds_of_group(group: int) -> float:
    """Return the time on processors of the processes of a group, and of those they waited for."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[2]) == group:
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


class Patience:
    """Waits for progress of a group of processes.

    They hang if they use processors for ``limit`` seconds without progress, or are idle for as
    long. Processes that get little of a processor have more time.
    """

    def __init__(self, group: int, limit: float) -> None:
        self.group, self.limit = group, limit
        self.looked = self.begun = time.monotonic()
        self.first = self.used = seconds_of_group(group)

    def is_over(self) -> bool:
        """Return whether the processes hang."""
        now = time.monotonic()
        if now - self.looked < PAUSE:
            return False
        self.looked, used = now, seconds_of_group(self.group)
        if used - self.first > self.limit:
            return True
        if now - self.begun < self.limit:
            return False
        idle = used - self.used < IDLE
        self.begun, self.used = now, used
        return idle
