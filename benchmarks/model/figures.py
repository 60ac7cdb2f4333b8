"""Goals of the model on the reference card, beside its results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..common.goals import Goal
from ..common.markdown import number, table
from .groups import CHECKED, LEVELS, PARTS, ROOT

CARD = "H100"
LEAFWISE, SMALL = "11M × 28, 255 leaves", "100k × 28"
FOREST, PREDICTION = "465k × 54, 100 trees, depth 30", "10M × 28"
CONTROL = "control"
MS_OF_PREDICTION = 40.0
"""Milliseconds of a prediction of 10 million rows: 250 million rows a second."""
MS_OF_FOREST = 550.0
WORTH = 15.0
"""Per cent of a tree from which another layout of histograms would be built."""


def figures(results: Mapping[str, Any]) -> Iterator[Goal]:
    """Yield what is asked, beside what the cases give."""
    yield _goal(
        "number of launches of a tree of depth 8, 11M × 28,", 45, results, CHECKED, launches
    )
    yield _goal(
        "number of launches of a tree of 255 leaves, 11M × 28,", 120, results, LEAFWISE, launches
    )
    yield _goal("time of a tree of depth 8, 11M × 28,", 2.6, results, CHECKED, device, "ms")
    yield _goal("longest row of that tree", 1.3, results, CHECKED, longest_row, "ms")
    yield _goal("time of a tree of 255 leaves, 11M × 28,", 6, results, LEAFWISE, device, "ms")
    yield _goal("share of control in a tree, 11M × 28,", 8, results, CHECKED, control, "%")
    yield _goal("share of control in a tree, 100k × 28,", 35, results, SMALL, control, "%")
    what = "number of passes of an addition in shared memory, columns of three values among them,"
    yield _goal(what, 1.1, results, CHECKED, passes)
    yield _goal("number of waits of a batch of 100 trees", 4, results, FOREST, waits)
    what = "time of a forest of 100 trees of depth 30, 465k × 54,"
    yield _goal(what, MS_OF_FOREST, results, FOREST, slower_side, "ms")
    what = "time of 500 trees of depth 8 for 10 million rows (40 ms: 250 million rows a second)"
    yield _goal(what, MS_OF_PREDICTION, results, PREDICTION, slower_side, "ms")


def _goal(
    what: str, at_most: float, results: Mapping[str, Any], case: str, value: Any, unit: str = ""
) -> Goal:
    result = results.get(case, {})
    found = value(result) if "rows" in result else None
    return Goal(f"the modelled {what}", at_most, found, unit)


def launches(result: Mapping[str, Any]) -> float:
    """Return how many launches a unit has."""
    return float(result["n_launches"])


def waits(result: Mapping[str, Any]) -> float | None:
    """Return how often the host waits."""
    found = result.get("n_waits")
    return None if found is None else float(found)


def device(result: Mapping[str, Any]) -> float:
    """Return the milliseconds of the device."""
    return float(result["cards"][CARD]["device_ms"])


def slower_side(result: Mapping[str, Any]) -> float:
    """Return the milliseconds of the device or of the host, whichever takes longer."""
    return max(map(float, result["cards"][CARD].values()))


def longest_row(result: Mapping[str, Any]) -> float:
    """Return the milliseconds of the row that takes the longest."""
    rows = result["rows"].items()
    return max(float(row["cards"][CARD]["ms"]) for name, row in rows if name not in PARTS)


def control(result: Mapping[str, Any]) -> float:
    """Return the percentage of control in the time of the device."""
    return 100 * float(result["rows"][CONTROL]["cards"][CARD]["ms"]) / device(result)


def passes(result: Mapping[str, Any]) -> float | None:
    """Return the passes of an atomic addition in shared memory, in histograms."""
    counts = [result["rows"][name]["counts"] for name in (ROOT, LEVELS) if name in result["rows"]]
    issued = sum(own.get("atomic_accesses", 0.0) for own in counts)
    return float(sum(own["atomic_passes"] for own in counts) / issued) if issued else None


def show(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield the figures as a table, as far as there are results."""
    found = [goal for goal in figures(results) if goal.measured is not None]
    if found:
        rows = [[goal.what.removesuffix(","), goal.limit, goal.value] for goal in found]
        yield table([f"{CARD}", "asked, at most", "found"], rows)


def most_gained(result: Mapping[str, Any]) -> float | None:
    """Return the per cent of a tree that another layout gains at most, over all tables."""
    tables = result.get("tables", {}).values()
    return max((gain for row in tables for gain in row["gains"].values()), default=None)


def show_layouts(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the tables as one."""
    rows = [
        [
            name, number(100 * row["idle"], "%"), f"{row['blocks']} × {row['threads']}",
            str(row["blocks by shared memory"]), str(row["registers"]), number(row["passes"]),
            number(row["gb"]), f"{number(row['ms'])} ({row['binds']})", number(row["tree_ms"]),
            *(number(gain, "%") for gain in row["gains"].values()),
        ]
        for name, row in result.get("tables", {}).items()
    ]  # fmt: skip
    head = [
        "histograms of a tree of depth 8, modelled", "idle lanes", "blocks × threads at once",
        "room in shared memory for", "registers", "passes of an addition", "GB",
        "ms (the root's bound)", "ms of the tree", "gained at most: all lanes", "no waits either",
    ]  # fmt: skip
    if rows:
        yield table(head, rows)
