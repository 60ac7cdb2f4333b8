"""Peak memory of training beyond the input, relative to the input as float32.

Each library trains in a process of its own. The process makes the table, trains on a small one,
so that everything is loaded and compiled, gives freed memory back to the system, and reads how
much it holds. On Linux the kernel's high-water mark is then reset (``/proc/self/clear_refs``)
and read after the fit (``VmHWM``), which misses nothing; elsewhere, and where that is forbidden,
a thread reads the resident size every millisecond (needs psutil). The method is in the results.
"""

from __future__ import annotations

import ctypes
import gc
import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from gpuens.datasets import make_higgs_like

from ..common import peers
from ..common.machine import ROOT
from ..common.records import Record, options_of, positive
from .fit import settings_for

ALL = (peers.OURS, "LightGBM", "XGBoost", "HistGB")
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
    """The same from a thread that looks every millisecond."""

    method = "resident size, read every millisecond"

    def start(self) -> int:
        import psutil

        self._process = psutil.Process()
        self._peak = before = self._resident()
        self._done = threading.Event()

        def sample() -> None:
            while not self._done.wait(0.001):
                self._peak = max(self._peak, self._resident())

        threading.Thread(target=sample, daemon=True).start()
        return before

    def peak(self) -> int:
        self._done.set()
        return max(self._peak, self._resident())

    def _resident(self) -> int:
        return int(self._process.memory_info().rss)


def best_meter() -> HighWaterMark | Sampler:
    """The exact one where the system has it."""
    try:
        meter = HighWaterMark()
        meter.start()
        meter.peak()
    except (OSError, StopIteration):
        return Sampler()
    return meter


def give_back() -> None:
    """Return freed memory to the system, where the C library can be asked to."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def measure_here(library: str, options: Any) -> dict[str, Any]:
    """Peak of one fit in this process."""
    X, y = make_higgs_like(options.rows)
    settings = settings_for(library, peers.Settings(n_trees=options.trees, threads=options.threads))
    n = min(WARM_UP_ROWS, options.rows)
    peers.estimator(library, "binary", replace(settings, n_trees=3)).fit(X[:n], y[:n])
    give_back()
    meter = best_meter()
    before = meter.start()
    model = peers.estimator(library, "binary", settings).fit(X, y)
    beyond = meter.peak() - before
    del model
    return {"bytes": beyond, "input_bytes": X.nbytes, "method": meter.method}


def measure(library: str, options: Any) -> list[dict[str, Any]]:
    """The same in new processes."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks", "memory", "--inside", library]
    for name in ("rows", "trees", "threads"):
        command += [f"--{name}", str(getattr(options, name))]
    return [
        json.loads(
            subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
        )
        for _ in range(options.repeats)
    ]


def main(argv: Sequence[str] | None = None) -> int:
    parser = options_of("memory", __doc__)
    parser.add_argument("--repeats", type=positive, default=3, help="processes for each library")
    parser.add_argument("--threads", type=positive, default=2, help="threads of each library")
    parser.add_argument("--rows", type=positive, default=1_000_000, help="rows of the table")
    parser.add_argument("--trees", type=positive, default=100, help="rounds of boosting")
    parser.add_argument("--inside", choices=ALL, help="measure one library in this process")
    options = parser.parse_args(argv)
    if options.inside:
        print(json.dumps(measure_here(options.inside, options)))
        return 0
    record = Record("memory", options)
    results = {}
    for library in peers.installed(ALL):
        runs = measure(library, options)
        relative = median(run["bytes"] / run["input_bytes"] for run in runs)
        results[library] = {"runs": runs, "relative": relative}
        megabytes = median(run["bytes"] for run in runs) / 1e6
        print(f"  {library:<10}{megabytes:>10.1f} MB beyond the input = {relative:.3f} × the input")
    record.write(results)
    return 0
