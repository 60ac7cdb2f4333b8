"""Running the cases of a part in a process that may crash or hang, and keeping what it found."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..common.machine import ROOT
from .plan import PARTS, Part

Tell = Callable[[str, dict[str, Any]], None]
"""Takes a case and its event, a dict with ``event``."""
BROKEN = 3
"""Exit status of a process to which the card is lost."""
GRACE = 4.0
"""Seconds that a process has beyond its part's time, to end by itself."""
START = 10.0
"""Seconds of import, CUDA's start and loading kernels, which no case is charged with."""
SLOW = 8.0
"""By how much the simulator may be slower than estimated."""
LEAST = 6.0
"""Seconds below which no process is started."""
POLL = 0.05
ALWAYS = {"NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0"}
"""What every process finds in its environment: launches of few blocks are meant."""
SWITCHES = "GPUENS_CUDA_"
"""What the variables that choose how kernels are started begin with."""
Command = Callable[[str, Path, Sequence[str], float], list[str]]


def environment(part: Part, rehearse: bool) -> dict[str, str]:
    """Of the processes of a part. One that measures ways to start kernels has its own only."""
    simulator = {"NUMBA_ENABLE_CUDASIM": "1"} if rehearse else {}
    found = {**os.environ, **ALWAYS, **simulator, "PYTHONUNBUFFERED": "1"}
    if part.environment is None:
        return found
    kept = {name: value for name, value in found.items() if not name.startswith(SWITCHES)}
    return kept | part.environment


def end(child: subprocess.Popen[Any]) -> None:
    """End a process and all that it has started."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(child.pid, signal.SIGKILL)  # it is the leader of a group of its own
        else:
            child.kill()
    except ProcessLookupError:
        pass
    child.wait()


class Lines:
    """The lines that another process appends to a file."""

    def __init__(self, path: Path) -> None:
        self.path, self.offset = path, 0

    def new(self) -> list[dict[str, Any]]:
        """Those that were completed since the last call."""
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            data = file.read()
        complete = data[: data.rfind(b"\n") + 1]
        self.offset += len(complete)
        return [json.loads(line) for line in complete.splitlines()]


def run_part(
    name: str, cases: Sequence[str], seconds: float, command: Command, tell: Tell,
    rehearse: bool = False,
) -> None:  # fmt: skip
    """Run cases of a part, in a new process after one that crashed or was ended.

    Every case gets one event of "done", "failed" or "dropped".

    Parameters
    ----------
    name : str
    cases : sequence of str
    seconds : float
        For all of them.
    command : callable
        The command line of the process: part, file, cases, seconds.
    tell : callable
        Is told of every case at once.
    rehearse : bool
    """
    deadline = time.monotonic() + seconds
    remaining = list(cases)
    while remaining:
        left = deadline - time.monotonic()
        if left < LEAST:
            for case in remaining:
                tell(case, {"event": "dropped", "reason": "no time was left for its part"})
            return
        remaining = _run_once(name, remaining, left, command, tell, rehearse)


def _run_once(
    name: str, cases: list[str], seconds: float, command: Command, tell: Tell, rehearse: bool
) -> list[str]:
    """One process; returns the cases that are still to be run."""
    part = PARTS[name]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events"
        path.touch()
        watch = _Watch(part, cases, tell, SLOW if rehearse else 1.0)
        started = time.monotonic()
        child = subprocess.Popen(
            command(name, path, cases, seconds), cwd=ROOT, env=environment(part, rehearse),
            start_new_session=True,
        )  # fmt: skip
        lines = Lines(path)
        ended: tuple[str, str] | None = None
        try:
            while child.poll() is None and ended is None:
                time.sleep(POLL)
                for line in lines.new():
                    watch.take(line)
                if time.monotonic() - started > seconds + GRACE:
                    ended = "dropped", f"cut off: the {seconds:.0f} s of its part were over"
                elif (late := watch.late()) is not None:
                    ended = "failed", f"it hung: it was ended after {late:.0f} s"
        finally:
            end(child)
            for line in lines.new():
                watch.take(line)
    return watch.after(ended, child.returncode)


class _Watch:
    """Where a process is in its cases."""

    def __init__(self, part: Part, cases: list[str], tell: Tell, slow: float) -> None:
        self.part, self.tell, self.remaining, self.slow = part, tell, list(cases), slow
        self.current: str | None = None
        self.since = time.monotonic()

    def take(self, line: dict[str, Any]) -> None:
        """One event."""
        case, event = line.pop("case"), line["event"]
        if event == "begin":
            self.current, self.since = case, time.monotonic()
        elif event != "broken" and case in self.remaining:
            self.current = None
            self.since = time.monotonic()
            self.remaining.remove(case)
            self.tell(case, line)

    def late(self) -> float | None:
        """The seconds that the current case should not have needed."""
        limit = self.part.cases[self.current].limit if self.current else 6 * START
        limit *= self.slow
        return limit if time.monotonic() - self.since > limit + GRACE else None

    def after(self, ended: tuple[str, str] | None, status: int) -> list[str]:
        """Say what became of the case in progress; returns those behind it."""
        event, why = ended or ("failed", f"its process ended with {status}")
        if self.current is not None:
            self._say(event, why)
            return self.remaining
        if ended is None and status == BROKEN:
            return self.remaining
        while self.remaining:  # it has come to no case: another process would not either
            self.current = self.remaining[0]
            self._say(event, f"{why}, before it began")
        return []

    def _say(self, event: str, why: str) -> None:
        case, self.current = str(self.current), None
        self.remaining.remove(case)
        self.tell(case, {"event": event, "error" if event == "failed" else "reason": why})


def worker_command(options: Any) -> Command:
    """The command line of ``gpu_worker``."""

    def command(part: str, path: Path, cases: Sequence[str], seconds: float) -> list[str]:
        further = ["--rehearse"] if options.rehearse else []
        return [
            sys.executable, "-m", "benchmarks.gpu.worker", part, str(path),
            "--until", f"{time.time() + seconds:.2f}", "--repeats", str(options.repeats),
            "--threads", str(options.threads), *further, "--cases", *cases,
        ]  # fmt: skip

    return command
