"""The processes of ``gpu_check``: one runs the cases of a part, another watches it.

The results of a case go into a file, a line of JSON each, so that they are kept in any case:
``{"case", "event", ...}`` with the events "begin", "done" (with ``result`` and ``seconds``),
"failed" (with ``error``), "dropped" (with ``reason``), and "broken" when the card no longer
computes in this process. The program that started it reads the file, ends the process when a case
hangs, and starts another for the remaining cases. ``python -m benchmarks.gpu.processes`` is the
process that runs them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

from ..common import peers
from ..common.machine import ROOT
from .bench import Bench, Card, short, the_card
from .plan import PARTS, Case, Part

Tell = Callable[[str, dict[str, Any]], None]
"""Called with a case and its event, a dict with ``event``."""
BROKEN = 3
"""Exit status of a process that has lost the card."""
GRACE = 4.0
"""Seconds that a process has beyond its part's time, to end by itself."""
START = 10.0
"""Seconds to import, start CUDA and load kernels, which count for no case."""
SLOW = 8.0
"""By how much the simulator may be slower than estimated."""
LEAST = 6.0
"""Seconds below which no process is started."""
POLL = 0.05
ALWAYS = {"NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0"}
"""In the environment of every process: launches of few blocks are intended."""
SWITCHES = "GPUENS_CUDA_"
"""Prefix of the variables that choose how kernels are started."""
Command = Callable[[str, Path, Sequence[str], float], list[str]]
"""Returns the command line of a process: from part, file, cases and seconds."""


def environment(part: Part, rehearse: bool) -> dict[str, str]:
    """Return the environment of a part, without our switches where the part has its own."""
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
        """Return the lines completed since the last call."""
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

    Every case gets one event of "done", "failed" or "dropped", of which ``tell`` learns at once.
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
    """Run one process; returns the remaining cases."""
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
    """The progress of a process through its cases."""

    def __init__(self, part: Part, cases: list[str], tell: Tell, slow: float) -> None:
        self.part, self.tell, self.remaining, self.slow = part, tell, list(cases), slow
        self.current: str | None = None
        self.since = time.monotonic()

    def take(self, line: dict[str, Any]) -> None:
        """Take one event."""
        case, event = line.pop("case"), line["event"]
        if event == "begin":
            self.current, self.since = case, time.monotonic()
        elif event != "broken" and case in self.remaining:
            self.current = None
            self.since = time.monotonic()
            self.remaining.remove(case)
            self.tell(case, line)

    def late(self) -> float | None:
        """Return the limit that the current case has exceeded, None if it has not."""
        limit = self.part.cases[self.current].limit if self.current else 6 * START
        limit *= self.slow
        return limit if time.monotonic() - self.since > limit + GRACE else None

    def after(self, ended: tuple[str, str] | None, status: int) -> list[str]:
        """Report the case in progress; returns the remaining ones."""
        event, why = ended or ("failed", f"its process ended with {status}")
        if self.current is not None:
            self._say(event, why)
            return self.remaining
        if ended is None and status == BROKEN:
            return self.remaining
        while self.remaining:  # it began no case: another process would not either
            self.current = self.remaining[0]
            self._say(event, f"{why}, before it began")
        return []

    def _say(self, event: str, why: str) -> None:
        case, self.current = str(self.current), None
        self.remaining.remove(case)
        self.tell(case, {"event": event, "error" if event == "failed" else "reason": why})


def worker_command(options: Any) -> Command:
    """Return the command line of this module."""

    def command(part: str, path: Path, cases: Sequence[str], seconds: float) -> list[str]:
        further = ["--rehearse"] if options.rehearse else []
        return [
            sys.executable, "-m", "benchmarks.gpu.processes", part, str(path),
            "--until", f"{time.time() + seconds:.2f}", "--repeats", str(options.repeats),
            "--threads", str(options.threads), *further, "--cases", *cases,
        ]  # fmt: skip

    return command


def finite(value: Any) -> Any:
    """Convert a value for JSON: non-finite numbers to None, NumPy's to Python's."""
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def why_not(case: Case, card: Card, left: float, rehearsal: bool) -> str | None:
    """Return why a case is not begun, None if it is."""
    if not rehearsal and case.seconds > left:
        return f"no time: takes about {case.seconds:.0f} s, {max(0.0, left):.0f} s were left"
    if case.bytes and (free := card.free_bytes()) < case.bytes and not rehearsal:
        return f"no memory: needs {case.bytes / 2**30:.0f} GiB, {free / 2**30:.0f} GiB are free"
    return None


def run_cases(
    part: str, names: Sequence[str], card: Card, options: argparse.Namespace, file: TextIO
) -> int:
    """Run all cases, one after the other; returns the exit status."""
    end = time.monotonic() + options.until - time.time()

    def tell(case: str, event: str, **more: Any) -> None:
        file.write(json.dumps({"case": case, "event": event, **finite(more)}) + "\n")
        file.flush()

    for name in names:
        case = PARTS[part].cases[name]
        reason = why_not(case, card, end - time.monotonic(), options.rehearse)
        if reason is not None:
            tell(name, "dropped", reason=reason)
            print(f"{part}, {name}: dropped: {reason}", flush=True)
            continue
        print(f"{part}, {name}", flush=True)
        tell(name, "begin")
        started = time.monotonic()
        deadline = end if options.rehearse else min(end, started + case.limit)
        bench = Bench(card, options.repeats, options.threads, deadline, options.rehearse)
        try:
            result = case.run(bench)
            if bench.gaps:
                result["gaps"] = [f"{name}: {why}" for name, why in bench.gaps.items()]
            tell(name, "done", result=result, seconds=time.monotonic() - started)
        except Exception as error:
            traceback.print_exc()
            where = traceback.extract_tb(error.__traceback__)[-6:]
            at = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in where]
            tell(name, "failed", error=short(error), at=at, gaps=bench.gaps)
        if PARTS[part].on_card:
            card.give_back() if card.is_alive() else None
            if not card.is_alive():
                tell(name, "broken")
                return BROKEN
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.processes", description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("file", type=Path)
    parser.add_argument("--cases", nargs="+", required=True)
    parser.add_argument("--until", type=float, required=True, help="seconds of time.time()")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rehearse", action="store_true")
    options = parser.parse_args(argv)
    peers.silence()
    on_card = PARTS[options.part].on_card
    with open(options.file, "a", encoding="utf-8") as file:
        try:
            card = the_card(options.rehearse or not on_card)
        except Exception as error:
            for case in options.cases:
                event = {"case": case, "event": "failed", "error": short(error)}
                file.write(json.dumps(event) + "\n")
            return 1
        return run_cases(options.part, options.cases, card, options, file)


if __name__ == "__main__":
    sys.exit(main())
