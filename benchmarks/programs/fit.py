"""Time to train, binning and data set construction included, compilation apart.

All libraries run in one process and take turns. Each has trained on a small table of the same
kind before, so that nothing is compiled or loaded on the clock. The settings are the same for
all (63 leaves, 255 bins, rate 0.1, at least 20 rows a leaf), but XGBoost has no least number of
rows and keeps its defaults of lambda = 1 and least hessian = 1. Quality on fresh rows is
measured too. ``words`` is a sparse table.

With ``--depth`` trees have that depth and no other limit of leaves, and XGBoost's defaults of
lambda, least hessian and rows are those of all. With ``--device cuda`` gpuens and XGBoost train on
a GPU, with the table in its memory; ``--with-cpu`` adds gpuens on the CPU, whose model must be the
same, bit for bit. ``--with-array`` adds gpuens with ``device="array"``, slow enough that a few rows
and trees will do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

from gpuens.datasets import make_covtype_like, make_higgs_like

from ..common import peers, pictures, tables
from ..common.goals import Goal, measured
from ..common.markdown import medians, pivot
from ..common.peers import IN_ARRAYS, ON_CPU, OURS, GapError, say_skipped, settings_for
from ..common.places import DEVICE, Host, place_of
from ..common.program import Content, Options, Program, Results, timing
from ..common.timing import take_turns

Table = tuple[Any, np.ndarray]
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


def letter(n_rows: int, random_state: int, **more: Any) -> Table:
    """Return real letters: state 0 gives the rows to train on, any other the rows after them."""
    arrays = tables.load(tables.DATA, "letter")
    rows = np.random.default_rng(0).permutation(len(arrays["y"]))
    rows = rows[:n_rows] if random_state == 0 else rows[n_rows : 2 * n_rows]
    return arrays["X"][rows], arrays["y"][rows]


WORDS, KNOWN, TELLING = 50_000, 3000, 200
"""Columns of the sparse table; the labels follow some of the most frequent ones."""
FILL = 0.002


def words(n_rows: int, random_state: int) -> Table:
    """Return counts of words by Zipf's law with a flat head, 0.2 % of the cells filled, and labels;
    state 0 gives the rows to train on, any other the rows after them."""
    rng, n = np.random.default_rng(0), 2 * n_rows
    zipf = 1.0 / (np.arange(WORDS) + 101.0)
    counts = rng.binomial(n, np.minimum(zipf * FILL * WORDS / zipf.sum(), 0.5))
    rows = np.concatenate([rng.choice(n, k, replace=False) for k in counts])
    values = np.minimum(rng.geometric(0.7, rows.size), 20).astype(np.float64)
    begin = np.concatenate([[0], np.cumsum(counts)])
    X = scipy.sparse.csc_matrix((values, rows, begin), (n, WORDS)).tocsr()
    effect = np.zeros(WORDS)
    effect[rng.choice(KNOWN, TELLING)] = rng.normal(size=TELLING)
    score = (X > 0) @ effect + 0.3 * rng.normal(size=n)
    part = slice(0, n_rows) if random_state == 0 else slice(n_rows, n)
    return X[part], (score > np.median(score)).astype(np.int64)[part]


WORKLOADS = {
    "1m": Workload(1_000_000, partial(make_higgs_like, n_features=28)),
    "100k": Workload(100_000, partial(make_higgs_like, n_features=100)),
    "10k": Workload(10_000, partial(make_higgs_like, n_features=20)),
    "covtype": Workload(500_000, make_covtype_like, "multiclass", 20, ("LightGBM",)),
    "letter": Workload(15_000, letter, "multiclass", 100, ("LightGBM", "XGBoost")),
    "words": Workload(10_000, words, "binary", 100, ("LightGBM", "XGBoost")),
}
NARROW = partial(make_higgs_like, n_features=28)
FOR_GPUS = {
    "10k narrow": Workload(10_000, NARROW),
    "100k narrow": Workload(100_000, NARROW),
    "11m": Workload(11_000_000, NARROW),
    "covtype 100 rounds": Workload(500_000, make_covtype_like, "multiclass", 100),
}
"""Sizes that GPUs are compared on."""


def settings_of(workload: Workload, options: Options) -> peers.Settings:
    """Return the settings that all libraries share."""
    shared = peers.Settings(n_trees=options.trees or workload.n_trees, threads=options.threads)
    if not options.depth:
        return shared
    return replace(
        shared, max_depth=options.depth, max_leaf_nodes=None, min_samples_leaf=1,
        min_sum_hessian=1.0, l2=1.0,
    )  # fmt: skip


@cache
def peers_on(place: type[Host]) -> tuple[dict[str, str], list[str]]:
    """Return the libraries that train in a place that is not the CPU, with their devices, and why
    others do not: each has to train on a few rows."""
    found, gaps = {}, []
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(64, 3)), np.arange(64) % 2
    for name in peers.installed(["XGBoost"]):
        build = trainer(name, place.others, "binary")
        try:
            if problem := without_cuda(place):
                raise GapError(problem)
            build(peers.Settings(n_trees=2)).fit(X, y)
            found[name] = place.others
        except Exception as error:
            gaps.append(say_skipped(GapError(f"{name} on a GPU: {error}")))
    return found, gaps


def without_cuda(place: type[Host]) -> str | None:
    """Return why XGBoost would silently train on the CPU."""
    import xgboost

    built = place.others != "cuda" or xgboost.build_info().get("USE_CUDA")
    return None if built else "it is built without CUDA (pip install xgboost)"


def contestants(workload: Workload, options: Options, place: Host) -> dict[str, str]:
    """Return the libraries that take part, each with the device that it trains on."""
    in_arrays = {IN_ARRAYS: "array"} if getattr(options, "with_array", False) else {}
    if place.device == "cpu":
        return dict.fromkeys(peers.installed([OURS, *workload.libraries]), "cpu") | in_arrays
    on_cpu = {ON_CPU: "cpu"} if getattr(options, "with_cpu", False) else {}
    return {OURS: place.device, **peers_on(type(place))[0], **on_cpu, **in_arrays}


def trainer(library: str, device: str, task: peers.Task) -> Callable[[peers.Settings], Any]:
    """Return what builds a contestant."""
    name = OURS if library in (ON_CPU, IN_ARRAYS) else library
    further: dict[str, Any] = {"device": device} if name in (OURS, "XGBoost") else {}

    def build(settings: peers.Settings) -> Any:
        shared, own = settings_for(name, settings), dict(further)
        if shared.max_depth is not None:
            # The depth alone leaves LightGBM at 31 leaves, and us and HistGB at the default.
            leaves = 2**shared.max_depth if name == "LightGBM" else None
            shared = replace(shared, max_leaf_nodes=leaves)
            own |= {"max_leaf_nodes": None} if name in (OURS, "HistGB") else {}
        return peers.estimator(name, task, shared, **own)

    return build


def quality(model: Any, test: Table, task: peers.Task) -> dict[str, float]:
    """Return the log loss on rows that were not trained on, and AUC or accuracy beside it."""
    X, y = test
    p, y = peers.probabilities(model, X), Host().get(y)
    found = {"log_loss": float(log_loss(y, p, labels=model.classes_))}
    if task == "binary":
        return {**found, "auc": float(roc_auc_score(y, p[:, 1]))}
    return {**found, "accuracy": float(accuracy_score(y, model.classes_[p.argmax(axis=1)]))}


def measure(workload: Workload, options: Options) -> Results:
    """Measure all libraries on one table."""
    place = place_of(options.device)
    n_rows = options.rows or workload.n_rows
    shared = settings_of(workload, options)
    X, y = place.table(workload.make, n_rows, random_state=0)
    actions = {}
    for name, device in contestants(workload, options, place).items():
        build = trainer(name, device, workload.task)
        data = (place.get(X), place.get(y)) if name == ON_CPU else (X, y)
        few = [array[: min(n_rows, WARM_UP_ROWS)] for array in data]
        build(replace(shared, n_trees=3)).fit(*few).predict_proba(few[0])
        actions[name] = place.waiting(partial(train, build, shared, data))
    table, models = take_turns(actions, options)
    test = place.table(workload.make, min(n_rows, TEST_ROWS), random_state=1)
    for library, model in models.items():
        if library != ON_CPU:
            table[library]["quality"] = quality(model, test, workload.task)
    found = {
        "title": tables.title(place.get(y), X.shape[1]), "n_rows": n_rows,
        "n_features": X.shape[1], "n_trees": shared.n_trees, "libraries": table,
    }  # fmt: skip
    if place.device != "cpu":
        found |= of_device(place, models, X, actions[OURS])
        found["gaps"] = peers_on(type(place))[1]
    if IN_ARRAYS in models:
        marks = {models[name].forest_.fingerprint() for name in (OURS, IN_ARRAYS)}
        found.setdefault("equal", {})["compiled and array code"] = len(marks) == 1
    return found


def train(build: Callable[[peers.Settings], Any], settings: peers.Settings, data: Table) -> Any:
    return build(settings).fit(*data)


BYTES_A_CELL, BYTES_A_ROW = 3, 40
"""The memory that training on a GPU may take beside the table."""


def of_device(place: Host, models: dict[str, Any], X: Any, fit: Callable[[], Any]) -> Results:
    """Return the fingerprint of a model of a GPU, whether it is the CPU's, and the most memory
    that training takes beside the table, relative to what it may."""
    marks = {name: models[name].forest_.fingerprint() for name in (OURS, ON_CPU) if name in models}
    found: Results = {"fingerprints": marks}
    if ON_CPU in marks:
        found["equal"] = {"CPU and GPU": marks[OURS] == marks[ON_CPU]}
    if (peak := place.peak_bytes(fit)) is not None:
        allowed = X.shape[0] * (BYTES_A_CELL * X.shape[1] + BYTES_A_ROW)
        found["memory"] = {"bytes": peak, "ratio": peak / allowed}
    return found


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
    "1m": {"LightGBM": 0.42, "LightGBM quantised": 0.60, "XGBoost": 0.48, "HistGB": 0.40},
    "covtype": {"LightGBM": 0.70},
    "words": {"LightGBM": 1.0},
}
AT_MOST_OF_THE_FASTEST = {"100k": 0.50, "10k": 0.50, "letter": 0.50}
BEST_OF = ("LightGBM", "XGBoost", "HistGB")
LETTER_LOSS = 1.01


def goals(content: Content) -> Iterator[Goal]:
    if content["settings"].get("device") == "cuda":
        return  # ``gpu_check`` has them
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
        **DEVICE,
        "with_cpu": (False, "with --device cuda: gpuens on the CPU as well"),
        "with_array": (False, "gpuens with device=\"array\" as well"),
        "depth": (None, "depth of the trees instead of 63 leaves"),
        "rows": (None, "rows of every table instead of its own"),
        "trees": (None, "rounds of boosting instead of the table's"),
    },
    show, goals,
    {name: partial(measure, workload) for name, workload in FOR_GPUS.items()},
)  # fmt: skip
main = PROGRAM.main
