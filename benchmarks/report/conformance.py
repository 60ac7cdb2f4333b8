"""Results of ``python -m tests.conformance --json FILE`` in the report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..common.markdown import table
from ..common.records import RecordError


def read(path: Path) -> dict[str, Any]:
    """Read a result file; raises RecordError if it is not one."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecordError(f"{path} is damaged: {error}") from error
    if not isinstance(record, dict) or "results" not in record:
        raise RecordError(f"{path} is damaged: it holds no results")
    return {"date": "", **record, "benchmark": "conformance"}


def show(record: dict[str, Any]) -> Iterator[str]:
    """Yield how many cases pass, and a table for every list of rows and for every count by name."""
    yield line(record)
    results = record["results"]
    if isinstance(results.get("markdown"), str):
        yield results["markdown"]
        return
    for name, part in results.items():
        if isinstance(part, list) and part and all(isinstance(row, dict) for row in part):
            head = list(dict.fromkeys(key for row in part for key in row))
            yield table(head, [[cell(row.get(key)) for key in head] for row in part])
        elif isinstance(part, dict) and part and all(isinstance(n, int) for n in part.values()):
            yield table([name, "cases"], [[cell(key), str(n)] for key, n in part.items()])


def line(record: dict[str, Any]) -> str:
    """Return how many cases pass; empty where the rows do not say."""
    rows = [
        row
        for part in record["results"].values() if isinstance(part, list)
        for row in part if "cases" in row and "cases passed" in row
    ]  # fmt: skip
    cases = sum(row["cases"] for row in rows)
    passed = round(sum(row["cases"] * row["cases passed"] for row in rows))
    return f"{passed:,} of {cases:,} cases pass ({passed / cases:.1%})." if cases else ""


def cell(value: Any) -> str:
    """Return a cell: shares in percent, None as an empty text."""
    if value is None:
        return ""
    shown = f"{value:.1%}" if isinstance(value, float) else str(value)
    return shown.replace("|", "\\|").replace("\n", " ")
