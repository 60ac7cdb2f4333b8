"""Results as JSON files, and the options that all programs share."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..__main__ import PROGRAMS
from .machine import ROOT, describe_machine, machine_name, versions

RESULTS = ROOT / "benchmarks" / "results"
FORMAT = 1
"""Version of the result files; files without one are of version 1."""
WRITERS = (*PROGRAMS, "gpu")
"""Names that result files carry: those of the programs, and ``gpu_check``'s."""
PARTS: dict[str, type] = {
    "benchmark": str, "date": str, "machine": dict, "versions": dict, "settings": dict,
    "results": dict,
}  # fmt: skip
"""What every result file holds."""
NOT_THE_MACHINE = ("load_before", "gpu_problem")
"""Parts of the description of a machine that are not what it is."""


class RecordError(ValueError):
    """A result file that cannot be used; the text names the file and says why."""


def options_of(name: str, description: str | None) -> argparse.ArgumentParser:
    """A parser with the options of every program."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {name}",
        description=description,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the results")
    return parser


def positive(text: str) -> int:
    """A whole number from 1, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1, got {text!r}")
    return int(text)


def add_timing_options(parser: argparse.ArgumentParser, repeats: int) -> None:
    """How often, with how many threads, for how long."""
    parser.add_argument("--repeats", type=positive, default=repeats, help="runs of each library")
    parser.add_argument("--threads", type=positive, default=2, help="threads of each library")
    parser.add_argument(
        "--budget",
        type=float,
        default=float("inf"),
        help="seconds after which no further round of runs starts; every library runs as often",
    )


class Record:
    """One result file: made before the measurement, so that it holds the state of the machine
    at that time, and written after it."""

    def __init__(self, name: str, options: argparse.Namespace, label: str = "") -> None:
        self.machine = describe_machine()
        self.date = datetime.now(UTC)
        self.label = label or machine_name(self.machine)
        self.path = options.output / f"{name}-{self.label}-{self.date:%Y-%m-%d}.json"
        self.content: dict[str, Any] = {
            "format": FORMAT,
            "benchmark": name,
            "date": self.date.isoformat(timespec="seconds"),
            "machine": self.machine,
            "versions": versions(),
            "settings": {
                key: None if value == float("inf") else value
                for key, value in sorted(vars(options).items())
                if not isinstance(value, Path)
            },
        }

    def write(self, results: Any, quiet: bool = False) -> dict[str, Any]:
        """Write the results beside what they were measured on; returns all of it.

        The file is complete at every time: a reader, and a program that is killed here, find
        the old one or the new one.
        """
        self.content["results"] = results
        self.path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(self.path, json.dumps(self.content, indent=1, allow_nan=False) + "\n")
        if not quiet:
            print(f"wrote {self.path}")
        return self.content


def replace_text(path: Path, text: str) -> None:
    """Write a file at once: beside it first, then in its place."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(beside, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def read_record(path: Path) -> dict[str, Any]:
    """A result file, checked.

    Raises
    ------
    RecordError
        If it cannot be read, is damaged, of an unknown program or of another format.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path} cannot be read: {error}") from error
    except json.JSONDecodeError as error:
        raise RecordError(f"{path} is damaged: it is no JSON ({error})") from error
    if not isinstance(record, dict):
        raise RecordError(
            f"{path} is no result file: it holds a {type(record).__name__}, not an object"
        )
    version = record.get("format", 1)
    if version != FORMAT:
        raise RecordError(
            f"{path} has format {version!r}, this program reads format {FORMAT}. "
            "Use the benchmarks of the version that wrote it, or measure again"
        )
    for key, kind in PARTS.items():
        if not isinstance(record.get(key), kind):
            what = f"a {type(record[key]).__name__}" if key in record else "nothing"
            raise RecordError(
                f"{path} is damaged: {key!r} must be a {kind.__name__}, it holds {what}"
            )
    if record["benchmark"] not in WRITERS:
        raise RecordError(
            f"{path} was written by an unknown program, {record['benchmark']!r}. "
            f"Known are {', '.join(WRITERS)}"
        )
    return record


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any], but: Collection[str] = ()
) -> list[str]:
    """What two descriptions say differently, as ``name: old → new``; ``but`` is left out."""
    names = [name for name in dict.fromkeys((*old, *new)) if name not in but]
    missing = "nothing"
    return [
        f"{name}: {old.get(name, missing)} → {new.get(name, missing)}"
        for name in names
        if old.get(name, missing) != new.get(name, missing)
    ]


def newest(name: str, folder: Path) -> dict[str, Any] | None:
    """The latest result of a program, None if there is none.

    Raises
    ------
    RecordError
        If a file that may be the latest is damaged.
    """
    found = [read_record(path) for path in sorted(folder.glob(f"{name}-*.json"))]
    found = [record for record in found if record["benchmark"] == name]
    return max(found, key=lambda record: record["date"], default=None)
