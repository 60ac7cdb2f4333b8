"""Gradient boosting on the card, beside the other libraries with the same settings as far as they
have them: training, memory, many small fits, ways to start kernels, prediction.

Depth-wise trees everywhere, 255 bins, rate 0.1, l2 = 1, least hessian 1 and no least number of
rows, which are XGBoost's defaults. CatBoost's trees are symmetric and Py-Boost's have its own
regularisation. gpuens and XGBoost predict with models that each has trained on the same table,
nvForest with XGBoost's. A library that is not installed is a gap with that reason.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import KFold

from gpuens import fit_many, memory_plan
from gpuens.datasets import make_covtype_like, make_higgs_like
from gpuens.devices.policy import boosting_work

from ..common.peers import OURS, Settings, Task
from ..scaling import libraries
from .bench import ON_CPU, WARM_UP_ROWS, XGBOOST, Action, Bench, identical

NVFOREST = "nvForest"
TRAINING_ROWS = 200_000
LEAF_ROWS = 1_000_000
"""Rows whose leaves are predicted at most: their numbers take 4 bytes a tree."""
TEST_ROWS = 500_000
BYTES_A_CELL, BYTES_A_ROW = 3, 40
"""The memory that training may take beside the table."""
FOLDS = 5
RATES = (0.02, 0.03, 0.05, 0.07, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3)
ONE_BY_ONE = "gpuens, one by one"

VARIANTS: dict[str, dict[str, str]] = {
    "stock": {},
    "direct": {"GPUENS_CUDA_LAUNCHER": "direct"},
    "graphs": {"GPUENS_CUDA_GRAPHS": "1"},
    "direct and graphs": {"GPUENS_CUDA_LAUNCHER": "direct", "GPUENS_CUDA_GRAPHS": "1"},
}
"""Ways to start kernels, by the environment that chooses them."""
OTHERS = {  # LightGBM's usual wheel has no CUDA; it then fails at its first training
    "CatBoost": libraries.named("gradient_boosting", "CatBoost CUDA"),
    "LightGBM CUDA": libraries.Library(
        "LightGBM CUDA", "lightgbm", libraries.boosting("LightGBM", device_type="cuda"),
        own_arrays=False,
    ),
    "Py-Boost": libraries.named("gradient_boosting", "Py-Boost"),
}  # fmt: skip
Build = Callable[[Settings], Any]


def settings_of(bench: Bench, n_trees: int, depth: int) -> Settings:
    """Return the settings that all share."""
    return Settings(
        n_trees=bench.trees(n_trees), max_depth=bench.depth(depth), max_leaf_nodes=None,
        min_samples_leaf=1, min_sum_hessian=1.0, l2=1.0, threads=bench.threads,
    )  # fmt: skip


def sizes(X: Any, settings: Settings) -> dict[str, Any]:
    """Return the sizes of a table and a model, for the results."""
    return {
        "n_rows": X.shape[0], "n_features": X.shape[1], "n_trees": settings.n_trees,
        "depth": settings.max_depth,
    }  # fmt: skip


def ours(task: Task, device: str = "cuda") -> Build:
    """Return what builds gradient boosting of this package."""
    return lambda settings: libraries.boosting(OURS, device=device)(task, settings)


def xgboost(bench: Bench, task: Task) -> Build:
    """Return what builds XGBoost's, on the card; in a rehearsal on the host."""
    return lambda settings: libraries.boosting(XGBOOST, device=bench.xgboost_device)(task, settings)


def builders(bench: Bench, task: Task, others: bool = False) -> dict[str, tuple[Build, bool]]:
    """Return how each installed contestant is built, and whether it takes the card's arrays."""
    found: dict[str, tuple[Build, bool]] = {OURS: (ours(task), True)}
    peer = libraries.Library(XGBOOST, "xgboost", lambda *_: None, bench.xgboost_device)
    if problem := peer.problem():
        bench.gaps[XGBOOST] = problem
    else:
        found[XGBOOST] = xgboost(bench, task), True
    for name, library in OTHERS.items() if others else ():
        problem = "takes no part in a rehearsal" if bench.rehearsal else library.problem()
        if problem:
            bench.gaps[name] = problem
        else:
            build = library.build
            found[name] = (lambda settings, build=build: build(task, settings)), library.own_arrays
    return found


