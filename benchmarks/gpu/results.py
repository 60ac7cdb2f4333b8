"""The results of ``gpu_check`` as one JSON file: begun, gone on with, and told at the end."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..common.records import NOT_THE_MACHINE, Record, RecordError, differences, read_record
from .figures import figures_of
from .plan import PARTS

ANY_VALUE = ("resume", "budget", "part", "output")
"""Settings that may differ between runs that make one result."""


class Results:
    """What has been found, by part and case, written after every case.

    Parameters
    ----------
    record : Record
    content : dict, optional
        Of a file that this run goes on with.
    """

    def __init__(self, record: Record, content: dict[str, Any] | None = None) -> None:
        self.record = record
        self.content = content or {"parts": {}}

    def part(self, name: str) -> dict[str, Any]:
        """A part's entry: ``cases``, ``failed``, ``dropped``, ``cut_off``, ``seconds``."""
        kinds: dict[str, Any] = {"cases": {}, "failed": {}, "dropped": {}, "cut_off": {}}
        empty = {"title": PARTS[name].title, **kinds}
        return self.content["parts"].setdefault(name, {**empty, "seconds": 0.0})

    def missing(self, name: str) -> list[str]:
        """Cases of a part that have no result yet."""
        done = self.content["parts"].get(name, {}).get("cases", {})
        return [case for case in PARTS[name].cases if case not in done]

    def take(self, name: str, case: str, event: dict[str, Any]) -> None:
        """What became of a case."""
        part = self.part(name)
        part["failed"].pop(case, None)
        part["dropped"].pop(case, None)
        part["cut_off"].pop(case, None)
        if event["event"] == "done":
            result = {**event["result"], "case_seconds": event["seconds"]}
            if "failed" in result:
                part["failed"][case] = {"error": result["failed"], "result": result}
            elif "cut_off" in result:
                part["dropped"][case] = result["cut_off"]
                part["cut_off"][case] = result
            else:
                part["cases"][case] = result
        elif event["event"] == "failed":
            part["failed"][case] = {k: v for k, v in event.items() if k != "event"}
        else:
            part["dropped"][case] = event["reason"]
        self.write()

    def write(self) -> dict[str, Any]:
        """Everything, with what other programs read of it."""
        parts = self.content["parts"]
        self.content["fit"] = shaped(parts, "fit") + shaped(parts, "cores")
        self.content["predict"] = shaped(parts, "predict")
        self.content["figures"], self.content["others"] = figures_of(parts)
        self.content["dropped"] = self.all_of("dropped")
        self.content["failed"] = {
            key: value["error"] for key, value in self.all_of("failed").items()
        }
        self.content["complete"] = not any(self.missing(name) for name in PARTS)
        return self.record.write(self.content, quiet=True)

    def all_of(self, kind: str) -> dict[str, Any]:
        """What failed, or was dropped, of all parts."""
        return {
            f"{name}: {case}": value
            for name, part in self.content["parts"].items()
            for case, value in part[kind].items()
        }

    def differ(self) -> list[str]:
        """Models that are not the same on the card and on the host, or that depend on the way
        kernels are started."""
        launched = self.content.get("others", {}).get("launches", {}).get("same_models", {})
        return [f"launches: {case}" for case, same in launched.items() if not same] + [
            f"{name}: {case}"
            for name, part in self.content["parts"].items()
            for case, result in part["cases"].items()
            if False in (
                result.get("same_model", True), result.get("same_predictions", True),
                result.get("identical_to_cpu", True), result.get("same_as_alone", True),
            )
        ]  # fmt: skip


def shaped(parts: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The results of a part that compare libraries, as a list."""
    return [row for row in parts.get(name, {}).get("cases", {}).values() if "libraries" in row]


def take_over(record: Record, file: str, parser: argparse.ArgumentParser) -> Results:
    """Go on with a file's results; it must be of this machine, these versions and settings.

    Parameters
    ----------
    record : Record
        Takes the file's place and content.
    file : str
        Empty: the latest of this kind.
    parser : argparse.ArgumentParser
        Ends the program, with the reason, where the file does not fit.
    """
    try:
        path = Path(file) if file else _latest(record)
        old = read_record(path)
    except RecordError as error:
        parser.error(f"--resume: {error}")
    ours = record.content
    if old["benchmark"] != ours["benchmark"] or "parts" not in old["results"]:
        parser.error(f"--resume: {path} is of {old['benchmark']!r}, not of this program")
    kinds = {
        "machine": NOT_THE_MACHINE, "versions": (), "settings": ANY_VALUE,
    }  # fmt: skip
    found = [
        f"{kind}: {'; '.join(texts)}"
        for kind, but in kinds.items()
        if (texts := differences(old[kind], ours[kind], but))
    ]
    if found:
        parser.error(
            f"--resume: {path} was measured otherwise ({'. '.join(found)}). Start anew without "
            "--resume"
        )
    record.path, record.content = path, old
    return Results(record, old["results"])


def _latest(record: Record) -> Path:
    kind = f"{record.content['benchmark']}-{record.label}"
    paths = sorted(record.path.parent.glob(f"{kind}-*.json"))
    if not paths:
        raise RecordError(f"no {kind}-*.json in {record.path.parent}")
    return max(paths, key=lambda path: read_record(path)["date"])
