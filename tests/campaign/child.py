"""The process in which an attack runs: ``python -m tests.campaign.child`` with its task as JSON.

It writes the number of each trial into a journal before the trial begins, so that its parent knows
which one a crash or a hang belongs to.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import signal
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from .attack import Attack, Finding, FoundError, findings_in, place_of

WIDTH = 20
MEMORY = 8 * 2**30
"""Bytes of address space: what asks for more without end gets a MemoryError."""


@dataclass(frozen=True)
class Task:
    """A slice of an attack: trials ``first``, ``first + 1``, ... until the time or their number
    is over."""

    attack: str
    seed: int
    first: int
    seconds: float
    trials: int
    folder: str

    @property
    def own_folder(self) -> Path:
        return Path(self.folder) / self.attack

    @property
    def journal(self) -> Path:
        return self.own_folder / "journal"

    @property
    def findings(self) -> Path:
        return self.own_folder / "findings"

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def known_places(path: Path) -> set[str]:
    """Return the places of the findings in a file."""
    return {found.place for found in findings_in(path)}


def tried(attack: Attack, task: Task, number: int) -> Finding | None:
    """Run one trial."""
    try:
        attack.trial(number)
    except FoundError as found:
        parts = found.kind, found.text, found.place, found.smallest
    except BaseException as error:
        text = f"{type(error).__name__}: {str(error)[:300]}"
        parts = "fault of the campaign", " ".join(text.split()), place_of(error), ""
    else:
        return None
    return Finding(task.attack, task.seed, number, *parts)


def run(task: Task) -> int:
    """Run a slice, and return the number of trials."""
    from .attacks import attack as named

    task.own_folder.mkdir(parents=True, exist_ok=True)
    known = known_places(task.findings)
    attack = named(task.attack)(task.seed, task.own_folder, known)
    journal = os.open(task.journal, os.O_CREAT | os.O_WRONLY)
    number, end = task.first, time.monotonic() + task.seconds
    while number < task.first + task.trials and time.monotonic() < end:
        os.pwrite(journal, str(number).ljust(WIDTH).encode(), 0)
        found = tried(attack, task, number)
        if found is not None:
            known.add(found.place)
            with open(task.findings, "a", encoding="utf-8") as file:
                file.write(found.to_json() + "\n")
        number += 1
    os.pwrite(journal, str(number).ljust(WIDTH).encode(), 0)
    os.close(journal)
    attack.end()
    return number - task.first


def main() -> None:
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    run(Task(**json.loads(sys.argv[1])))


if __name__ == "__main__":
    main()
