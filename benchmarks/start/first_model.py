"""The time from a new process to its first model: import, fit, predict (20k × 28, 10 trees).

Every measurement is a process of its own, timed from its first statement; the table is read between
import and fit, off the clock. For each of five models a process begins with an empty cache of
compiled kernels (``NUMBA_CACHE_DIR`` points to a new folder), the others with the cache that this
one has left. XGBoost and LightGBM fit as many rounds of boosting. All take turns.

A process of each kind is started once more under ``python -X importtime``. Its milliseconds by
package are those of the modules' own code, without what they import; of gpuens, those of its
kernels are apart. The time of an import is longer under this option.

With ``--python`` another environment is measured, such as one where only the wheel is installed:
what it holds decides much of the time, since scikit-learn imports pandas where it is there.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from gpuens.datasets import make_higgs_like

from ..common.goals import Goal
from ..common.markdown import pivot
from ..common.peers import GapError, say_skipped
from ..common.processes import Interpreter
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
"""Models with a goal for the time of the compiler."""
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
VERSIONS = """
import json, platform, sys
from importlib.metadata import PackageNotFoundError, version
found = {"python": platform.python_version()}
for package in sys.argv[1:]:
    try:
        found[package] = version(package)
    except PackageNotFoundError:
        pass
print(json.dumps(found))
"""
PACKAGES = ("gpuens", "numpy", "scipy", "scikit-learn", "numba", "pandas", "pyarrow", "xgboost",
            "xgboost-cpu", "lightgbm")  # fmt: skip
SHOWN = ("scipy", "sklearn", "numpy", "numba", "pandas", "pyarrow", "gpuens", "gpuens.kernels")
"""Packages with a column; the others share one."""
EMPTY, WARM = "empty cache", "warm cache"

Seconds = dict[str, float]


class Processes:
    """Starts processes that fit one model each."""

    def __init__(self, options: Options, folder: Path) -> None:
        self.interpreter = Interpreter(options.python, folder)
        self.arguments = folder / "table.npz", options.trees, options.threads

    def model(self, name: str, *flags: str, cache: str = "") -> tuple[Seconds, str]:
        """Fit a model in a new process; returns its times, and what it wrote to stderr."""
        environment = {"NUMBA_CACHE_DIR": cache} if cache else {}
        return self.interpreter.run(code_of(name), self.arguments, environment, flags)

    def versions(self) -> dict[str, str]:
        return self.interpreter.run(VERSIONS, PACKAGES)[0]


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


def one_round(processes: Processes, names: Sequence[str], cold: bool) -> dict[str, Seconds]:
    """Start a process of every model; those of gpuens twice if ``cold``, first with an empty cache.

    Without ``cold``, kernels come from wherever they are kept.
    """
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(names):
            cache = str(Path(folder, str(number))) if cold and is_ours(name) else ""
            if cache:
                found[f"{name}, {EMPTY}"] = processes.model(name, cache=cache)[0]
            label = f"{name}, {WARM}" if is_ours(name) else name
            found[label] = processes.model(name, cache=cache)[0]
    return found


def measure(options: Options) -> Results:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        X, y = make_higgs_like(options.rows, 28)
        np.savez(folder / "table.npz", X=X, y=y)
        processes = Processes(options, folder)
        imports, gaps = {}, []
        for model in MODELS:
            try:
                processes.model(model)  # so that compiled bytecode and kernels are there
                imports[model] = milliseconds_by_package(processes.model(model, "-Ximporttime")[1])
            except GapError as gap:
                gaps.append(say_skipped(GapError(f"{model}: {gap}")))
        rounds, cold = [], 0 if options.warm_only else options.cold
        for i in range(options.repeats):
            rounds.append(one_round(processes, list(imports), i < cold))
            print(f"  round {i + 1} of {options.repeats} done", flush=True)
        environment = processes.versions()
    medians = {
        process: {part: median(r[process][part] for r in rounds if process in r) for part in parts}
        for process, parts in rounds[0].items()
    }
    found = {"medians": medians, "runs": rounds, "imports": imports, "environment": environment}
    return {**found, "gaps": gaps} if gaps else found


def import_cells(milliseconds: Mapping[str, float]) -> dict[str, str]:
    """Return the cells of a table of imports."""
    others = sum(value for package, value in milliseconds.items() if package not in SHOWN)
    shown = {package: milliseconds.get(package, 0.0) for package in SHOWN}
    values = {**shown, "others": others, "all": sum(milliseconds.values())}
    return {package: f"{value:.0f}" for package, value in values.items()}


def show(content: Content) -> Iterator[str]:
    """Yield seconds by process, and the milliseconds of imports."""
    results = content["results"]
    yield pivot("a new process until its first model has predicted: seconds", {
        process: {part: f"{value:.2f}" for part, value in seconds.items()}
        for process, seconds in results["medians"].items()
    })  # fmt: skip
    yield pivot("imports of a new process that fits and predicts, kernels cached: ms", {
        name: import_cells(milliseconds) for name, milliseconds in results["imports"].items()
    })  # fmt: skip
    of = ", ".join(f"{package} {number}" for package, number in results["environment"].items())
    yield f"First models were fitted with {of}."


def goals(content: Content) -> Iterator[Goal]:
    medians = content["results"]["medians"]
    peers = [medians[name]["total"] for name in medians if name in MODELS]
    for state in (EMPTY, WARM):
        ours = {name: m["total"] for name, m in medians.items() if name.endswith(state)}
        if not ours:
            continue
        slowest = max(ours, key=lambda name: ours[name])
        what = f"the time of import, fit and predict in a new process (the slowest: {slowest})"
        yield Goal(what, 1.3, ours[slowest], "s")
        if peers:
            yield Goal(f"{what}, relative to the slower of XGBoost and LightGBM", 1.2,
                       ours[slowest] / max(peers))  # fmt: skip
    for name in COMPILED:
        if cold := medians.get(f"{name}, {EMPTY}"):
            yield Goal(f"the CPU time of a process with an empty cache, {name}", 20.0, cold["CPU"],
                       "s")  # fmt: skip


PROGRAM = Program(
    "first_model", __doc__, measure,
    {
        "repeats": (5, "processes of each kind"),
        "cold": (1, "rounds with processes that begin with an empty cache"),
        "warm_only": (False, "use the cache as it is: nothing is compiled again"),
        "threads": (2, "threads of each library"),
        "rows": (20_000, "rows of the table"),
        "trees": (10, "rounds, trees"),
        "python": (Path(sys.executable), "interpreter whose environment is measured"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
