"""The cost of a new process: import, first fit (10k × 20, 100 trees), first prediction.

Every measurement is a process of its own, timed from its first statement. The first one has an
empty cache of compiled kernels (``NUMBA_CACHE_DIR`` points to a new folder), the second finds
there what the first has compiled. The table is read between import and fit, off the clock.

The same is measured of a process that serves: it imports the library, loads a random forest of as
many trees (at most ``DEPTH`` levels, a square root of the features at a node; a tree, in LightGBM)
from a file, and predicts one row, then the table. Each library's forest was saved in its own way:
gpuens by ``save``, scikit-learn by joblib, LightGBM and XGBoost as text and JSON.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import joblib
import numpy as np

from gpuens.datasets import make_higgs_like

from ..common import peers
from ..common.goals import Goal
from ..common.markdown import pivot
from ..common.peers import OURS, THEIRS, GapError, say_skipped
from ..common.processes import run_python
from ..common.program import Content, Options, Program, Results

DEPTH = 10
IMPORTS = {
    OURS: "from gpuens import GradientBoostingClassifier",
    "LightGBM": "from lightgbm import LGBMClassifier",
    "XGBoost": "from xgboost import XGBClassifier",
    "HistGB": "from sklearn.ensemble import HistGradientBoostingClassifier",
}
LOAD = {
    OURS: ("import gpuens", "model = gpuens.load(path).set_params(n_jobs=threads)"),
    THEIRS: (
        "import joblib, sklearn.ensemble", "model = joblib.load(path).set_params(n_jobs=threads)"
    ),
    "LightGBM": (
        "import lightgbm", "model = lightgbm.Booster(model_file=path)",
        "model.predict({rows}, num_threads=threads)",
    ),
    "XGBoost": (
        "import xgboost", "model = xgboost.XGBRFClassifier(n_jobs=threads); model.load_model(path)"
    ),
}  # fmt: skip
"""The import, what loads a file, and what predicts where it is not ``predict_proba``."""
CHILD = """
from time import perf_counter as clock
t0 = clock()
{imports}
t1 = clock()
import json, sys
import numpy as np
{prepare}
t2 = clock()
{first}
t3 = clock()
{one}
t4 = clock()
{all}
t5 = clock()
print(json.dumps({{"import": t1 - t0, {name!r}: t3 - t2, "first predict": t4 - t3,
                   "first table": t5 - t4}}))
