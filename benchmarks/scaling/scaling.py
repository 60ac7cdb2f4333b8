"""How time and memory grow with rows, features, depth, trees and threads.

The ladder climbs until --max-rows, the --budget of seconds or the --memory is reached; each
library is measured on every rung that it reaches: training, prediction, binning, and the peak
memory of training. A library that runs out of memory, fails or takes longer than --run-limit is a
gap that is named in the results, the table and the picture, and climbs no further. Each runs in a
process of its own, which maps the same file of rows; they take turns. The results are written after
every rung: Ctrl-C keeps them, and --resume goes on where a run was ended, on the same machine with
the same settings and versions.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import import_module
from typing import Any

from ..common import pictures
from ..common.machine import describe_machine
from ..common.peers import OURS, GapError
from ..common.records import Record, replace_text
from . import plan
from .plan import FIELDS, Point, expected_rung
from .results import add_ratios, exponents, goals, library_part, markdown, names_in, picture, show
from .tables import Tables
from .worker import Job, Worker

__all__ = ["goals", "picture", "main", "show"]

ANY_VALUE = ("resume", "budget", "memory")
"""Settings that may differ after ``--resume``: they decide when to stop, not what is measured."""
BUDGET = "--budget"
"""In the texts of gaps that are due to time alone."""
REGISTRY = "benchmarks.scaling.libraries"
WARM_UP = -1
FAILURES = ("failed", "its process")
"""How the texts of gaps begin that are not limits."""


class Ladder:
    """One axis: its rungs so far, and the libraries that cannot climb on."""

    def __init__(self, axis: str, options: argparse.Namespace, results: dict[str, Any]) -> None:
        self.axis, self.options, self.results = axis, options, results
        self.points = plan.points_along(axis, options)
        empty = {"title": title_of(axis, options), "rungs": [], "exponents": {}}
        self.part = results["axes"].setdefault(axis, empty)
        self.rungs: list[dict[str, Any]] = self.part["rungs"]
        self.stopped: dict[str, str] = {}
        for rung in self.rungs:
            self.stopped |= rung["missing"]

    @property
    def remaining(self) -> list[Point]:
        """The sizes that have not been measured."""
        done = [rung[FIELDS[self.axis]] for rung in self.rungs]
        return [point for point in self.points if getattr(point, FIELDS[self.axis]) not in done]

    def climbing(self) -> list[str]:
        """The libraries that still climb."""
        return [name for name in self.options.libraries if name not in self.stopped]

    def stop(self, library: str, point: Point, why: str) -> str:
        """Let a library climb no further; names the gap once."""
        self.stopped[library] = why
        gap = f"{library} at {point} and beyond: {why}"
        if gap not in self.results["gaps"]:
            self.results["gaps"].append(gap)
        print(f"  gap: {library}: {why}", flush=True)
        return why

    def failed(self) -> list[str]:
        """The libraries that stopped for another reason than a limit."""
        return [name for name, why in self.stopped.items() if why.startswith(FAILURES)]

    def expected(self) -> float:
        """Seconds that the rest will take."""
        libraries = self.climbing()
        rungs = (expected_rung(p, self.rungs, libraries, self.options) for p in self.remaining)
        return sum(rungs)

    def add(self, point: Point, libraries: dict[str, Any]) -> None:
        """Put a rung into the results."""
        add_ratios(libraries)
        missing = {name: why for name, why in self.stopped.items() if name not in libraries}
        self.rungs.append(asdict(point) | {"libraries": libraries, "missing": missing})
        self.part["exponents"] = exponents(self.axis, self.rungs)


def title_of(axis: str, options: argparse.Namespace) -> str:
    """Return what stays the same along an axis."""
    fixed = {
        "rows": f"{plan.short(options.rows)} rows", "features": f"{options.features} features",
        "trees": f"{options.trees} trees",
        "threads": "1 thread" if options.threads == 1 else f"{options.threads} threads",
        "depth": f"depth {options.depth}" if options.depth else "",
    }  # fmt: skip
    return ", ".join(text for name, text in fixed.items() if name != axis and text)


def climb(
    ladder: Ladder, tables: Tables, deadline: float, save: Any, others: Sequence[Ladder]
) -> bool:
    """Measure the rungs of an axis that are not in the results yet.

    Returns whether the ladder ended by itself, and not because time was up.
    """
    total = len(ladder.points)
    for point in ladder.remaining:
        libraries = able(ladder, point)
        if not libraries:
            break
        seconds = expected_rung(point, ladder.rungs, libraries, ladder.options)
        if time.monotonic() + seconds > deadline:
            for library in libraries:
                why = f"the {BUDGET} would not last: the rung takes about {seconds:.0f} s"
                ladder.stop(library, point, why)
            return False
        left = sum(each.expected() for each in (ladder, *others))
        duration = f"{left / 60:.0f} min" if left >= 90 else f"{left:.0f} s"
        rest = f"; about {duration} left" if ladder.rungs else ""
        print(f"[{total - len(ladder.remaining) + 1}/{total}] {point}{rest}", flush=True)
        ladder.add(point, measure(ladder, point, libraries, tables, deadline))
        save()
    return True


def able(ladder: Ladder, point: Point) -> list[str]:
    """Return the libraries for which time and memory will probably suffice."""
    options = ladder.options
    for library in ladder.climbing():
        seconds = plan.expected_seconds(point, ladder.rungs, library)
        bytes_ = plan.expected_bytes(point, ladder.rungs, library)
        if seconds > options.run_limit:
            why = f"a run would take about {seconds:.0f} s (--run-limit {options.run_limit:g})"
            ladder.stop(library, point, why)
        elif bytes_ > options.memory * 2**30:
            why = f"it would need about {bytes_ / 2**30:.1f} GiB (--memory {options.memory:g})"
            ladder.stop(library, point, why)
    return ladder.climbing()


def measure(
    ladder: Ladder, point: Point, libraries: Sequence[str], tables: Tables, deadline: float
) -> dict[str, Any]:
    """Measure one rung, all libraries in turns; returns their parts of the results."""
    options = ladder.options
    try:
        table = tables.table(point.n_rows, point.n_features)
    except OSError as error:
        for library in libraries:
            ladder.stop(library, point, str(error))
        return {}
    workers: dict[str, Worker] = {}
    turns: dict[str, list[dict[str, Any]]] = {}

    def ask(library: str, turn: int) -> None:
        try:
            answer = workers[library].ask(turn)
            if turn != WARM_UP:
                turns.setdefault(library, []).append(answer)
        except GapError as gap:
            ladder.stop(library, point, str(gap))
            workers.pop(library).close()
            turns.pop(library, None)

    try:
        for library in libraries:
            job = Job(REGISTRY, options.estimator, library, options.task, point, table)
            workers[library] = Worker(job, options.run_limit)
            ask(library, WARM_UP)
        take_turns(workers, ask, options, deadline)
    finally:
        for worker in workers.values():
            worker.close()
    input_bytes = 4 * point.cells
    parts = {name: library_part(turns[name], input_bytes) for name in libraries if name in turns}
    print_rung(parts)
    return parts


def take_turns(
    workers: dict[str, Worker], ask: Callable[[str, int], None], options: Any, deadline: float
) -> None:
    """Run rounds of all libraries that are left, as many as fit into the time of a rung."""
    rounds, turn, started = options.repeats, 0, time.monotonic()
    while workers and turn < rounds and (turn == 0 or time.monotonic() <= deadline):
        names = list(workers)
        for library in names[turn % len(names) :] + names[: turn % len(names)]:
            ask(library, turn)
        turn += 1
        if turn == 1:
            rounds = plan.n_turns(time.monotonic() - started, options)


def print_rung(parts: dict[str, Any]) -> None:
    """Print one line for each library."""
    for library, part in parts.items():
        times = [
            f"{name} {part[name]['median']:.4g} s"
            for name in ("fit", "predict", "bin")
            if name in part
        ]
        if "memory" in part:
            times.append(f"memory {part['memory']['peak'] / 1e6:.0f} MB")
        runs = len(next(value["seconds"] for value in part.values() if "seconds" in value))
        print(f"  {library:<16}{'  '.join(times)}  ({runs} runs)", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    registry = import_module(REGISTRY).ESTIMATORS
    parser = plan.options_of(__doc__, registry)
    options = parser.parse_args(argv)
    machine = describe_machine()
    gaps = plan.complete(options, parser, registry, machine["cores"])
    if not options.libraries:
        print("skipped: none of the libraries can be used here")
        return 0
    record = Record("scaling", options, plan.label_of(options, machine))
    options.memory = options.memory or plan.free_gib()
    title = f"Scaling of {options.estimator.replace('_', ' ')}, {options.task}"
    results: dict[str, Any] = {"complete": False, "title": title, "axes": {}, "gaps": gaps}
    if options.resume is not None:
        results = record.resume(options.resume, parser, ANY_VALUE, unfinished=True)
        if results.get("complete"):
            print(f"{record.path} is complete already")
        results["gaps"] = [gap for gap in results["gaps"] if BUDGET not in gap]
    return run(record, results, options)


def run(record: Record, results: dict[str, Any], options: argparse.Namespace) -> int:
    """Climb all ladders, write the results, draw them."""
    started = time.monotonic()
    ladders = [Ladder(axis, options, results) for axis in options.along]
    interrupted = False

    def save() -> None:
        record.write(results, quiet=True)

    try:
        ended = []
        with Tables(options.task) as tables:
            for i, ladder in enumerate(ladders):
                print(f"along {ladder.axis}: {ladder.part['title']}", flush=True)
                deadline = started + options.budget
                ended.append(climb(ladder, tables, deadline, save, ladders[i + 1 :]))
        results["complete"] = all(ended)
    except KeyboardInterrupt:
        interrupted = True
        print("\ninterrupted; --resume goes on from here", flush=True)
    content = record.write(results)
    if any(names_in(ladder.rungs) for ladder in ladders):
        text = markdown(content)
        replace_text(record.path.with_suffix(".md"), text)
        print(text)
        pictures.draw(picture, content, record.path.with_suffix(".png"))
    ours = [name for name in options.libraries if name.startswith(OURS)]
    failed = [name for ladder in ladders for name in ours if name in ladder.failed()]
    return 130 if interrupted else int(bool(failed))
