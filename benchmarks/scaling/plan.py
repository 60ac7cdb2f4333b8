"""The options of ``scaling``, and its ladder: which sizes are measured, and what they will cost."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..common.machine import machine_name, slug
from ..common.peers import Task
from ..common.program import Options, parser_of, positive
from .libraries import QUICK, Library
from .tables import COVTYPE_FEATURES

AXES = ("rows", "features", "depth", "trees", "threads")
FIELDS = {"rows": "n_rows", "features": "n_features", "depth": "depth", "trees": "n_trees",
          "threads": "threads"}  # fmt: skip
USUAL_DEPTH = 6
"""About the depth of 63 leaves, for estimates only."""
START_SECONDS = 4.0
"""About what a new process takes until it measures."""


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
        """About proportional to the time of a fit."""
        depth = self.depth or USUAL_DEPTH
        return float(self.n_rows * self.n_features * self.n_trees * depth)

    @property
    def cells(self) -> int:
        """About proportional to memory."""
        return self.n_rows * self.n_features

    def __str__(self) -> str:
        depth = f", depth {self.depth}" if self.depth else ""
        threads = f", {self.threads} threads" if self.threads > 1 else ", 1 thread"
        return f"{short(self.n_rows)} × {self.n_features}, {self.n_trees} trees{depth}{threads}"


def short(n: int) -> str:
    """Return a number of rows in few letters."""
    for unit, letter in ((10**6, "M"), (10**3, "k")):
        if n >= unit:
            return f"{n / unit:g}{letter}"
    return str(n)


def decades(first: int, most: int) -> Iterator[int]:
    """Yield 1, 2, 5, 10, 20, 50 … times ``first``, up to ``most``.

    These, rather than doublings, meet the powers of ten that sizes are compared at.
    """
    unit = first
    while True:
        for factor in (1, 2, 5):
            if factor * unit > most:
                return
            yield factor * unit
        unit *= 10


def values_along(axis: str, options: Options) -> list[int]:
    """Return the ladder of one axis."""
    if options.points:
        return sorted(set(options.points))
    if axis == "rows":
        return list(decades(options.min_rows, options.max_rows))
    if axis == "threads":
        powers = [2**k for k in range(12) if 2**k < options.threads]
        return [*powers, options.threads]
    return {"features": [5, 10, 20, 50, 100, 200], "depth": [2, 4, 6, 8, 10, 12],
            "trees": [5, 10, 20, 50, 100, 200]}[axis]  # fmt: skip


def points_along(axis: str, options: Options) -> list[Point]:
    """Return the ladder of one axis, everything else from the options."""
    base = Point(options.rows, options.features, options.trees, options.depth, options.threads)
    return [replace(base, **{FIELDS[axis]: value}) for value in values_along(axis, options)]


def latest(rungs: Sequence[dict[str, Any]], library: str) -> tuple[Point, dict[str, Any]] | None:
    """Return the size of the last rung that a library was measured on, and its part of it."""
    for rung in reversed(rungs):
        if library in rung["libraries"]:
            size = Point(**{name: rung[name] for name in Point.__dataclass_fields__})
            return size, rung["libraries"][library]
    return None


def expected_seconds(point: Point, rungs: Sequence[dict[str, Any]], library: str) -> float:
    """Return the time of one turn of a library, from the fastest on its last rung, or 0."""
    before = latest(rungs, library)
    if before is None:
        return 0.0
    then, part = before
    times = [min(timed["seconds"]) for timed in part.values() if "seconds" in timed]
    return sum(times) * point.work / then.work


def expected_bytes(point: Point, rungs: Sequence[dict[str, Any]], library: str) -> float:
    """Return the memory of a fit with its table, from the library's last rung."""
    table = 4.0 * point.cells
    before = latest(rungs, library)
    if before is None or "memory" not in before[1]:
        return table
    then, part = before
    return table + part["memory"]["peak"] * max(1.0, point.cells / then.cells)


def n_turns(seconds: float, options: Options) -> int:
    """Return how many turns each library has on a rung whose first round took so long."""
    fitting = int(options.rung_seconds / max(seconds, 1e-9))
    return max(options.repeats, min(options.most_repeats, fitting))


