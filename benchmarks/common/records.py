"""Results as JSON files."""

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
"""Names in result files: those of the programs, and ``gpu_check``'s."""
PARTS: dict[str, type] = {
    "benchmark": str, "date": str, "machine": dict, "versions": dict, "settings": dict,
    "results": dict,
}  # fmt: skip
"""The content of every result file. One that several runs measured may have ``sources``: of each
run its ``date``, ``machine``, ``versions``, and ``of``, what of the results is from it."""
NOT_THE_MACHINE = ("load_before", "gpu_problem")
"""Parts of the description of a machine that vary from run to run."""


class RecordError(ValueError):
    """A result file that cannot be used; the text names the file and the reason."""


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

    def resume(
        self, file: str, parser: argparse.ArgumentParser, any_value: Collection[str],
        unfinished: bool,
    ) -> dict[str, Any]:  # fmt: skip
        """Take the place of a file, by default the latest of this kind that may have to be
        ``unfinished``, and return its results, to go on with them.

        The parser ends the program, with the reason, where the file does not exist or is of another
        program, machine, other versions or other settings; those in ``any_value`` decide when to
        stop, not what is measured, and may differ.
        """
        try:
            path = Path(file) if file else self._latest(unfinished)
            old = read_record(path)
        except RecordError as error:
            parser.error(f"--resume: {error}")
        ours = self.content
        if old["benchmark"] != ours["benchmark"]:
            parser.error(
                f"--resume: {path} is of {old['benchmark']!r}, not of {ours['benchmark']!r}"
            )
        added = set(ours["versions"]) - set(old["versions"])  # what was missing then
        ignored = {"machine": NOT_THE_MACHINE, "versions": added, "settings": any_value}
        found = [
            f"{kind}: {'; '.join(texts)}"
            for kind, but in ignored.items()
            if (texts := differences(old[kind], ours[kind], but))
        ]
        if found:
            parser.error(
                f"--resume: {path} was measured under other conditions ({'. '.join(found)}). "
                "Times of both would not be comparable: use the same, or start again without "
                "--resume"
            )
        self.path, self.content = path, {**old, "versions": {**old["versions"], **ours["versions"]}}
        return old["results"]

    def _latest(self, unfinished: bool) -> Path:
        kind = f"{self.content['benchmark']}-{self.label}"
        found = {path: read_record(path) for path in self.path.parent.glob(f"{kind}-*.json")}
        paths = [
            path for path, old in found.items()
            if not (unfinished and old["results"].get("complete"))
        ]  # fmt: skip
        if not paths:
            which = "unfinished " if unfinished else ""
            raise RecordError(f"no {which}{kind}-*.json in {self.path.parent}")
        return max(paths, key=lambda path: found[path]["date"])

    def write(self, results: Any, quiet: bool = False) -> dict[str, Any]:
        """Write the results with what they were measured on; returns all of it.

        The file is replaced at once: it is complete even if this program is killed.
        """
        self.content["results"] = results
        self.path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(self.path, text_of(self.content) + "\n")
        if not quiet:
            print(f"wrote {self.path}")
        return self.content


WIDTH = 160
"""Characters of a line of a result file."""
DIGITS = 6
"""Significant digits of its numbers."""


def text_of(value: Any, indent: int = 0) -> str:
    """Return JSON with one line for every part that fits into one, and for every list of numbers;
    numbers are rounded."""
    line = json.dumps(rounded(value), ensure_ascii=False, allow_nan=False)
    is_nested = isinstance(value, Mapping) or (
        isinstance(value, list) and any(isinstance(part, Mapping | list) for part in value)
    )
    if not is_nested or len(line) + indent <= WIDTH:
        return line
    parts = [text_of(part, indent + 1) for part in value] if isinstance(value, list) else [
        f"{json.dumps(str(key), ensure_ascii=False)}: {text_of(part, indent + 1)}"
        for key, part in value.items()
    ]  # fmt: skip
    inside = ",\n".join(" " * (indent + 1) + part for part in parts)
    return f"{line[0]}\n{inside}\n{' ' * indent}{line[-1]}"


def rounded(value: Any) -> Any:
    """Return a part of a result with fewer digits."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: rounded(part) for key, part in value.items()}
    return [rounded(part) for part in value] if isinstance(value, list) else value


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
    """Read a result file; raises RecordError if it is damaged, of an unknown program or of another
    format."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path} cannot be read: {error}") from error
    except json.JSONDecodeError as error:
        raise RecordError(f"{path} is damaged: not valid JSON ({error})") from error
    if not isinstance(record, dict):
        raise RecordError(
            f"{path} is not a result file: it holds a {type(record).__name__}, not an object"
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
    """Return the entries that differ as ``name: old → new``; those in ``but`` are ignored."""
    names = [name for name in dict.fromkeys((*old, *new)) if name not in but]
    missing = "nothing"
    return [
        f"{name}: {old.get(name, missing)} → {new.get(name, missing)}"
        for name in names
        if old.get(name, missing) != new.get(name, missing)
    ]
