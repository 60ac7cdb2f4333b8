"""Peak memory of training beyond the input, relative to the input as float32.

Each library trains in a process of its own. The process makes the table, trains on a small one,
so that everything is loaded and compiled, gives freed memory back to the system, and reads how
much it holds. On Linux the kernel's high-water mark is then reset (``/proc/self/clear_refs``)
and read after the fit (``VmHWM``), which misses nothing; elsewhere, and where that is forbidden,
a thread reads the resident size every millisecond (needs psutil). The method is in the results.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from gpuens.datasets import make_higgs_like
from gpuens.devices.memory import return_freed_memory

from ..common import peers
from ..common.goals import Goal
from ..common.markdown import pivot
from ..common.peers import OURS, settings_for
from ..common.processes import run_python
from ..common.program import Content, Options, Program, Results

ALL = (OURS, "LightGBM", "XGBoost", "HistGB")
WARM_UP_ROWS = 2000
STATUS = Path("/proc/self/status")


class HighWaterMark:
    """The kernel's own record of the largest resident size."""

    method = "high-water mark of the kernel"

    def start(self) -> int:
        """Reset the mark; returns the resident size in bytes."""
        Path("/proc/self/clear_refs").write_text("5")
        return self._read("VmRSS")

    def peak(self) -> int:
        """The largest resident size since then."""
        return self._read("VmHWM")

    def _read(self, field: str) -> int:
        line = next(s for s in STATUS.read_text().splitlines() if s.startswith(field))
        return int(line.split()[1]) * 1024


class Sampler:
    """The resident size, read by a thread every millisecond."""

    method = "resident size, read every millisecond"
    seconds = 0.001

    def start(self) -> int:
        self._peak = before = self._read()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return before

    def peak(self) -> int:
        self._done.set()
        self._thread.join()
        return max(self._peak, self._read())

    def _sample(self) -> None:
        while not self._done.wait(self.seconds):
            self._peak = max(self._peak, self._read())

    def _read(self) -> int:
        import psutil

        return int(psutil.Process().memory_info().rss)


def best_meter() -> HighWaterMark | Sampler:
    """Return the exact meter where the system has it."""
    try:
        meter = HighWaterMark()
        meter.start()
        meter.peak()
    except (OSError, StopIteration):
        return Sampler()
    return meter


def give_back() -> None:
    """Return memory to the system, also that of objects in cycles."""
    gc.collect()
    return_freed_memory()


def measure_here(library: str, n_rows: int, trees: int, threads: int) -> dict[str, Any]:
    """Measure the peak of one fit in this process."""
    X, y = make_higgs_like(n_rows)
    settings = settings_for(library, peers.Settings(n_trees=trees, threads=threads))
    few = slice(min(WARM_UP_ROWS, n_rows))
    peers.estimator(library, "binary", replace(settings, n_trees=3)).fit(X[few], y[few])
    give_back()
    meter = best_meter()
    before = meter.start()
    model = peers.estimator(library, "binary", settings).fit(X, y)
    beyond = meter.peak() - before
    del model
    return {"bytes": beyond, "input_bytes": X.nbytes, "method": meter.method}


def measure(options: Options) -> Results:
    results = {}
    for library in peers.installed(ALL):
        arguments = library, options.rows, options.trees, options.threads
        code = (
            "import json\n"
            "from benchmarks.programs.memory import measure_here\n"
            f"print(json.dumps(measure_here{arguments!r}))"
        )
        runs = [run_python(code) for _ in range(options.repeats)]
        relative = median(run["bytes"] / run["input_bytes"] for run in runs)
        results[library] = {"runs": runs, "relative": relative}
    return results


def show(content: Content) -> Iterator[str]:
    """Yield peaks by library."""
    yield pivot("peak memory of training beyond the input", {
        library: {
            "MB": f"{median(run['bytes'] for run in row['runs']) / 1e6:.4g}",
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
