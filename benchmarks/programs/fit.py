"""Time to train, binning and data set construction included, compilation apart.

All libraries run in one process and take turns. Each has trained on a small table of the same
kind before, so that nothing is compiled or loaded on the clock. The settings are the same for
all (63 leaves, 255 bins, rate 0.1, at least 20 rows a leaf), but XGBoost has no least number of
rows and keeps its defaults of lambda = 1 and least hessian = 1. Quality on fresh rows stands
beside the times.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

from gpuens.datasets import make_covtype_like, make_higgs_like

from ..common import counterparts, peers
from ..common.records import Record, add_timing_options, options_of, positive
from ..common.timing import compare, interleaved
from ..report import drawing

Table = tuple[np.ndarray, np.ndarray]
WARM_UP_ROWS = 2000
TEST_ROWS = 200_000
ALL = ("LightGBM", "LightGBM quantised", "XGBoost", "HistGB")


@dataclass(frozen=True)
class Workload:
    """A table to train on, and who trains on it."""

    n_rows: int
    make: Callable[[int, int], Table]
    """From a number of rows and a seed."""
    task: peers.Task = "binary"
    n_trees: int = 100
    libraries: tuple[str, ...] = ALL


def higgs(n_features: int) -> Callable[[int, int], Table]:
    """Tables of ``make_higgs_like``."""
    return lambda n_rows, seed: make_higgs_like(n_rows, n_features, seed)


def letter(n_rows: int, seed: int) -> Table:
    """Real letters: seed 0 gives the rows to train on, any other those behind them."""
    arrays = counterparts.load(counterparts.DATA, "letter")
    rows = np.random.default_rng(0).permutation(len(arrays["y"]))
    rows = rows[:n_rows] if seed == 0 else rows[n_rows : 2 * n_rows]
    return arrays["X"][rows], arrays["y"][rows]


WORKLOADS = {
    "1m": Workload(1_000_000, higgs(28)),
    "100k": Workload(100_000, higgs(100)),
    "10k": Workload(10_000, higgs(20)),
    "covtype": Workload(500_000, make_covtype_like, "multiclass", 20, ("LightGBM",)),
    "letter": Workload(15_000, letter, "multiclass", 100, ("LightGBM", "XGBoost")),
}


def title(y: np.ndarray, n_features: int) -> str:
    """A table's size in words."""
    n = len(y)
    rows = f"{n / 1e6:g}M" if n >= 1e6 else f"{n / 1e3:g}k" if n >= 1000 else str(n)
    return f"{rows} × {n_features}, {np.unique(y).size} classes"


def settings_for(library: str, settings: peers.Settings) -> peers.Settings:
    """The shared settings, as far as the library has them."""
    return replace(settings, l2=1.0, min_sum_hessian=1.0) if library == "XGBoost" else settings


def quality(model: Any, test: Table, task: peers.Task) -> dict[str, float]:
    """Log loss on rows that were not trained on, and what people ask for beside it."""
    X, y = test
    p = peers.probabilities(model, X)
    found = {"log_loss": float(log_loss(y, p, labels=model.classes_))}
    if task == "binary":
        return {**found, "auc": float(roc_auc_score(y, p[:, 1]))}
    return {**found, "accuracy": float(accuracy_score(y, model.classes_[p.argmax(axis=1)]))}


def measure(workload: Workload, options: argparse.Namespace) -> dict[str, Any]:
    """All runs on one table."""
    n_rows = options.rows or workload.n_rows
    shared = peers.Settings(n_trees=options.trees or workload.n_trees, threads=options.threads)
    X, y = workload.make(n_rows, 0)
    print(title(y, X.shape[1]), flush=True)
    libraries = peers.installed([peers.OURS, *workload.libraries])

    def training(library: str) -> Callable[[], Any]:
        settings = settings_for(library, shared)
        return lambda: peers.estimator(library, workload.task, settings).fit(X, y)

    warm_up = min(n_rows, WARM_UP_ROWS)
    for library in libraries:
        small = replace(settings_for(library, shared), n_trees=3)
        model = peers.estimator(library, workload.task, small)
        model.fit(X[:warm_up], y[:warm_up]).predict_proba(X[:warm_up])
    actions = {library: training(library) for library in libraries}
    seconds, models = interleaved(actions, options.repeats, options.threads, options.budget)
    table = compare(seconds, peers.OURS)
    test = workload.make(min(n_rows, TEST_ROWS), 1)
    for library, model in models.items():
        table[library]["quality"] = quality(model, test, workload.task)
    return {
        "title": title(y, X.shape[1]),
        "n_rows": n_rows,
        "n_features": X.shape[1],
        "n_trees": shared.n_trees,
        "libraries": table,
    }


def show(workload: dict[str, Any]) -> None:
    """One line for each library."""
    for library, row in workload["libraries"].items():
        ratio = f"gpuens ÷ it {row['ratio']:.3f}" if "ratio" in row else ""
        values = "  ".join(f"{name} {value:.5f}" for name, value in row["quality"].items())
        print(f"  {library:<20}{row['median']:>10.3f} s  {values}  {ratio}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = options_of("fit", __doc__)
    add_timing_options(parser, repeats=3)
    parser.add_argument("--rows", type=positive, help="rows of every table (None: its own)")
    parser.add_argument("--trees", type=positive, help="rounds of boosting (None: the table's)")
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    options = parser.parse_args(argv)
    peers.silence()
    record = Record("fit", options)
    results = {}
    for name in options.only:
        try:
            results[name] = measure(WORKLOADS[name], options)
            show(results[name])
        except counterparts.GapError as gap:
            counterparts.say_skipped(gap)
    drawing.draw(drawing.fit_times, record.write(results), record.path.with_suffix(".png"))
    return 0
