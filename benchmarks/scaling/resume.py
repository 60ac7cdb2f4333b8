"""Going on with a run of ``scaling`` that was ended."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..common.records import NOT_THE_MACHINE, Record, RecordError, differences, read_record

ANY_VALUE = ("resume", "budget", "memory")
"""Settings that may differ: they say when to stop, not what is measured."""
BUDGET = "--budget"
"""Stands in the texts of gaps that time alone has made."""


def take_over(record: Record, file: str, parser: argparse.ArgumentParser) -> dict[str, Any]:
    """Let a record go on with a file's results, and return these.

    Parameters
    ----------
    record : Record
        Of this machine, these versions and settings; takes the file's place and date.
    file : str
        The file to go on with; empty: the latest of this kind that is not complete.
    parser : argparse.ArgumentParser
        Ends the program, with the reason, where there is no such file or it is of another
        machine, other versions or other settings.
    """
    try:
        path, old = (Path(file), read_record(Path(file))) if file else _latest(record)
    except RecordError as error:
        parser.error(f"--resume: {error}")
    if old["benchmark"] != "scaling":
        parser.error(f"--resume: {path} is of {old['benchmark']!r}, not of 'scaling'")
    ours = record.content
    reasons = {
        "machine": differences(old["machine"], ours["machine"], NOT_THE_MACHINE),
        "versions": differences(old["versions"], ours["versions"]),
        "settings": differences(old["settings"], ours["settings"], ANY_VALUE),
    }
    found = [f"{kind}: {'; '.join(texts)}" for kind, texts in reasons.items() if texts]
    if found:
        parser.error(
            f"--resume: {path} was measured otherwise ({'. '.join(found)}). Times of both would "
            "not be comparable: use the same, or start anew without --resume"
        )
    results = old["results"]
    if results.get("complete"):
        print(f"{path} is complete already")
    results["gaps"] = [gap for gap in results["gaps"] if BUDGET not in gap]
    record.path, record.content = path, old
    return results


def _latest(record: Record) -> tuple[Path, dict[str, Any]]:
    folder, kind = record.path.parent, f"scaling-{record.label}"
    found = []
    for path in sorted(folder.glob(f"{kind}-*.json")):
        old = read_record(path)
        if not old["results"].get("complete"):
            found.append((path, old))
    if not found:
        raise RecordError(f"no unfinished {kind}-*.json in {folder}")
    return max(found, key=lambda pair: pair[1]["date"])
