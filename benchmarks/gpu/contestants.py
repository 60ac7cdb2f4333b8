"""Who trains beside gpuens on the card, with the same settings as far as they have them.

Depth-wise trees everywhere, 255 bins, rate 0.1, l2 = 1, least hessian 1 and no least number of
rows, which are XGBoost's defaults. CatBoost's trees are symmetric and Py-Boost's have its own
regularisation. A library that is not installed is a gap with that reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..common.peers import Settings, Task
from ..scaling import libraries
from .bench import OURS, XGBOOST, Action, Bench, short

WARM_UP_ROWS = 4096
OTHERS = {  # LightGBM's usual wheel has no CUDA; it then says so at its first training
    "CatBoost": libraries.Library(
        "CatBoost", "catboost", libraries.catboost(task_type="GPU"), "cuda", own_arrays=False
    ),
    "LightGBM CUDA": libraries.Library(
        "LightGBM CUDA",
        "lightgbm",
        libraries.boosting("LightGBM", device_type="cuda"),
        own_arrays=False,
    ),
    "Py-Boost": libraries.Library("Py-Boost", "py_boost", libraries.py_boost, "cuda"),
}
Build = Callable[[Settings], Any]


def settings_of(bench: Bench, n_trees: int, depth: int) -> Settings:
    """The settings that all share."""
    return Settings(
        n_trees=bench.trees(n_trees), max_depth=bench.depth(depth), max_leaf_nodes=None,
        min_samples_leaf=1, min_sum_hessian=1.0, l2=1.0, threads=bench.threads,
    )  # fmt: skip


def ours(task: Task, device: str = "cuda") -> Build:
    """Gradient boosting of this package."""
    return lambda settings: libraries.boosting(OURS, device=device)(task, settings)


def xgboost(bench: Bench, task: Task) -> Build:
    """XGBoost's, on the card; in a rehearsal on the host."""
    return lambda settings: libraries.boosting(XGBOOST, device=bench.xgboost_device)(task, settings)


def builders(bench: Bench, task: Task, others: bool = False) -> dict[str, tuple[Build, bool]]:
    """Contestants that are here: how each is built, and whether it takes the card's arrays."""
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


def tables_of(bench: Bench, X: Any, y: Any, own_arrays: bool) -> tuple[Any, Any]:
    """A table where a contestant wants it."""
    return (X, y) if own_arrays else (bench.card.get(X), bench.card.get(y))


def training(
    bench: Bench, task: Task, X: Any, y: Any, settings: Settings, others: bool = False
) -> dict[str, Action]:
    """The training of every contestant; each has trained on some rows before.

    Who fails at that is a gap; gpuens raises its error.
    """
    actions: dict[str, Action] = {}
    for name, (build, own_arrays) in builders(bench, task, others).items():
        data = tables_of(bench, X, y, own_arrays)
        small = replace(settings, n_trees=2)
        try:
            build(small).fit(data[0][:WARM_UP_ROWS], data[1][:WARM_UP_ROWS])
        except Exception as error:
            if name == OURS:
                raise
            bench.gaps[name] = short(error)
            continue
        actions[name] = lambda build=build, data=data: build(settings).fit(*data)
    return actions
