"""Fits with kernels of the native library, relative to kernels that Numba compiled here.

Processes of the two take turns. Each of them fits once before the clock starts, so that nothing is
compiled or loaded on it; its time is the median of its fits. CPU time is compared, which other work
on the machine changes least. The library is that of the checkout (``make library``), or what is
installed for the interpreter of ``--python``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from ..common.goals import Goal
from ..common.markdown import number, pivot
from ..common.peers import GapError, say_skipped
from ..common.processes import Interpreter
from ..common.program import Content, Options, Program, Results


class Case(NamedTuple):
    """Fits of boosting, and how much longer those of the library may take."""

    rows: int
    columns: int
    trees: int
    fits: int
    at_most: float


CASES = {
    "1,000 × 10, 100 trees": Case(1000, 10, 100, 30, 1.05),
    "1M × 28, 10 trees": Case(1_000_000, 28, 10, 1, 1.03),
}
"""The time of the first is that of calls of kernels, the time of the second is the kernels' own."""
CHILD = """
import json, sys
from statistics import median
from time import process_time as busy
import numpy as np
import gpuens
rows, columns, trees, fits, threads = map(int, sys.argv[1:])
rng = np.random.default_rng(0)
X = rng.normal(size=(rows, columns)).astype(np.float32)
y = X[:, 0] * X[:, 1] + rng.normal(size=rows) > 0
model = gpuens.GradientBoostingClassifier(n_estimators=trees, n_jobs=threads, device="cpu")
model.fit(X[:1000], y[:1000])
seconds = []
for _ in range(fits):
    start = busy()
    model.fit(X, y)
    seconds.append(busy() - start)
from contextlib import redirect_stdout
with redirect_stdout(sys.stderr):
    source = gpuens.show_config()["kernels"]["source"]
print(json.dumps([source, median(seconds)]))
"""
NATIVE, COMPILED = "native", "compiled"
"""Values of ``GPUENS_KERNELS`` for the two."""


def measure(options: Options) -> Results:
    try:
        return {name: measured(case, options) for name, case in CASES.items()}
    except GapError as gap:
        return {"gaps": [say_skipped(gap)]}


def measured(case: Case, options: Options) -> Results:
    """Return the CPU seconds of a case."""
    interpreter = Interpreter(options.python, Path.cwd())
    rows = min(case.rows, options.rows)
    arguments = rows, case.columns, case.trees, case.fits, options.threads
    seconds: dict[str, list[float]] = {NATIVE: [], COMPILED: []}
    for _ in range(options.repeats):
        for chosen, times in seconds.items():
            (source, time), _ = interpreter.run(CHILD, arguments, {"GPUENS_KERNELS": chosen})
            if chosen == NATIVE and not source.startswith("native library"):
                raise GapError(f"no library to measure: {source}")
            times.append(time)
    medians = {chosen: median(times) for chosen, times in seconds.items()}
    return {"seconds": seconds, **medians, "ratio": medians[NATIVE] / medians[COMPILED]}


def rows_of(content: Content) -> dict[str, Results]:
    """Return the results by case."""
    return {name: row for name, row in content["results"].items() if name in CASES}


def show(content: Content) -> Iterator[str]:
    """Yield CPU seconds of a fit, and their ratio."""
    yield pivot("CPU time of a fit", {
        name: {
            "native library": number(row[NATIVE], "s"),
            "compiled here": number(row[COMPILED], "s"), "ratio": number(row["ratio"]),
        }
        for name, row in rows_of(content).items()
    })  # fmt: skip


def goals(content: Content) -> Iterator[Goal]:
    for name, row in rows_of(content).items():
        what = f"the CPU time of a fit with the native library, relative to compiled here, {name}"
        yield Goal(what, CASES[name].at_most, row["ratio"])


PROGRAM = Program(
    "native", __doc__, measure,
    {
        "repeats": (7, "processes of each kind"),
        "threads": (2, "threads of a fit"),
        "rows": (10**6, "rows at most"),
        "python": (Path(sys.executable), "interpreter whose environment is measured"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
