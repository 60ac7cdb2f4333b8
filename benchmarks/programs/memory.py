"""Peak memory of training beyond the input, relative to the input as float32.

Each library trains in a process of its own. The process makes the table and trains on a small one,
so that everything is loaded and compiled, before the kernel's high-water mark of the resident size
is reset (``/proc/self/clear_refs``) and read after the fit (``VmHWM``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import median
from typing import Any

from gpuens.datasets import make_higgs_like

from ..common import peers
from ..common.goals import Goal
from ..common.markdown import pivot
from ..common.memory import peak_of
from ..common.peers import OURS, settings_for
from ..common.processes import call
from ..common.program import Content, Options, Program, Results

ALL = (OURS, "LightGBM", "XGBoost", "HistGB")
WARM_UP_ROWS = 2000


def measure_here(library: str, n_rows: int, trees: int, threads: int) -> dict[str, Any]:
    """Measure the peak of one fit in this process."""
    X, y = make_higgs_like(n_rows)
    settings = settings_for(library, peers.Settings(n_trees=trees, threads=threads))
    few = slice(min(WARM_UP_ROWS, n_rows))
    peers.estimator(library, "binary", replace(settings, n_trees=3)).fit(X[few], y[few])
    beyond, _ = peak_of(lambda: peers.estimator(library, "binary", settings).fit(X, y))
    return {"bytes": beyond, "input_bytes": X.nbytes}


def measure(options: Options) -> Results:
    results = {}
    for library in peers.installed(ALL):
        arguments = library, options.rows, options.trees, options.threads
        runs = [call(measure_here, *arguments) for _ in range(options.repeats)]
        beyond = [run["bytes"] for run in runs]
        relative = median(beyond) / runs[0]["input_bytes"]
        results[library] = {"bytes": beyond, "relative": relative}
    return results


def show(content: Content) -> Iterator[str]:
    """Yield peaks by library."""
    yield pivot("peak memory of training beyond the input", {
        library: {
            "MB": f"{median(row['bytes']) / 1e6:.4g}",
            "÷ the input as float32": f"{row['relative']:.3f}",
        }
        for library, row in content["results"].items()
    })  # fmt: skip


def goals(content: Content) -> Iterator[Goal]:
    rows = content["settings"]["rows"]
    what = f"the peak memory of training {rows:,} × 28 beyond the input, relative to the input as"
    yield Goal(f"{what} float32", 1.0, content["results"][OURS]["relative"])


PROGRAM = Program(
    "memory", __doc__, measure,
    {
        "repeats": (3, "processes for each library"),
        "threads": (2, "threads of each library"),
        "rows": (1_000_000, "rows of the table"),
        "trees": (100, "rounds of boosting"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
