"""The time from a new process to its first model: import, fit, predict (20k × 28, 10 trees).

Every measurement is a process of its own, timed from its first statement; the table is read between
import and fit, off the clock. XGBoost and LightGBM fit as many rounds of boosting.

processes
    Each model in turns, with the kernels that are there. A process of each kind is started once
    more under ``python -X importtime``: its milliseconds by package are those of the modules' own
    code, without what they import. The time of an import is longer under this option.
compiling
    Processes that find no compiled kernels: ``GPUENS_KERNELS=compiled``, and an empty cache.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np

from gpuens.datasets import make_higgs_like

from ..common.goals import Goal, measured
from ..common.markdown import pivot
from ..common.peers import GapError, say_skipped
from ..common.processes import run_python
from ..common.program import Content, Options, Program, Results

MODELS = {
    "boosting": ("gpuens", "GradientBoostingClassifier(n_estimators=trees, n_jobs=threads)"),
    "forest": (
        "gpuens",
        "RandomForestClassifier(n_estimators=trees, n_jobs=threads, random_state=0)",
    ),
    "tree": ("gpuens", "DecisionTreeClassifier(max_depth=8)"),
    "AdaBoost": ("gpuens", "AdaBoostClassifier(n_estimators=trees, random_state=0)"),
    "isolation forest": (
        "gpuens",
        "IsolationForest(n_estimators=trees, n_jobs=threads, random_state=0)",
    ),
    "XGBoost": ("xgboost", "XGBClassifier(n_estimators=trees, n_jobs=threads)"),
    "LightGBM": ("lightgbm", "LGBMClassifier(n_estimators=trees, n_jobs=threads, verbose=-1)"),
}
"""Modules, and what is called in them."""
COMPILED = ("boosting", "forest", "tree")
"""Models that ``compiling`` fits."""
CHILD = """
from time import perf_counter as clock, process_time as busy
t0, c0 = clock(), busy()
import {module}
make = {module}.{make_name}
t1, c1 = clock(), busy()
import sys, json
import numpy as np
table, trees, threads = np.load(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
X, y = table["X"], table["y"]
t2, c2 = clock(), busy()
model = make({arguments}).fit(X, y)
t3 = clock()
model.predict(X)
t4, c4 = clock(), busy()
parts = {{"import": t1 - t0, "fit": t3 - t2, "predict": t4 - t3}}
print(json.dumps({{**parts, "total": sum(parts.values()), "CPU": c4 - c2 + c1 - c0}}))
"""
SHOWN = ("scipy", "sklearn", "numpy", "numba", "pandas", "pyarrow", "gpuens", "gpuens.kernels")
"""Packages with a column; the others share one."""

Seconds = dict[str, float]


class Processes:
    """Starts processes that fit one model each."""

    def __init__(self, options: Options, folder: Path) -> None:
        self.arguments = folder / "table.npz", options.trees, options.threads

    def model(self, name: str, *flags: str, **environment: str) -> tuple[Seconds, str]:
        """Fit a model in a new process; returns its times, and what it wrote to stderr."""
        return run_python(code_of(name), self.arguments, environment, flags)


def code_of(name: str) -> str:
    """Return the program of a process."""
    module, call = MODELS[name]
    make_name, arguments = call.removesuffix(")").split("(")
    return CHILD.format(module=module, make_name=make_name, arguments=arguments)


def is_ours(name: str) -> bool:
    return MODELS[name][0] == "gpuens"


def milliseconds_by_package(stderr: str) -> dict[str, float]:
    """Sum what ``-X importtime`` wrote: each module's own time, by package."""
    found: Counter[str] = Counter()
    for line in stderr.splitlines():
        own, _, name = line.removeprefix("import time:").partition("|")
        if own.strip().isdecimal():
            package, *below = name.split("|")[-1].strip().split(".")
            kernels = package == "gpuens" and below[:1] == ["kernels"]
            found["gpuens.kernels" if kernels else package] += int(own)
    return {package: micro / 1000 for package, micro in found.most_common()}


@contextmanager
def table_of(options: Options) -> Iterator[Processes]:
    """Make the table that processes read."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        X, y = make_higgs_like(options.rows, 28)
        np.savez(folder / "table.npz", X=X, y=y)
        yield Processes(options, folder)


def medians_of(rounds: Sequence[dict[str, Seconds]]) -> dict[str, Seconds]:
    """Return the medians over all rounds, by process and part."""
    return {
        process: {part: median(found[process][part] for found in rounds) for part in parts}
        for process, parts in rounds[0].items()
    }


def processes(options: Options) -> Results:
    """Measure processes of all models, and what they import."""
    imports, gaps = {}, []
    with table_of(options) as started:
        for name in MODELS:
            try:
                started.model(name)  # so that compiled bytecode and kernels are there
                imports[name] = milliseconds_by_package(started.model(name, "-Ximporttime")[1])
            except GapError as gap:
                gaps.append(say_skipped(GapError(f"{name}: {gap}")))
        rounds = []
        for _ in range(options.repeats):
            rounds.append({name: started.model(name)[0] for name in imports})
        found = {"medians": medians_of(rounds), "imports": imports}
        return {**found, "gaps": gaps}


def compiling(options: Options) -> Results:
    """Measure processes that compile all that they use."""
    with table_of(options) as started, tempfile.TemporaryDirectory() as cache:
        found = {
            name: started.model(
                name, GPUENS_KERNELS="compiled", NUMBA_CACHE_DIR=str(Path(cache, name))
            )[0]
            for name in COMPILED
        }
    return {"medians": found}


def import_cells(milliseconds: Mapping[str, float]) -> dict[str, str]:
    """Return the cells of a table of imports."""
    others = sum(value for package, value in milliseconds.items() if package not in SHOWN)
    shown = {package: milliseconds.get(package, 0.0) for package in SHOWN}
    values = {**shown, "others": others, "all": sum(milliseconds.values())}
    return {package: f"{value:.0f}" for package, value in values.items()}


HEADS = {
    "processes": "a new process until its first model has predicted: seconds",
    "compiling": "the same where nothing is compiled yet: seconds",
}


def show(content: Content) -> Iterator[str]:
    """Yield seconds by process, and the milliseconds of imports."""
    results = measured(content["results"])
    for part, head in HEADS.items():
        yield pivot(head, {
            process: {name: f"{value:.2f}" for name, value in seconds.items()}
            for process, seconds in results.get(part, {}).get("medians", {}).items()
        })  # fmt: skip
    if "processes" in results:
        yield pivot("imports of a new process that fits and predicts: ms", {
            name: import_cells(milliseconds)
            for name, milliseconds in results["processes"]["imports"].items()
        })  # fmt: skip


def goals(content: Content) -> Iterator[Goal]:
    results = measured(content["results"])
    medians = results.get("processes", {}).get("medians", {})
    ours = {name: parts["total"] for name, parts in medians.items() if is_ours(name)}
    others = [parts["total"] for name, parts in medians.items() if not is_ours(name)]
    if ours:
        slowest = max(ours, key=lambda name: ours[name])
        what = f"the time of import, fit and predict in a new process (the slowest: {slowest})"
        yield Goal(what, 1.3, ours[slowest], "s")
        if others:
            ratio = ours[slowest] / max(others)
            yield Goal(f"{what}, relative to the slower of XGBoost and LightGBM", 1.2, ratio)
    for name, parts in results.get("compiling", {}).get("medians", {}).items():
        what = f"the CPU time of a process that compiles its kernels, {name},"
        yield Goal(what, 20.0, parts["CPU"], "s")


PROGRAM = Program(
    "first_model", __doc__, {"processes": processes, "compiling": compiling},
    {
        "repeats": (5, "processes of each kind"),
        "threads": (2, "threads of each library"),
        "rows": (20_000, "rows of the table"),
        "trees": (10, "rounds, trees"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
