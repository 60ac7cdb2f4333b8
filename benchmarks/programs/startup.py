"""What a new process pays: import, first fit (10k × 20, 100 trees), first prediction.

Every measurement is a process of its own, timed from its first statement. The first one has an
empty cache of compiled kernels (``NUMBA_CACHE_DIR`` points to a new folder), the second finds
there what the first has compiled. The table is read between import and fit, off the clock.

The same is measured of a process that serves: it imports the library, loads a random forest of as
many trees from a file, and predicts one row, then the table. Each library's forest was saved in its
own way: gpuens by ``save``, scikit-learn by joblib, LightGBM and XGBoost as text and JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from gpuens.datasets import make_higgs_like

from ..common import peers
from ..common.counterparts import GapError, say_skipped
from ..common.machine import ROOT
from ..common.records import Record, options_of, positive
from . import startup_forests
from .startup_forests import THEIRS

IMPORTS = {
    peers.OURS: "from gpuens import GradientBoostingClassifier",
    "LightGBM": "from lightgbm import LGBMClassifier",
    "XGBoost": "from xgboost import XGBClassifier",
    "HistGB": "from sklearn.ensemble import HistGradientBoostingClassifier",
}
CHILD = """
from time import perf_counter as clock
t0 = clock()
{imports}
t1 = clock()
import json, sys
import numpy as np
from benchmarks import peers
file = np.load(sys.argv[1])
X, y = file["X"], file["y"]
settings = peers.Settings(n_trees=int(sys.argv[2]), threads=int(sys.argv[3]))
t2 = clock()
model = peers.estimator({library!r}, "binary", settings).fit(X, y)
t3 = clock()
model.predict_proba(X[:1])
t4 = clock()
model.predict_proba(X)
t5 = clock()
print(json.dumps({{"import": t1 - t0, "first fit": t3 - t2, "first predict": t4 - t3,
                   "first table": t5 - t4}}))
"""

Seconds = dict[str, float]
Start = Callable[[str, str | None], Seconds]
"""Run a process of a library with a cache (None: the one that is there)."""


def run_new_process(code: str, cache: str | None, *arguments: Any) -> Seconds:
    """The times that a new process prints in its last line.

    Raises
    ------
    GapError
        If the process fails.
    """
    environment = dict(os.environ)
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = cache
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    if child.returncode != 0:
        last = (child.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise GapError(f"a new process ended with {child.returncode}: {last}")
    found: Seconds = json.loads(child.stdout.splitlines()[-1])
    return found


def training(table: Path, options: Any) -> Start:
    """Import, first fit and first predictions."""

    def start(library: str, cache: str | None) -> Seconds:
        code = CHILD.format(imports=IMPORTS[library], library=library)
        found = run_new_process(code, cache, table, options.trees, options.threads)
        return {**found, "import + first fit": found["import"] + found["first fit"]}

    return start


def one_round(libraries: Sequence[str], start: Start, options: Any) -> dict[str, Seconds]:
    """Everybody once. gpuens' cold process fills the cache of its warm one."""
    found = {}
    with tempfile.TemporaryDirectory() as cache:
        if options.warm_only:
            found["gpuens, warm cache"] = start(peers.OURS, None)
        else:
            for state in ("cold", "warm"):
                found[f"gpuens, {state} cache"] = start(peers.OURS, cache)
    for library in libraries:
        found[library] = start(library, None)
    return found


def measure(libraries: Sequence[str], start: Start, options: Any) -> dict[str, Any]:
    """All rounds and their medians."""
    rounds = []
    for i in range(options.repeats):
        rounds.append(one_round(libraries, start, options))
        print(f"  round {i + 1} of {options.repeats} done", flush=True)
    medians = {
        process: {part: median(r[process][part] for r in rounds) for part in seconds}
        for process, seconds in rounds[0].items()
    }
    for process, seconds in medians.items():
        parts = "  ".join(f"{part} {value:.3f} s" for part, value in seconds.items())
        print(f"  {process:<20}{parts}")
    return {"medians": medians, "runs": rounds}


def serving(
    libraries: Sequence[str], X: np.ndarray, y: np.ndarray, table: Path, options: Any
) -> dict[str, Any]:
    """The same of processes that load a forest; a library that fails is named."""
    files, gaps = {}, []
    for library in (peers.OURS, *libraries):
        try:
            files[library] = startup_forests.save(library, X, y, table.parent, options)
        except Exception as error:
            gaps.append(say_skipped(GapError(f"a saved forest of {library}: {error}")))
    if peers.OURS not in files:
        return {"gaps": gaps}

    def start(library: str, cache: str | None) -> Seconds:
        code = startup_forests.code(library)
        found = run_new_process(code, cache, table, files[library], options.threads)
        return {**found, "import to first predict": sum(found.values()) - found["first table"]}

    found = measure([name for name in files if name != peers.OURS], start, options)
    return {**found, **({"gaps": gaps} if gaps else {})}


def main(argv: Sequence[str] | None = None) -> int:
    parser = options_of("startup", __doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--repeats", type=positive, default=3, help="processes of each kind (3)")
    parser.add_argument("--threads", type=positive, default=2, help="threads of each library (2)")
    parser.add_argument("--rows", type=positive, default=10_000, help="rows of the table (10000)")
    parser.add_argument("--trees", type=positive, default=100, help="rounds, trees (100)")
    parser.add_argument(
        "--warm-only", action="store_true", help="use the cache as it is, compile nothing anew"
    )
    options = parser.parse_args(argv)
    record = Record("startup", options)
    libraries = peers.installed([name for name in IMPORTS if name != peers.OURS])
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.npz"
        X, y = make_higgs_like(options.rows, 20)
        np.savez(table, X=X, y=y)
        print("training", flush=True)
        results = measure(libraries, training(table, options), options)
        print("a forest from a file", flush=True)
        forests = [THEIRS if library == "HistGB" else library for library in libraries]
        results["loaded"] = serving(forests, X, y, table, options)
    record.write(results)
    return 0
