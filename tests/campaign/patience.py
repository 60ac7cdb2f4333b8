"""Telling processes that hang from a machine that has other work to do."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

IDLE = 0.02
"""Share of the time on a processor below which a process has waited for something all the time;
threads that only look for work now and then use some."""
LONGEST = 20
"""Times the limit after which a process hangs whatever it does."""
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


def processes_of(group: int) -> list[str]:
    """Return a line for each process of a group: its state, what it waits for, and its command."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group:
                waits = (path.parent / "wchan").read_text() or "nothing"
                command = (path.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                lines.append(
                    f"process {path.parent.name}, state {fields[0]}, {fields[17]} threads, waits "
                    f"for {waits}: {command[:300]}"
                )
        except OSError:  # it has just ended
            continue
    return lines


class Patience:
    """Waits for progress of a group of processes.

    They hang if they use processors for ``limit`` seconds without progress, or are idle for as
    long. Processes that get little of a processor have more time, up to ``LONGEST`` times that.
    """

    def __init__(self, group: int, limit: float) -> None:
        self.group, self.limit = group, limit
        self.start = self.looked = self.begun = time.monotonic()
        self.first = self.used = seconds_of_group(group)

    def is_over(self) -> bool:
        """Return whether the processes hang."""
        now = time.monotonic()
        if now - self.looked < PAUSE:
            return False
        self.looked, used = now, seconds_of_group(self.group)
        if used - self.first > self.limit or now - self.start > LONGEST * self.limit:
            return True
        if now - self.begun < self.limit:
            return False
        idle = used - self.used < IDLE * (now - self.begun)
        self.begun, self.used = now, used
        return idle


@contextmanager
def stacks_after(seconds: float, path: Path) -> Iterator[None]:
    """Write the stacks of all threads of this process to a file if a block takes so long.

    The timer of faulthandler reads the frames of threads that go on running, by which it crashes
    the process now and then; this one holds the lock of the interpreter.
    """
    timer = threading.Timer(seconds, _write_stacks, (path,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _write_stacks(path: Path) -> None:
    stacks = ["".join(traceback.format_stack(frame)) for frame in sys._current_frames().values()]
    path.write_text("\n".join(stacks), encoding="utf-8")
