"""What the runs gave, as a table and as a file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.common.machine import describe_machine, versions

from . import listing
from .listing import Counts
from .suites import Suite

Row = tuple[Suite, Counts | None, Counter[str]]


def reached(suite: Suite, counts: Counts | None) -> bool:
    """Whether as many tests pass as must."""
    return counts is not None and counts.share >= suite.least_share


def reasons_of(rows: Sequence[Row]) -> Counter[str]:
    """Why cases fail, most frequent first."""
    total: Counter[str] = Counter()
    for _, _, reasons in rows:
        total += reasons
    return Counter(dict(total.most_common()))


def table(rows: Sequence[Row]) -> str:
    """Everything as Markdown: files with their shares, then reasons."""
    lines = [
        f"scikit-learn {listing.installed_version()}",
        "",
        "| test file | tests | passed | asked | cases | passed | skipped |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for suite, counts, _ in rows:
        asked = f"{suite.least_share:.0%}" if suite.least_share else ""
        if counts is None:
            lines.append(f"| {suite.shown} | broke off | | {asked} | | | |")
            continue
        share = f"{counts.share:.1%}" if reached(suite, counts) else f"**{counts.share:.1%}**"
        of_cases = f"{counts.cases} | {counts.share_of_cases:.1%} | {counts.skipped}"
        lines.append(f"| {suite.shown} | {counts.tests} | {share} | {asked} | {of_cases} |")
    if total := reasons_of(rows):
        lines += ["", "| why a case fails | cases |", "| --- | ---: |"]
        lines += [f"| {reason} | {number} |" for reason, number in total.items()]
    return "\n".join(lines)


def write(path: Path, rows: Sequence[Row]) -> None:
    """Write a result file like those of the benchmarks.

    Its results are one line for each test file, with shares in 0 ... 1, and the number of cases
    that fail for each reason.
    """
    content = {
        "benchmark": "conformance",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "versions": versions(),
        "settings": {},
        "results": {
            "scikit-learn's own tests": [_entry(suite, counts) for suite, counts, _ in rows],
            "why a case fails": dict(reasons_of(rows)),
        },
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _entry(suite: Suite, counts: Counts | None) -> dict[str, Any]:
    if counts is None:
        return {"test file": suite.shown, "tests": "broke off"}
    return {
        "test file": suite.shown,
        "tests": counts.tests,
        "passed": round(counts.share, 4),
        "at least": suite.least_share or None,
        "cases": counts.cases,
        "cases passed": round(counts.share_of_cases, 4),
        "skipped": counts.skipped,
    }
