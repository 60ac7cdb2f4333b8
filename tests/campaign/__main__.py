"""``python -m tests.campaign``: attacks on the library for a stated time.

Each attack runs in processes of its own, so a crash of the interpreter is a finding. The report
is written after every slice; the exit status is 1 if anything was found. Ctrl-C ends the campaign
and shows its report. If the campaign itself does not go on, the file ``stacks`` in its folder says
where it is.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from .attack import Finding, findings_in
from .attacks import ATTACKS, attack
from .child import Task, run
from .patience import stacks_after
from .report import Tally, report, summary
from .running import run_slice

SLICE = 45.0
"""Seconds that an attack runs before another one does."""
STUCK = 900.0
"""Seconds of a slice after which the campaign writes where it is; hangs of attacks end before."""
MANY = 10**12
MINUTES = 60.0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    made.add_argument("--minutes", type=float, help="default: 60, or without an end with --trials")
    made.add_argument(
        "--trials", type=int, default=MANY, help="of each attack, after which it ends"
    )
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
    folder.mkdir(parents=True, exist_ok=True)
    tallies = {name: Tally(skipped=_missing(name)) for name in options.only}
    try:
        campaign(options, folder, tallies)
    except KeyboardInterrupt:
        print("The campaign was interrupted.", file=sys.stderr)
    finally:
        print(report(tallies, _title(options, tallies)))
        print(f"Inputs and findings are in {folder}")
        print(summary(tallies), flush=True)
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


def campaign(options: argparse.Namespace, folder: Path, tallies: dict[str, Tally]) -> None:
    """Run slices of the attacks in turns, by their weights, until the time or the trials are
    over."""
    end = _end_of(options)
    while (left := end - time.monotonic()) > 0:
        going = [n for n, t in tallies.items() if not t.skipped and t.trials < options.trials]
        if not going:
            break
        name = min(going, key=lambda name: tallies[name].seconds / attack(name).weight)
        with stacks_after(STUCK, folder / "stacks"):
            _go_on(tallies[name], name, options, folder, min(left, SLICE))
        _write(options.out, report(tallies, _title(options, tallies)))


def _missing(name: str) -> str | None:
    """Return what keeps an attack from running, or None."""
    try:
        return attack(name).missing()
    except ImportError as error:
        return str(error)


def _end_of(options: argparse.Namespace) -> float:
    """Return the moment at which the time of a campaign is over."""
    if options.minutes is not None:
        return time.monotonic() + 60 * options.minutes
    return math.inf if options.trials < MANY else time.monotonic() + 60 * MINUTES


def _write(path: Path | None, text: str) -> None:
    """Write the report; a disk that is full does not end the campaign."""
    if path is not None:
        try:
            path.write_text(f"{text}\n")
        except OSError as error:
            print(f"The report cannot be written: {error}", file=sys.stderr)


def _go_on(
    tally: Tally, name: str, options: argparse.Namespace, folder: Path, seconds: float
) -> None:
    """Run a slice of an attack. An error of the campaign itself does not end it."""
    start = time.monotonic()
    first = tally.trials
    task = Task(name, options.seed, first, seconds, options.trials - first, str(folder))
    try:
        seen = len(findings_in(task.findings))
        tally.trials += run_slice(task, attack(name).limit)
        tally.findings += findings_in(task.findings)[seen:]
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        found = Finding(name, options.seed, first, "fault of the campaign", text, "slice", "")
        tally.findings.append(found)
        time.sleep(1)
    tally.seconds += time.monotonic() - start


def _title(options: argparse.Namespace, tallies: dict[str, Tally]) -> str:
    minutes = sum(tally.seconds for tally in tallies.values()) / 60
    return (
        f"A campaign of {minutes:.1f} minutes, seed {options.seed}, Python "
        f"{sys.version.split()[0]}, {os.cpu_count()} cores"
    )


if __name__ == "__main__":
    sys.exit(main())
