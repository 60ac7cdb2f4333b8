"""Time to predict: a table, and a single row.

Probabilities through ``predict_proba``, what a user calls, in every library; for XGBoost also
``Booster.inplace_predict`` and, for a single row, ``Booster.predict`` on a new ``DMatrix``.
A ratio is always to that call of the other library.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from gpuens.datasets import make_higgs_like

from ..common import peers
from ..common.goals import Goal
from ..common.markdown import number, pivot
from ..common.peers import OURS, settings_for
from ..common.program import Content, Options, Program, Results, timing
from ..common.timing import compare, take_turns

TRAINING_ROWS = 200_000
ALL = (OURS, "XGBoost", "LightGBM", "HistGB")
BATCH_SECONDS = 0.05
"""Calls on one row are timed in batches of about this length."""
AT_MOST = {"table": 0.20, "row": 1.0}
CALLS = {"XGBoost": "XGBoost", "XGBoost inplace_predict": "XGBoost's `inplace_predict`"}


def models_of(n_trees: int, options: Options) -> dict[str, Any]:
    """Return fitted estimators of 63 leaves a tree."""
    X, y = make_higgs_like(min(options.rows, TRAINING_ROWS), random_state=0)
    shared = peers.Settings(n_trees=n_trees, threads=options.threads)
    return {
        library: peers.estimator(library, "binary", settings_for(library, shared)).fit(X, y)
        for library in peers.installed(ALL)
    }


def calls_of(models: dict[str, Any], X: np.ndarray, dmatrix: bool) -> dict[str, Callable[[], Any]]:
    """Return the calls that are timed, by name."""
    calls: dict[str, Callable[[], Any]] = {}
    for library, model in models.items():
        calls[library] = partial(model.predict_proba, X)
    if "XGBoost" in models:
        booster = models["XGBoost"].get_booster()
        calls["XGBoost inplace_predict"] = partial(booster.inplace_predict, X)
        if dmatrix:
            from xgboost import DMatrix

            calls["XGBoost Booster.predict"] = lambda: booster.predict(DMatrix(X))
    return calls


def measure_table(options: Options) -> Results:
    """Measure seconds for a table of ``--rows`` rows."""
    models = models_of(options.trees, options)
    X, _ = make_higgs_like(options.rows, random_state=1)
    for model in models.values():
        model.predict_proba(X[:2000])
    libraries, _ = take_turns(calls_of(models, X, dmatrix=False), options)
    shape = {"n_rows": options.rows, "n_features": X.shape[1], "n_trees": options.trees}
    return {**shape, "libraries": libraries}


def microseconds(call: Callable[[], Any], n_calls: int) -> float:
    """Return the mean time of a call in one batch."""
    start = time.perf_counter()
    for _ in range(n_calls):
        call()
    return (time.perf_counter() - start) / n_calls * 1e6


def measure_row(options: Options) -> Results:
    """Measure microseconds for one row: medians over batches of calls that take turns."""
    n_trees = 4 * options.trees
    models = models_of(n_trees, options)
    X, _ = make_higgs_like(options.batches, random_state=1)
    batches: dict[str, list[float]] = {}
    for i in range(options.batches):
        for name, call in calls_of(models, X[i : i + 1], dmatrix=True).items():
            once = microseconds(call, 1)  # also warms up
            n_calls = min(500, max(1, int(BATCH_SECONDS * 1e6 / once)))
            batches.setdefault(name, []).append(microseconds(call, n_calls))
    table = compare(batches, OURS)
    for row in table.values():
        row["microseconds"] = row.pop("seconds")
    return {"n_rows": 1, "n_features": X.shape[1], "n_trees": n_trees, "libraries": table}


def rows_in(part: Results) -> str:
    return "one row" if part["n_rows"] == 1 else f"{part['n_rows']:,} rows"


def show(content: Content) -> Iterator[str]:
    """Yield the time of a table in seconds and of one row in microseconds."""
    yield pivot("median time to predict", {
        f"{rows_in(part)}, {part['n_trees']} trees": {
            library: number(row["median"], "µs" if part["n_rows"] == 1 else "s")
            for library, row in part["libraries"].items()
        }
        for part in content["results"].values()
    })  # fmt: skip


def goals(content: Content) -> Iterator[Goal]:
    for name, part in content["results"].items():
        for call, text in CALLS.items():
            if call in part["libraries"]:
                shape = f"{rows_in(part)}, {part['n_trees']} trees"
                what = f"the time to predict {shape}, relative to {text}"
                yield Goal(what, AT_MOST[name], part["libraries"][call]["ratio"])


PROGRAM = Program(
    "predict", __doc__, {"table": measure_table, "row": measure_row},
    {
        **timing(5),
        "rows": (1_000_000, "rows of the table"),
        "trees": (100, "trees for the table; four times as many for a row"),
        "batches": (30, "batches of calls on a row"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