"""
PREPARE_TRAINING = """
from benchmarks.common import peers
file = np.load(sys.argv[1])
X, y = file["X"], file["y"]
settings = peers.Settings(n_trees=int(sys.argv[2]), threads=int(sys.argv[3]))
"""
PREPARE_SERVING = """
X = np.load(sys.argv[1])["X"]
path, threads = sys.argv[2], int(sys.argv[3])
"""

Seconds = dict[str, float]
Start = Callable[[str, dict[str, str]], Seconds]
"""Run a process of a library with some variables in its environment."""


def code_of(name: str, first: str, call: str = "model.predict_proba({rows})", **more: str) -> str:
    """Return the program of a process that times ``first`` under a name, and predictions."""
    rows = {"one": call.format(rows="X[:1]"), "all": call.format(rows="X")}
    return CHILD.format(name=name, first=first, **rows, **more)


def training_code(library: str) -> str:
    """Return the program of a process that trains."""
    fit = f'model = peers.estimator({library!r}, "binary", settings).fit(X, y)'
    return code_of("first fit", fit, imports=IMPORTS[library], prepare=PREPARE_TRAINING)


def serving_code(library: str) -> str:
    """Return the program of a process that serves."""
    imports, load, *call = LOAD[library]
    return code_of("load", load, *call, imports=imports, prepare=PREPARE_SERVING)


def save_forest(
    library: str, X: np.ndarray, y: np.ndarray, folder: Path, trees: int, threads: int
) -> Path:
    """Train a forest and write it; returns its file."""
    shared: dict[str, Any] = {"n_estimators": trees, "max_depth": DEPTH, "random_state": 0}
    path, share = folder / "forest.json", X.shape[1] ** -0.5
    if library in (OURS, THEIRS):
        path = folder / f"forest.{library}"
        forest = peers.build(library, "RandomForestClassifier", threads, **shared).fit(X, y)
        forest.save(path) if library == OURS else joblib.dump(forest, path)
        return path
    shared |= {"n_jobs": threads, "subsample": 0.632}
    if library == "LightGBM":
        from lightgbm import LGBMClassifier

        bags: dict[str, Any] = {"boosting_type": "rf", "subsample_freq": 1, "verbose": -1}
        leaves: dict[str, Any] = {"num_leaves": 2**DEPTH, "colsample_bytree": share}
        LGBMClassifier(**shared, **bags, **leaves).fit(X, y).booster_.save_model(path)
    else:
        from xgboost import XGBRFClassifier

        XGBRFClassifier(**shared, colsample_bynode=share).fit(X, y).save_model(path)
    return path


def rounds_of(libraries: Sequence[str], start: Start, options: Options) -> Results:
    """Start every library once a round; returns all rounds and their medians.

    The cold process of gpuens fills the cache of its warm one.
    """
    rounds: list[dict[str, Seconds]] = []
    for i in range(options.repeats):
        found = {}
        with tempfile.TemporaryDirectory() as cache:
            own = {} if options.warm_only else {"NUMBA_CACHE_DIR": cache}
            for state in ("warm",) if options.warm_only else ("cold", "warm"):
                found[f"gpuens, {state} cache"] = start(OURS, own)
        for library in libraries:
            found[library] = start(library, {})
        rounds.append(found)
        print(f"  round {i + 1} of {options.repeats} done", flush=True)
    medians = {
        process: {part: median(r[process][part] for r in rounds) for part in seconds}
        for process, seconds in rounds[0].items()
    }
    return {"medians": medians, "runs": rounds}


def training(libraries: Sequence[str], table: Path, options: Options) -> Results:
    """Measure processes that train."""

    def start(library: str, own: dict[str, str]) -> Seconds:
        code = training_code(library)
        found = run_python(code, table, options.trees, options.threads, **own)
        return {**found, "import + first fit": found["import"] + found["first fit"]}

    return rounds_of(libraries, start, options)


def serving(
    libraries: Sequence[str], X: np.ndarray, y: np.ndarray, table: Path, options: Options
) -> Results:
    """Measure processes that load a forest; a library that fails is named."""
    files, gaps = {}, []
    for library in (OURS, *libraries):
        try:
            files[library] = save_forest(
                library, X, y, table.parent, options.trees, options.threads
            )
        except Exception as error:
            gaps.append(say_skipped(GapError(f"a saved forest of {library}: {error}")))
    if OURS not in files:
        return {"gaps": gaps}

    def start(library: str, own: dict[str, str]) -> Seconds:
        found = run_python(serving_code(library), table, files[library], options.threads, **own)
        return {**found, "import to first predict": sum(found.values()) - found["first table"]}

    found = rounds_of([name for name in files if name != OURS], start, options)
    return {**found, **({"gaps": gaps} if gaps else {})}


def measure(options: Options) -> Results:
    libraries = peers.installed([name for name in IMPORTS if name != OURS])
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.npz"
        X, y = make_higgs_like(options.rows, 20)
        np.savez(table, X=X, y=y)
        results = training(libraries, table, options)
        forests = [THEIRS if library == "HistGB" else library for library in libraries]
        results["loaded"] = serving(forests, X, y, table, options)
    return results


def show(content: Content) -> Iterator[str]:
    """Yield seconds of new processes that train, and of those that load a forest."""
    results = content["results"]
    for corner, part in (("trains", results), ("loads a forest", results.get("loaded", {}))):
        yield pivot(f"a new process {corner}: seconds", {
            process: {name: f"{value:.2f}" for name, value in seconds.items()}
            for process, seconds in part.get("medians", {}).items()
        })  # fmt: skip


def goals(content: Content) -> Iterator[Goal]:
    medians, settings = content["results"]["medians"], content["settings"]
    of = f"{settings['rows']:,} × 20, {settings['trees']} trees"
    warm, cold = medians.get("gpuens, warm cache"), medians.get("gpuens, cold cache")
    if warm:
        what = f"the time of import and first fit ({of}) in a new process, kernels cached"
        yield Goal(what, 1.5, warm["import + first fit"], "s")
    if cold:
        what = f"the time of the first fit ({of}) in a new process, nothing cached"
        yield Goal(what, 12.0, cold["first fit"], "s")


PROGRAM = Program(
    "startup", __doc__, measure,
    {
        "repeats": (3, "processes of each kind"),
        "threads": (2, "threads of each library"),
        "rows": (10_000, "rows of the table"),
        "trees": (100, "rounds, trees"),
        "warm_only": (False, "use the cache as it is: nothing is compiled again"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
