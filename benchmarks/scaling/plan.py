"""The ladder of ``scaling``: which sizes are measured, and what the next one will cost."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

AXES = ("rows", "features", "depth", "trees", "threads")
FIELDS = {"rows": "n_rows", "features": "n_features", "depth": "depth", "trees": "n_trees",
          "threads": "threads"}  # fmt: skip
USUAL_DEPTH = 6
"""About the depth of 63 leaves, for estimates only."""


@dataclass(frozen=True)
class Point:
    """One size. ``depth`` is None where the leaves are limited instead."""

    n_rows: int
    n_features: int
    n_trees: int
    depth: int | None
    threads: int

    @property
    def work(self) -> float:
        """What the time of a fit is about proportional to."""
        depth = self.depth or USUAL_DEPTH
        return float(self.n_rows * self.n_features * self.n_trees * depth)

    @property
    def cells(self) -> int:
        """What memory is about proportional to."""
        return self.n_rows * self.n_features

    def __str__(self) -> str:
        depth = f", depth {self.depth}" if self.depth else ""
        threads = f", {self.threads} threads" if self.threads > 1 else ", 1 thread"
        return f"{short(self.n_rows)} × {self.n_features}, {self.n_trees} trees{depth}{threads}"


def short(n: int) -> str:
    """A number of rows in few letters."""
    for unit, letter in ((10**6, "M"), (10**3, "k")):
        if n >= unit:
            return f"{n / unit:g}{letter}"
    return str(n)


def decades(first: int, most: int) -> Iterator[int]:
    """1, 2, 5, 10, 20, 50 … times ``first``, up to ``most``.

    These, rather than doublings, meet the powers of ten that sizes are compared at.
    """
    unit = first
    while True:
        for factor in (1, 2, 5):
            if factor * unit > most:
                return
            yield factor * unit
        unit *= 10


def values_along(axis: str, options: argparse.Namespace) -> list[int]:
    """The ladder of one axis."""
    if options.points:
        return sorted(set(options.points))
    if axis == "rows":
        return list(decades(options.min_rows, options.max_rows))
    if axis == "threads":
        powers = [2**k for k in range(12) if 2**k < options.threads]
        return [*powers, options.threads]
    return {"features": [5, 10, 20, 50, 100, 200], "depth": [2, 4, 6, 8, 10, 12],
            "trees": [5, 10, 20, 50, 100, 200]}[axis]  # fmt: skip


def points_along(axis: str, options: argparse.Namespace) -> list[Point]:
    """The ladder of one axis, everything else as the options say."""
    base = Point(options.rows, options.features, options.trees, options.depth, options.threads)
    return [replace(base, **{FIELDS[axis]: value}) for value in values_along(axis, options)]


def part_of(rung: dict[str, Any], library: str) -> tuple[Point, dict[str, Any]] | None:
    """A library's part of a rung of the results, and the rung's size."""
    if library not in rung["libraries"]:
        return None
    names = Point.__dataclass_fields__
    return Point(**{name: rung[name] for name in names}), rung["libraries"][library]


def latest(rungs: Sequence[dict[str, Any]], library: str) -> tuple[Point, dict[str, Any]] | None:
    """The last rung that a library has stood on."""
    found = (part_of(rung, library) for rung in reversed(rungs))
    return next((part for part in found if part is not None), None)


def expected_seconds(point: Point, rungs: Sequence[dict[str, Any]], library: str) -> float:
    """Time of one turn of a library, from the fastest on its last rung; 0 where there is none."""
    before = latest(rungs, library)
    if before is None:
        return 0.0
    then, part = before
    times = [min(timed["seconds"]) for timed in part.values() if "seconds" in timed]
    return sum(times) * point.work / then.work


def expected_bytes(point: Point, rungs: Sequence[dict[str, Any]], library: str) -> float:
    """Memory of a fit with its table, from the library's last rung."""
    table = 4.0 * point.cells
    before = latest(rungs, library)
    if before is None or "memory" not in before[1]:
        return table
    then, part = before
    return table + part["memory"]["peak"] * max(1.0, point.cells / then.cells)


def n_turns(seconds: float, options: argparse.Namespace) -> int:
    """How often everybody has a turn on a rung whose first round took so long."""
    fitting = int(options.rung_seconds / max(seconds, 1e-9))
    return max(options.repeats, min(options.most_repeats, fitting))


def expected_rung(
    point: Point,
    rungs: Sequence[dict[str, Any]],
    libraries: Sequence[str],
    options: argparse.Namespace,
) -> float:
    """Seconds that a rung will take, its processes' start included."""
    a_round = sum(expected_seconds(point, rungs, library) for library in libraries)
    return START_SECONDS * len(libraries) + n_turns(a_round, options) * a_round


START_SECONDS = 4.0
"""About what a new process takes until it measures."""


def as_json(point: Point) -> dict[str, Any]:
    """The fields of a point."""
    return asdict(point)
