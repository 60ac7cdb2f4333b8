"""Time to train, binning and data set construction included, compilation apart.

All libraries run in one process and take turns. Each has trained on a small table of the same
kind before, so that nothing is compiled or loaded on the clock. The settings are the same for
all (63 leaves, 255 bins, rate 0.1, at least 20 rows a leaf), but XGBoost has no least number of
rows and keeps its defaults of lambda = 1 and least hessian = 1. Quality on fresh rows is
measured too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

from gpuens.datasets import make_covtype_like, make_higgs_like

from ..common import peers, pictures, tables
from ..common.goals import Goal, measured
from ..common.markdown import medians, pivot
from ..common.peers import OURS, settings_for
from ..common.program import Content, Options, Program, Results, timing
from ..common.timing import take_turns

Table = tuple[np.ndarray, np.ndarray]
WARM_UP_ROWS = 2000
TEST_ROWS = 200_000
ALL = ("LightGBM", "LightGBM quantised", "XGBoost", "HistGB")


@dataclass(frozen=True)
class Workload:
    """A table to train on, and the libraries that train on it."""

    n_rows: int
    make: Callable[..., Table]
    """From a number of rows and ``random_state``."""
    task: peers.Task = "binary"
    n_trees: int = 100
    libraries: tuple[str, ...] = ALL


def letter(n_rows: int, random_state: int) -> Table:
    """Return real letters: state 0 gives the rows to train on, any other the rows after them."""
    arrays = tables.load(tables.DATA, "letter")
    rows = np.random.default_rng(0).permutation(len(arrays["y"]))
    rows = rows[:n_rows] if random_state == 0 else rows[n_rows : 2 * n_rows]
    return arrays["X"][rows], arrays["y"][rows]


WORKLOADS = {
    "1m": Workload(1_000_000, partial(make_higgs_like, n_features=28)),
    "100k": Workload(100_000, partial(make_higgs_like, n_features=100)),
    "10k": Workload(10_000, partial(make_higgs_like, n_features=20)),
    "covtype": Workload(500_000, make_covtype_like, "multiclass", 20, ("LightGBM",)),
    "letter": Workload(15_000, letter, "multiclass", 100, ("LightGBM", "XGBoost")),
}


def quality(model: Any, test: Table, task: peers.Task) -> dict[str, float]:
    """Return the log loss on rows that were not trained on, and AUC or accuracy beside it."""
    X, y = test
    p = peers.probabilities(model, X)
    found = {"log_loss": float(log_loss(y, p, labels=model.classes_))}
    if task == "binary":
        return {**found, "auc": float(roc_auc_score(y, p[:, 1]))}
    return {**found, "accuracy": float(accuracy_score(y, model.classes_[p.argmax(axis=1)]))}


def measure(workload: Workload, options: Options) -> Results:
    """Measure all libraries on one table."""
    n_rows = options.rows or workload.n_rows
    shared = peers.Settings(n_trees=options.trees or workload.n_trees, threads=options.threads)
    X, y = workload.make(n_rows, random_state=0)
    libraries = peers.installed([OURS, *workload.libraries])

    def training(library: str) -> Callable[[], Any]:
        settings = settings_for(library, shared)
        return lambda: peers.estimator(library, workload.task, settings).fit(X, y)

    few = slice(min(n_rows, WARM_UP_ROWS))
    for library in libraries:
        small = replace(settings_for(library, shared), n_trees=3)
        peers.estimator(library, workload.task, small).fit(X[few], y[few]).predict_proba(X[few])
    table, models = take_turns({library: training(library) for library in libraries}, options)
    test = workload.make(min(n_rows, TEST_ROWS), random_state=1)
    for library, model in models.items():
        table[library]["quality"] = quality(model, test, workload.task)
    return {
        "title": tables.title(y, X.shape[1]), "n_rows": n_rows, "n_features": X.shape[1],
        "n_trees": shared.n_trees, "libraries": table,
    }  # fmt: skip


def show(content: Content) -> Iterator[str]:
    """Yield times and losses by workload."""
    workloads = measured(content["results"]).values()
    yield medians("median time to train", {w["title"]: w["libraries"] for w in workloads})
    yield pivot("log loss on fresh rows", {
        workload["title"]: {
            library: f"{row['quality']['log_loss']:.4f}"
            for library, row in workload["libraries"].items() if "quality" in row
        }
        for workload in workloads
    })  # fmt: skip


AT_MOST = {
    "1m": {"LightGBM": 0.50, "LightGBM quantised": 0.75, "XGBoost": 0.60, "HistGB": 0.50},
    "covtype": {"LightGBM": 0.80},
}
AT_MOST_OF_THE_FASTEST = {"100k": 0.60, "10k": 0.60, "letter": 0.60}
BEST_OF = ("LightGBM", "XGBoost", "HistGB")
LETTER = "letter, 26 classes, 100 rounds"
LETTER_LOSS = 1.01


def goals(content: Content) -> Iterator[Goal]:
    found = measured(content["results"])
    for key, workload in found.items():
        libraries, of = workload["libraries"], workload["title"]
        for peer, limit in AT_MOST.get(key, {}).items():
            if peer in libraries:
                what = f"the time to train {of}, relative to {peer}"
                yield Goal(what, limit, libraries[peer]["ratio"])
        ratios = {name: libraries[name]["ratio"] for name in BEST_OF if name in libraries}
        if key in AT_MOST_OF_THE_FASTEST and ratios:
            best = max(ratios, key=lambda name: ratios[name])
            what = f"the time to train {of}, relative to the fastest other library ({best})"
            yield Goal(what, AT_MOST_OF_THE_FASTEST[key], ratios[best])
        if key == "letter" and "LightGBM" in libraries:
            a, b = (libraries[name]["quality"]["log_loss"] for name in (OURS, "LightGBM"))
            yield Goal(f"the log loss on {of}, relative to LightGBM", LETTER_LOSS, a / b)
    if "letter" not in found:
        what = f"the time to train {LETTER}, relative to the faster of LightGBM and XGBoost"
        yield Goal(what, AT_MOST_OF_THE_FASTEST["letter"], None)
        yield Goal(f"the log loss on {LETTER}, relative to LightGBM", LETTER_LOSS, None)


def picture(figure: Any, content: Content) -> None:
    """Draw a group of bars for each workload: time relative to gpuens."""
    groups = {
        workload["title"]: {name: row["median"] for name, row in workload["libraries"].items()}
        for workload in measured(content["results"]).values()
    }
    if not groups:
        raise pictures.NothingToDraw("no workload was measured")
    figure.set_size_inches(8, 1.2 + 0.26 * sum(map(len, groups.values())) + 0.25 * len(groups))
    axes = figure.subplots()
    pictures.bars(axes, groups, OURS)
    axes.set_xlim(0, 1.18 * axes.get_xlim()[1])
    axes.set_xlabel("time to train ÷ time of gpuens (shorter is faster)")


PROGRAM = Program(
    "fit", __doc__,
    {name: partial(measure, workload) for name, workload in WORKLOADS.items()},
    {
        **timing(3),
        "rows": (None, "rows of every table instead of its own"),
        "trees": (None, "rounds of boosting instead of the table's"),
    },
    show, goals, picture,
)  # fmt: skip
main = PROGRAM.main