def training(
    bench: Bench, task: Task, X: Any, y: Any, settings: Settings, others: bool = False
) -> dict[str, Action]:
    """Return the training of every contestant; each has trained on some rows before.

    One that fails at that is a gap; gpuens raises its error.
    """
    actions: dict[str, Action] = {}
    for name, (build, own_arrays) in builders(bench, task, others).items():
        data = (X, y) if own_arrays else (bench.card.get(X), bench.card.get(y))
        with bench.attempt(name):
            few = [array[:WARM_UP_ROWS] for array in data]
            build(replace(settings, n_trees=2)).fit(*few)
            actions[name] = lambda build=build, data=data: build(settings).fit(*data)
    return actions


def table_for(bench: Bench, n_rows: int, n_features: int, n_classes: int, seed: int = 0) -> Any:
    """Return a table in the card's memory."""
    n, n_features = bench.rows(n_rows), bench.features(n_features)
    if n_classes == 7 and not bench.rehearsal:
        return bench.card.table(make_covtype_like, n, seed)
    X, y = bench.card.table(make_higgs_like, n, n_features, seed)
    return (X, y) if n_classes == 2 else (X, many_classes(bench, X, y, n_classes))


def many_classes(bench: Bench, X: Any, y: Any, n_classes: int) -> Any:
    """Return a target of many classes, of which all occur in every short table: cells of two
    features, half of them moved by ``y``."""
    xp = bench.card.cupy
    cells = xp.floor((xp.tanh(X[:, 0]) + 1) * n_classes / 4).astype(np.int64)
    cells = 2 * cells + y + (xp.abs(X[:, 2]) > 1)
    known = xp.arange(len(y)) % (4 * n_classes)
    return xp.where(known < n_classes, known, cells % n_classes)


