"""The options of ``scaling``, and what they mean on this machine."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..common.machine import machine_name, slug
from ..common.peers import Task
from ..common.records import options_of, positive
from .libraries import QUICK, Library
from .plan import AXES
from .tables import COVTYPE_FEATURES

TASKS: tuple[Task, ...] = ("binary", "multiclass", "regression")
Registry = Mapping[str, tuple[Library, ...]]
"""The libraries of every kind of estimator."""


def free_gib() -> float:
    """Nine tenths of the memory that is free, in GiB; all there is where nobody can tell."""
    try:
        text = Path("/proc/meminfo").read_text()
        kib = int(next(s for s in text.splitlines() if s.startswith("MemAvailable")).split()[1])
        return round(0.9 * kib / 2**20, 1)
    except (OSError, StopIteration):
        return float("inf")


def parser_of(description: str | None, registry: Registry) -> argparse.ArgumentParser:
    """All options."""
    parser = options_of("scaling", description)
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
    options: argparse.Namespace, parser: argparse.ArgumentParser, registry: Registry, cores: int
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


def label_of(options: argparse.Namespace, machine: dict[str, Any]) -> str:
    """The end of the file's name: the machine, and what is not the default."""
    usual = ("gradient_boosting", "binary", ["rows"])
    what = (options.estimator, options.task, options.along)
    name = "" if what == usual else f"{what[0]} {what[1]} {' '.join(what[2])} "
    return slug(name + machine_name(machine))
