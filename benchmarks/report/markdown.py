"""Tables and numbers as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; everything but the first column stands on the right."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    lines = [" | ".join(cells) for cells in (head, rule, *rows)]
    return "\n".join(f"| {line} |" for line in lines)


def details(summary: str, paragraphs: Iterable[str]) -> str:
    """Paragraphs that a reader opens with a click."""
    inside = "\n\n".join(paragraphs)
    return f"<details>\n<summary>{summary}</summary>\n\n{inside}\n\n</details>"


def number(value: float, unit: str = "") -> str:
    """Three digits, four around 1 and not fewer than are before the point."""
    text = f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    if 0.9 < value < 1.1:
        text = f"{value:.4f}"
    return f"{text} {unit}".strip()


def with_error(mean: float, error: float | None) -> str:
    """A mean and its standard error, to the error's second digit."""
    if error is None or not math.isfinite(error):
        return f"{mean:.4g}"
    if error == 0:
        return f"{mean:.4g} ± 0"
    digits = min(6, max(0, 1 - math.floor(math.log10(error))))
    return f"{mean:.{digits}f} ± {error:.{digits}f}"


def gaps_of(results: Any) -> Iterator[str]:
    """All that was missing, at any depth of the results."""
    for name, part in results.items() if isinstance(results, dict) else ():
        yield from part if name == "gaps" else gaps_of(part)
