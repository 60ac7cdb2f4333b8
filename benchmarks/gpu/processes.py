"""The processes of ``gpu_check``: each runs the program of a part and writes its results into a
file as they come.

The file is read while the process works, so that what it has measured is kept in any case. One that
crashes or hangs is a gap: another process runs the remaining cases.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..common.machine import ROOT
from ..common.records import RecordError, read_record
from .plan import PARTS, Part

Take = Callable[[str, dict[str, Any]], None]
"""Called with a case and its result, of which "dropped" or "failed" say why there is none."""
Command = Callable[[Part, list[str], Path, float], list[str]]
"""Returns the command line of a process: from part, cases, folder of the results, and seconds."""
GRACE = 4.0
"""Seconds that a process has beyond its part's time, to end by itself."""
LEAST = 6.0
"""Seconds below which no process is started."""
POLL = 0.1
KILLED = " (killed by the system, as it does where the host's memory is used up)"
ALWAYS = {"PYTHONUNBUFFERED": "1"}
"""In the environment of every process."""


def environment(rehearsal: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a part; what a rehearsal adds is empty with a GPU."""
    return {**os.environ, **ALWAYS, **rehearsal}


def command_of(options: Any) -> Command:
    """Return what runs the programs."""

    def command(part: Part, cases: list[str], folder: Path, seconds: float) -> list[str]:
        further = ["--only", *cases, "--seconds", f"{seconds:.1f}"] if part.has_parts else []
        given = part.arguments(options.threads, options.rehearse)
        own = [sys.executable, "-m", "benchmarks", part.program, "--output", str(folder)]
        return [*own, *given, *further]

    return command


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


def results_in(folder: Path, part: Part) -> dict[str, Any]:
    """Return the results by case that a process has written so far."""
    for path in folder.glob("*.json"):
        try:
            results = read_record(path)["results"]
        except RecordError:
            continue
        return results if part.has_parts else {part.program: results}
    return {}


def run_part(
    name: str, cases: Sequence[str], seconds: float, command: Command, take: Take,
    rehearsal: Mapping[str, str] = MappingProxyType({}),
) -> None:  # fmt: skip
    """Run cases of a part; each is taken once."""
    deadline = time.monotonic() + seconds
    remaining = list(cases)
    while remaining:
        left = deadline - time.monotonic()
        if left < LEAST:
            for case in remaining:
                take(case, {"dropped": "no time was left for its part"})
            return
        remaining = _run_once(PARTS[name], remaining, left, command, take, rehearsal)


def _run_once(
    part: Part,
    cases: list[str],
    seconds: float,
    command: Command,
    take: Take,
    rehearsal: Mapping[str, str],
) -> list[str]:
    """Run one process; returns the remaining cases."""
    remaining, why = list(cases), None
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)

        def look() -> bool:
            results = results_in(folder, part)
            new = [case for case in remaining if case in results]
            for case in new:
                remaining.remove(case)
                take(case, results[case])
            return bool(new)

        started = latest = time.monotonic()
        child = subprocess.Popen(
            command(part, cases, folder, seconds), cwd=ROOT, env=environment(rehearsal),
            start_new_session=True,
        )  # fmt: skip
        try:
            while child.poll() is None and why is None:
                time.sleep(POLL)
                now = time.monotonic()
                latest = now if look() else latest
                if now - started > seconds + GRACE:
                    why = "dropped", f"cut off: the {seconds:.0f} s of its part were over"
                elif now - latest > part.limit and not rehearsal:
                    why = "failed", f"it hung: it was ended after {part.limit:.0f} s"
        finally:
            end(child)
            look()
    return _after(remaining, cases, why, child.returncode, take)


def _after(
    remaining: list[str], cases: list[str], why: tuple[str, str] | None, status: int, take: Take
) -> list[str]:
    """Say what has become of the cases without a result; returns those for another process."""
    if not remaining:
        return []
    if why is None and status == 0:
        why = "dropped", "no time was left for its part"
    if why is not None and why[0] == "dropped":
        for case in remaining:
            take(case, dict([why]))
        return []
    if why is None and len(remaining) < len(cases):
        return remaining  # it ended after a case that failed
    killed = KILLED if status == -signal.SIGKILL else ""
    take(remaining[0], dict([why or ("failed", f"its process ended with {status}{killed}")]))
    return remaining[1:]
