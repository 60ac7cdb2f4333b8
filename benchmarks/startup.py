"""What a new process pays: import, first fit (10k × 20, 100 trees), first prediction.

Every measurement is a process of its own, timed from its first statement. The first one has an
empty cache of compiled kernels (``NUMBA_CACHE_DIR`` points to a new folder), the second finds
there what the first has compiled. The table is read between import and fit, off the clock.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from gpuens.datasets import make_higgs_like

from . import peers
from .machine import ROOT
from .records import Record, options_of, positive

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
print(json.dumps({{"import": t1 - t0, "first fit": t3 - t2, "first predict": t4 - t3}}))
"""


def seconds_in_new_process(
    library: str, table: Path, cache: str | None, options: Any
) -> dict[str, float]:
    """Import, first fit and first prediction in a new process."""
    environment = dict(os.environ)
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = cache
    code = CHILD.format(imports=IMPORTS[library], library=library)
    arguments = [str(table), str(options.trees), str(options.threads)]
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    seconds = json.loads(child.stdout.splitlines()[-1])
    return {**seconds, "import + first fit": seconds["import"] + seconds["first fit"]}


def one_round(table: Path, libraries: Sequence[str], options: Any) -> dict[str, dict[str, float]]:
    """Everybody once. gpuens' cold process fills the cache of its warm one."""
    found = {}
    with tempfile.TemporaryDirectory() as cache:
        if options.warm_only:
            found["gpuens, warm cache"] = seconds_in_new_process(peers.OURS, table, None, options)
        else:
            for state in ("cold", "warm"):
                seconds = seconds_in_new_process(peers.OURS, table, cache, options)
                found[f"gpuens, {state} cache"] = seconds
    for library in libraries:
        found[library] = seconds_in_new_process(library, table, None, options)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = options_of("startup", __doc__)
    parser.add_argument("--repeats", type=positive, default=3, help="processes of each kind")
    parser.add_argument("--threads", type=positive, default=2, help="threads of each library")
    parser.add_argument("--rows", type=positive, default=10_000, help="rows of the table")
    parser.add_argument("--trees", type=positive, default=100, help="rounds of boosting")
    parser.add_argument(
        "--warm-only", action="store_true", help="use the cache as it is, compile nothing anew"
    )
    options = parser.parse_args(argv)
    record = Record("startup", options)
    libraries = peers.installed([name for name in IMPORTS if name != peers.OURS])
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.npz"
        X, y = make_higgs_like(options.rows, 20)
        np.savez(table, X=X, y=y)
        for i in range(options.repeats):
            rounds.append(one_round(table, libraries, options))
            print(f"  round {i + 1} of {options.repeats} done", flush=True)
    medians = {
        process: {part: median(r[process][part] for r in rounds) for part in seconds}
        for process, seconds in rounds[0].items()
    }
    for process, seconds in medians.items():
        parts = "  ".join(f"{part} {value:.3f} s" for part, value in seconds.items())
        print(f"  {process:<20}{parts}")
    record.write({"medians": medians, "runs": rounds})
    return 0
