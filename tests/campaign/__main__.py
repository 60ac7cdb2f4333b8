"""``python -m tests.campaign``: attacks on the library for a stated time.

Each attack runs in processes of its own, so a crash of the interpreter is a finding. The report is
written after every slice; the exit status is 1 if anything was found.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from .attack import Finding
from .attacks import ATTACKS, attack
from .child import Task, run
from .report import Tally, report
from .running import run_slice

SLICE = 45.0
"""Seconds that an attack runs before another one does."""
MANY = 10**12


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    made.add_argument("--minutes", type=float, default=60.0, help="default: 60")
    made.add_argument("--seed", type=int, default=0, help="default: 0")
    made.add_argument("--only", nargs="+", choices=ATTACKS, default=list(ATTACKS), metavar="NAME",
                      help=f"attacks: {', '.join(ATTACKS)} (default: all)")  # fmt: skip
    made.add_argument("--out", type=Path, metavar="FILE", help="write the report there, too")
    made.add_argument("--folder", type=Path, help="where inputs and findings are kept; a campaign "
                      "goes on from what is there (default: a temporary folder)")  # fmt: skip
    made.add_argument("--trial", type=int, help="run this trial of one attack alone, here")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    if options.trial is not None:
        return repeat(options)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="campaign-"))
    tallies = campaign(options, folder)
    print(report(tallies, _title(options, tallies)))
    print(f"Inputs and findings are in {folder}")
    return int(any(tally.findings for tally in tallies.values()))


def repeat(options: argparse.Namespace) -> int:
    """Run one trial in this process, with its findings on the screen."""
    (name,) = options.only
    with tempfile.TemporaryDirectory() as folder:
        task = Task(name, options.seed, options.trial, 1e9, 1, options.folder or folder)
        run(task)
        found = task.findings.read_text() if task.findings.exists() else ""
    print(found or "Nothing was found.")
    return int(bool(found))


def campaign(options: argparse.Namespace, folder: Path) -> dict[str, Tally]:
    """Run slices of the attacks in turns, by their weights, until the time is over."""
    tallies = {name: Tally(skipped=attack(name).missing()) for name in options.only}
    end = time.monotonic() + 60 * options.minutes
    going = [name for name, tally in tallies.items() if tally.skipped is None]
    while going and (left := end - time.monotonic()) > 0:
        name = min(going, key=lambda name: tallies[name].seconds / attack(name).weight)
        _go_on(tallies[name], name, options, folder, min(left, SLICE))
        if options.out is not None:
            options.out.write_text(report(tallies, _title(options, tallies)) + "\n")
    return tallies


def _go_on(
    tally: Tally, name: str, options: argparse.Namespace, folder: Path, seconds: float
) -> None:
    """Run a slice of an attack. An error of the campaign itself does not end it."""
    start = time.monotonic()
    first = tally.trials
    task = Task(name, options.seed, first, seconds, MANY, str(folder))
    seen = _findings(task)
    try:
        tally.trials += run_slice(task, attack(name).limit)
        tally.findings += _findings(task)[len(seen) :]
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        found = Finding(name, options.seed, first, "fault of the campaign", text, "slice", "")
        tally.findings.append(found)
        time.sleep(1)
    tally.seconds += time.monotonic() - start


def _findings(task: Task) -> list[Finding]:
    if not task.findings.exists():
        return []
    return [Finding.from_json(line) for line in task.findings.read_text().splitlines()]


def _title(options: argparse.Namespace, tallies: dict[str, Tally]) -> str:
    minutes = sum(tally.seconds for tally in tallies.values()) / 60
    return (
        f"A campaign of {minutes:.1f} minutes, seed {options.seed}, Python "
        f"{sys.version.split()[0]}, {os.cpu_count()} cores"
    )


if __name__ == "__main__":
    sys.exit(main())