def expected_rung(
    point: Point, rungs: Sequence[dict[str, Any]], libraries: Sequence[str], options: Options
) -> float:
    """Return the seconds that a rung will take, its processes' start included."""
    a_round = sum(expected_seconds(point, rungs, library) for library in libraries)
    return START_SECONDS * len(libraries) + n_turns(a_round, options) * a_round


TASKS: tuple[Task, ...] = ("binary", "multiclass", "regression")
Registry = Mapping[str, tuple[Library, ...]]
"""The libraries of every kind of estimator."""


def free_gib() -> float:
    """Return nine tenths of the free memory in GiB, infinity where it is unknown."""
    try:
        text = Path("/proc/meminfo").read_text()
        kib = int(next(s for s in text.splitlines() if s.startswith("MemAvailable")).split()[1])
        return round(0.9 * kib / 2**20, 1)
    except (OSError, StopIteration):
        return float("inf")


def options_of(description: str | None, registry: Registry) -> argparse.ArgumentParser:
    """Return the parser of all options."""
    parser = parser_of("scaling", description)
    names = list(registry)
    add = parser.add_argument
    add("--estimator", choices=names, default=names[0], help="what is trained")
    add("--task", choices=TASKS, default="binary", help="what is predicted")
    add("--along", nargs="+", choices=AXES, default=["rows"], help="axes, one after the other")
    add("--points", nargs="+", type=positive, help="sizes along the one axis (None: a ladder)")
    add("--min-rows", type=positive, default=1000, help="first rung along rows")
    add("--max-rows", type=positive, default=10_000_000, help="last rung along rows")
    add("--rows", type=positive, default=100_000, help="rows along the other axes")
    add("--features", type=positive, help="columns (None: 28, or 54 for multiclass)")
    add("--depth", type=positive, help="largest depth (None: 63 leaves in boosting, 14 elsewhere)")
    add("--trees", type=positive, default=20, help="trees, or rounds of boosting")
    add("--threads", type=positive, help="threads of each library (None: one for each core)")
    add("--libraries", nargs="+", help='whose runs are measured, or "all" (None: the quick ones)')
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: both if there")
    add("--repeats", type=positive, default=3, help="runs of each library, at least")
    add("--most-repeats", type=positive, default=15, help="runs of each library, at most")
    add("--rung-seconds", type=float, default=60.0, help="time for more than the least runs")
    add("--run-limit", type=float, default=300.0, help="seconds of one run, all its parts")
    add("--budget", type=float, default=float("inf"), help="seconds of the whole program")
    add("--memory", type=float, help="GiB for one library (None: nine tenths of what is free)")
    add("--resume", nargs="?", const="", metavar="FILE",
        help="go on with a result file (without FILE: the latest unfinished one)")  # fmt: skip
    return parser


def complete(
    options: Options, parser: argparse.ArgumentParser, registry: Registry, cores: int
) -> list[str]:
    """Fill in what depends on other options; returns what is left out, and why."""
    if options.points and len(options.along) > 1:
        parser.error("--points needs one axis; name one with --along")
    if options.task == "multiclass":
        options.features = options.features or COVTYPE_FEATURES
        if options.features != COVTYPE_FEATURES or "features" in options.along:
            parser.error(f"multiclass has a table of {COVTYPE_FEATURES} features: no --features")
    options.features = options.features or 28
    options.threads = options.threads or cores
    entries = {entry.name: entry for entry in registry[options.estimator]}
    asked = options.libraries or [name for name in QUICK if name in entries] or list(entries)
    asked = list(entries) if asked == ["all"] else asked
    unknown = [name for name in asked if name not in entries]
    if unknown:
        parser.error(f"--libraries: no {', '.join(unknown)}; {options.estimator} is in "
                     f"{', '.join(entries)}")  # fmt: skip
    gaps = []
    options.libraries = []
    for name in asked:
        if options.device not in ("auto", entries[name].device):
            continue
        problem = entries[name].problem()
        if problem is None:
            options.libraries.append(name)
        else:
            gaps.append(f"{name}: {problem}")
            print(f"skipped: {gaps[-1]}")
    return gaps


def label_of(options: Options, machine: dict[str, Any]) -> str:
    """Return the end of the file's name: the machine, and what is not the default."""
    usual = ("gradient_boosting", "binary", ["rows"])
    what = (options.estimator, options.task, options.along)
    name = "" if what == usual else f"{what[0]} {what[1]} {' '.join(what[2])} "
    return slug(name + machine_name(machine))
