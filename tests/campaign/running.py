"""Slices of attacks in processes of their own, which may crash or hang."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from .attack import ROOT, Finding, scratch_of
from .child import WIDTH, Task
from .patience import Patience, processes_of

START = 120.0
"""Seconds that an attack may take before its first trial."""
POLL = 0.2
SHOWN = 1500
"""Characters of the output of a process that a finding shows; its file has all."""


def run_slice(task: Task, limit: float) -> int:
    """Run a slice; a process that ends early is a finding, and is started again behind the trial
    that ended it.

    Parameters
    ----------
    task : Task
        Its findings are appended to ``task.findings``.
    limit : float
        Seconds that a trial may take.

    Returns
    -------
    int
        Trials.
    """
    end, first = time.monotonic() + task.seconds, task.first
    while True:
        left = end - time.monotonic()
        rest = task.first + task.trials - first
        if left <= 0 or rest <= 0:
            return first - task.first
        part = replace(task, first=first, seconds=left, trials=rest)
        whole, first = _run_once(part, limit)
        if whole:
            return first - task.first


def _run_once(task: Task, limit: float) -> tuple[bool, int]:
    """Return whether the process ended as it should, and the number of the next trial."""
    task.own_folder.mkdir(parents=True, exist_ok=True)
    task.journal.write_text(str(task.first).ljust(WIDTH))
    log = task.own_folder / "log"
    log.unlink(missing_ok=True)
    with open(log, "ab") as stream:  # several processes write to its end
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.campaign.child", task.to_json()],
            cwd=ROOT, stdout=stream, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        try:
            hung = _waited(process, task, limit)
        finally:
            _end(process)
    number, scratch = _reached(task), scratch_of(process.pid)
    whole = process.returncode == 0 and not hung
    if not whole:
        _report(task, number, "hang" if hung else "crash", process.returncode, log, scratch)
        number += 1
    shutil.rmtree(scratch, ignore_errors=True)
    return whole, number


def _waited(process: subprocess.Popen[bytes], task: Task, limit: float) -> bool:
    """Wait for a process, and return whether it had to be ended."""
    at, patience = _reached(task), Patience(process.pid, START + limit)
    while process.poll() is None:
        time.sleep(POLL)
        now = _reached(task)
        if now != at:
            at, patience = now, Patience(process.pid, limit)
        elif patience.is_over():
            _describe(process.pid, task)
            process.send_signal(signal.SIGABRT)  # faulthandler writes the stacks
            time.sleep(2)
            return True
    return False


def _describe(group: int, task: Task) -> None:
    """Write what the processes of a group do to the end of its log."""
    with open(task.own_folder / "log", "a", encoding="utf-8") as log:
        for line in processes_of(group):
            log.write(f"{line}\n")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def _reached(task: Task) -> int:
    return int(task.journal.read_text() or task.first)


def _report(task: Task, number: int, kind: str, status: int, log: Path, scratch: Path) -> None:
    text = log.read_text(errors="replace")
    kept = task.own_folder / f"{kind}-{number}.log"
    kept.write_text(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    frames = [line for line in lines if line.startswith("File ")]
    place = next((line for line in frames if "/gpuens/" in line or "/kernels/" in line), "")
    ended = "did not end" if kind == "hang" else f"exit status {status}"
    found = Finding(
        task.attack, task.seed, number, kind,
        f"{ended}, its output is in {kept}: {' | '.join(lines[:12])[:SHOWN]}",
        place or " ".join(lines[:1])[:200], _input_of(task, scratch),
    )  # fmt: skip
    with open(task.findings, "a", encoding="utf-8") as file:
        file.write(found.to_json() + "\n")


def _input_of(task: Task, scratch: Path) -> str:
    """Keep the last input of a fuzzer, which writes it before it is read."""
    latest = scratch / "latest"
    if not latest.exists():
        return ""
    kept = task.own_folder / f"input-{time.time_ns()}"
    kept.write_bytes(latest.read_bytes())
    return str(kept)