def fit(
    bench: Bench, n_rows: int, n_features: int = 28, n_classes: int = 2, n_trees: int = 100,
    depth: int = 6, repeats: int | None = None, others: bool = False, with_quality: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """Measure one table's training, and quality on fresh rows."""
    n_classes = bench.classes(n_classes)
    X, y = table_for(bench, n_rows, n_features, n_classes)
    task: Task = "binary" if n_classes == 2 else "multiclass"
    settings = settings_of(bench, n_trees, depth)
    result = sizes(X, settings) | {"n_classes": n_classes, "table_bytes": int(X.nbytes + y.nbytes)}
    actions = training(bench, task, X, y, settings, others)
    result["libraries"], models = bench.contest(actions, repeats)
    result["fingerprint"] = models[OURS].forest_.fingerprint()
    result["ms_a_tree"] = 1e3 * result["libraries"][OURS]["median"] / settings.n_trees
    if with_quality:
        test = table_for(bench, min(TEST_ROWS, n_rows), n_features, n_classes, seed=1)
        for name, model in models.items():
            with bench.attempt(f"quality of {name}"):
                result["libraries"][name]["quality"] = quality(bench, model, *test, n_classes)
    return result


def quality(bench: Bench, model: Any, X: Any, y: Any, n_classes: int) -> dict[str, float]:
    """Return the AUC of two classes, log loss of more."""
    if not hasattr(model, "predict_proba"):  # Py-Boost: its predictions are probabilities
        p = np.asarray(model.predict(X), np.float64)
        p = np.column_stack([1 - p, p]) if p.shape[-1] == 1 else p
    else:
        own = type(model).__module__.startswith("catboost")
        p = np.asarray(bench.card.get(model.predict_proba(bench.card.get(X) if own else X)))
    p = p.astype(np.float64)
    p /= p.sum(axis=1, keepdims=True)
    truth = bench.card.get(y)
    if n_classes == 2:
        return {"auc": float(roc_auc_score(truth, p[:, 1]))}
    return {"log_loss": float(log_loss(truth, p, labels=np.arange(p.shape[1])))}


def memory(bench: Bench, n_rows: int, n_features: int = 28) -> dict[str, Any]:
    """Measure the most memory that training takes beside its table, and the plan for it."""
    X, y = table_for(bench, n_rows, n_features, 2)
    settings = settings_of(bench, 3, 8)
    model = ours("binary")(settings)
    model.fit(X[:4096], y[:4096])
    plan = memory_plan(model, X, y).total
    found = bench.card.peak_bytes(lambda: model.fit(X, y))
    allowed = BYTES_A_CELL * X.shape[0] * X.shape[1] + BYTES_A_ROW * X.shape[0]
    return sizes(X, settings) | {
        "bytes": found, "planned_bytes": int(plan), "asked_bytes": allowed,
        "ratio": found / allowed, "bytes_a_row": found / X.shape[0],
    }  # fmt: skip


def cores(bench: Bench, n_rows: int, n_trees: int = 100) -> dict[str, Any]:
    """Measure the same training on the card and on all cores of the host, each with the table in
    its own memory, beside the estimates that ``device="auto"`` goes by; the models must be the
    same."""
    X, y = table_for(bench, n_rows, 28, 2)
    settings = settings_of(bench, n_trees, 6)

    def train(device: str, rows: Any, labels: Any) -> Any:
        return ours("binary", device)(settings).fit(rows, labels)

    libraries, models = bench.contest(bench.on_both(train, X, y))
    work = boosting_work(X.shape, settings.n_trees)
    estimated = {OURS: work.gpu, ON_CPU: work.cpu}
    for name in estimated.keys() & libraries.keys():
        measured = libraries[name]["median"]
        print(f"  {name}: {measured:.2g} s, estimated {estimated[name]:.2g} s", flush=True)
    return sizes(X, settings) | {
        "threads": bench.threads, "libraries": libraries, "identical_to_cpu": identical(models),
        "estimated_seconds": estimated,
    }  # fmt: skip


def many_fits(bench: Bench, n_rows: int = 10_000, n_trees: int = 100) -> dict[str, Any]:
    """Measure ten rates on five folds at once, beside one fit after another.

    The tables lie in the host's memory, as small ones do. A fold leaves ``n_rows`` to train on.
    """
    X, y = (bench.card.get(a) for a in table_for(bench, n_rows * FOLDS // (FOLDS - 1), 20, 2))
    rates = RATES[:2] if bench.rehearsal else RATES
    folds = list(KFold(FOLDS, shuffle=True, random_state=0).split(X))
    folds = folds[:2] if bench.rehearsal else folds
    settings = settings_of(bench, n_trees, 6)

    def models_of(build: Any) -> list[Any]:
        return [build(settings).set_params(learning_rate=rate) for rate in rates]

    def at_once() -> Any:
        threads = 1 if bench.rehearsal else bench.threads  # the simulator runs one kernel at a time
        return fit_many(models_of(ours("binary")), X, y, folds=folds, n_jobs=threads)

    def one_by_one(build: Any) -> Any:
        return [
            [clone(model).fit(X[train], y[train]) for train, _ in folds]
            for model in models_of(build)
        ]

    actions: dict[str, Any] = {}
    for name, (build, _) in builders(bench, "binary").items():
        with bench.attempt(name):
            build(settings_of(bench, 2, 6)).fit(X, y)
            actions[ONE_BY_ONE if name == OURS else name] = partial(one_by_one, build)
    actions = {OURS: at_once, **actions}
    libraries, models = bench.contest(actions, repeats=1 if bench.rehearsal else 2, share=0.4)
    result = sizes(X[folds[0][0]], settings)
    result |= {"n_fits": len(rates) * len(folds), "libraries": libraries}
    if ONE_BY_ONE in models:
        train = folds[-1][0]
        alone = ours("binary")(settings).set_params(learning_rate=rates[-1]).fit(X[train], y[train])
        batch = models[OURS][-1][-1].forest_.fingerprint()
        result["same_as_alone"] = batch == alone.forest_.fingerprint()
    return result


def launches(bench: Bench, variant: str, n_rows: int) -> dict[str, Any]:
    """Time a tree of depth 6 with one way to start kernels: a long training less a short one, so
    that neither binning nor the first launches count.

    The environment must choose it before the process starts: see ``VARIANTS``.
    """
    for name, value in VARIANTS[variant].items():
        if os.environ.get(name) != value:
            raise RuntimeError(f"{variant} needs {name}={value} in the environment")
    X, y = table_for(bench, n_rows, 28, 2)
    build = ours("binary")
    counts = {"short": bench.trees(20), "long": bench.trees(20) + bench.trees(100)}
    settings = settings_of(bench, 100, 6)
    models = {name: build(settings).set_params(n_estimators=n) for name, n in counts.items()}
    models["short"].fit(X, y)
    seconds: dict[str, list[float]] = {name: [] for name in counts}
    for _ in range(1 if bench.rehearsal else max(3, bench.repeats)):
        for name, model in models.items():
            seconds[name].append(bench.card.seconds(lambda model=model: model.fit(X, y)))
    difference = median(seconds["long"]) - median(seconds["short"])
    return sizes(X, settings) | {
        "variant": variant, "seconds": seconds,
        "ms_a_tree": 1e3 * difference / (counts["long"] - counts["short"]),
        "fingerprint": models["long"].forest_.fingerprint(),
    }  # fmt: skip


def predict(bench: Bench, n_rows: int, n_trees: int = 500, depth: int = 8) -> dict[str, Any]:
    """Measure class probabilities of one table, of one row, and of the rows' leaves."""
    settings = settings_of(bench, n_trees, depth)
    models = trained(bench, settings)
    rows, _ = table_for(bench, n_rows, 28, 2, seed=1)
    actions: dict[str, Action] = {
        name: lambda model=model: model.predict_proba(rows) for name, model in models.items()
    }
    if XGBOOST in models:
        with bench.attempt(NVFOREST):
            actions[NVFOREST] = by_nvforest(models[XGBOOST], rows)
    else:
        bench.gaps[NVFOREST] = "needs XGBoost's model"
    ready = {}
    for name, action in actions.items():
        with bench.attempt(name):
            bench.waiting(action)()  # layouts are made at the first call
            ready[name] = action
    libraries, _ = bench.contest(ready)
    some = rows[:LEAF_ROWS]
    leaves: Action = lambda: models[OURS].apply(some)  # noqa: E731
    single: Action = lambda: models[OURS].predict_proba(rows[:1])  # noqa: E731
    return sizes(rows, settings) | {
        "libraries": libraries,
        "seconds_of_one_row": min(bench.card.seconds(single) for _ in range(5)),
        "leaf_rows": some.shape[0],
        "seconds_of_leaves": min(bench.card.seconds(leaves) for _ in range(2)),
    }  # fmt: skip


def trained(bench: Bench, settings: Settings) -> dict[str, Any]:
    """Return the models by contestant, trained once for all cases of a process."""
    kept = bench.card.kept
    if settings not in kept:
        X, y = table_for(bench, TRAINING_ROWS, 28, 2)
        models: dict[str, Any] = {}
        for name, (build, _) in builders(bench, "binary").items():
            with bench.attempt(name):
                models[name] = build(settings).fit(X, y)
        kept[settings] = models, dict(bench.gaps)
    models, gaps = kept[settings]
    bench.gaps.update(gaps)
    return models


def by_nvforest(model: Any, rows: Any) -> Action:
    """Return nvForest's prediction with a model of XGBoost."""
    if find_spec("nvforest") is None:
        raise ImportError("nvforest is not installed")
    import nvforest

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.ubj"
        model.get_booster().save_model(path)
        loaded = nvforest.load_model(path, model_type="xgboost_ubj", device="gpu")
    return lambda: loaded.predict_proba(rows)
