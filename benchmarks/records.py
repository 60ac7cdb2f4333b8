"""Results as JSON files, and the options that all programs share."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .machine import ROOT, describe_machine, machine_name, versions

RESULTS = ROOT / "benchmarks" / "results"


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
        self.content = {
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

    def write(self, results: Any) -> dict[str, Any]:
        """Write the results beside what they were measured on; returns all of it."""
        self.content["results"] = results
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.content, indent=1, allow_nan=False) + "\n")
        print(f"wrote {self.path}")
        return self.content


def newest(name: str, folder: Path) -> dict[str, Any] | None:
    """The latest result of a program, None if there is none."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob(f"{name}-*.json"))]
    found = [record for record in found if record["benchmark"] == name]
    return max(found, key=lambda record: record["date"], default=None)
