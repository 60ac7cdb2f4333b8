"""Tables and numbers as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; everything but the first column is aligned to the right."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    lines = [" | ".join(cells) for cells in (head, rule, *rows)]
    return "\n".join(f"| {line} |" for line in lines)


def pivot(corner: str, rows: Mapping[str, Mapping[str, str]]) -> str:
    """Return a table of cells by row and column; empty without rows.

    The columns are those that any row has, in the order of their first occurrence.
    """
    columns = list(dict.fromkeys(column for cells in rows.values() for column in cells))
    lines = [[name, *(cells.get(c, "") for c in columns)] for name, cells in rows.items()]
    return table([corner, *columns], lines) if lines else ""


def medians(corner: str, rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table of median seconds, from the ``libraries`` of a result by row."""
    return pivot(corner, {
        name: {library: seconds(row["median"]) for library, row in libraries.items()}
        for name, libraries in rows.items()
    })  # fmt: skip


def details(summary: str, paragraphs: Iterable[str]) -> str:
    """Return paragraphs that a reader opens with a click."""
    inside = "\n\n".join(paragraphs)
    return f"<details>\n<summary>{summary}</summary>\n\n{inside}\n\n</details>"


def number(value: float, unit: str = "") -> str:
    """Return three digits, four near 1, and all of those before the point."""
    text = f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    if 0.9 < value < 1.1:
        text = f"{value:.4f}"
    return f"{text} {unit}".strip()


def seconds(value: float) -> str:
    """Return a time with a sensible number of digits."""
    return f"{value:.1f} s" if value >= 10 else f"{value:.2f} s" if value >= 1 else f"{value:.3f} s"


def with_error(mean: float, error: float | None) -> str:
    """Return a mean and its standard error, to the error's second digit."""
    if error is None or not math.isfinite(error):
        return f"{mean:.4g}"
    if error == 0:
        return f"{mean:.4g} ± 0"
    digits = min(6, max(0, 1 - math.floor(math.log10(error))))
    return f"{mean:.{digits}f} ± {error:.{digits}f}"


def gaps_of(results: Any) -> Iterator[str]:
    """Yield everything that was missing, at any depth of the results."""
    for name, part in results.items() if isinstance(results, dict) else ():
        yield from part if name == "gaps" else gaps_of(part)
