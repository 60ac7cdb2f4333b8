"""Time to predict: a table, and a single row.

Probabilities through ``predict_proba``, what a user calls, in every library; for XGBoost also
``Booster.inplace_predict`` and, for a single row, ``Booster.predict`` on a new ``DMatrix``.
A ratio is always to that call of the other library.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from gpuens.datasets import make_higgs_like

from ..common import peers
from ..common.records import Record, add_timing_options, options_of, positive
from ..common.timing import compare, interleaved
from .fit import settings_for

TRAINING_ROWS = 200_000
ALL = (peers.OURS, "XGBoost", "LightGBM", "HistGB")
BATCH_SECONDS = 0.05
"""Calls on one row are timed in batches of about this length."""


def models_of(libraries: Sequence[str], n_trees: int, options: argparse.Namespace) -> Any:
    """Fitted estimators of 63 leaves a tree."""
    X, y = make_higgs_like(min(options.rows, TRAINING_ROWS), random_state=0)
    shared = peers.Settings(n_trees=n_trees, threads=options.threads)
    return {
        library: peers.estimator(library, "binary", settings_for(library, shared)).fit(X, y)
        for library in libraries
    }


def calls_of(models: dict[str, Any], X: np.ndarray, dmatrix: bool) -> dict[str, Callable[[], Any]]:
    """What is timed, by name."""
    calls: dict[str, Callable[[], Any]] = {}
    for library, model in models.items():
        calls[library] = lambda model=model: model.predict_proba(X)
    if "XGBoost" in models:
        booster = models["XGBoost"].get_booster()
        calls["XGBoost inplace_predict"] = lambda: booster.inplace_predict(X)
        if dmatrix:
            from xgboost import DMatrix

            calls["XGBoost Booster.predict"] = lambda: booster.predict(DMatrix(X))
    return calls


def measure_table(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds for a table of ``--rows`` rows."""
    models = models_of(peers.installed(ALL), options.trees, options)
    X, _ = make_higgs_like(options.rows, random_state=1)
    calls = calls_of(models, X, dmatrix=False)
    for model in models.values():
        model.predict_proba(X[:2000])
    seconds, _ = interleaved(calls, options.repeats, options.threads, options.budget)
    shape = {"n_rows": options.rows, "n_features": X.shape[1], "n_trees": options.trees}
    return {**shape, "libraries": compare(seconds, peers.OURS)}


def microseconds(call: Callable[[], Any], n_calls: int) -> float:
    """Mean time of a call in one batch."""
    start = time.perf_counter()
    for _ in range(n_calls):
        call()
    return (time.perf_counter() - start) / n_calls * 1e6


def measure_row(options: argparse.Namespace) -> dict[str, Any]:
    """Microseconds for one row: medians over batches of calls that take turns."""
    n_trees = 4 * options.trees
    models = models_of(peers.installed(ALL), n_trees, options)
    X, _ = make_higgs_like(options.batches, random_state=1)
    batches: dict[str, list[float]] = {}
    with threadpool_limits(options.threads):
        for i in range(options.batches):
            for name, call in calls_of(models, X[i : i + 1], dmatrix=True).items():
                once = microseconds(call, 1)  # also warms up
                n_calls = min(500, max(1, int(BATCH_SECONDS * 1e6 / once)))
                batches.setdefault(name, []).append(microseconds(call, n_calls))
    table = compare(batches, peers.OURS)
    for row in table.values():
        row["microseconds"] = row.pop("seconds")
    return {"n_rows": 1, "n_features": X.shape[1], "n_trees": n_trees, "libraries": table}


def show(results: dict[str, Any]) -> None:
    for name, unit in (("table", "s"), ("row", "µs")):
        part = results[name]
        print(f"{part['n_rows']} rows, {part['n_trees']} trees")
        for library, row in part["libraries"].items():
            ratio = f"gpuens ÷ it {row['ratio']:.3f}" if "ratio" in row else ""
            print(f"  {library:<26}{row['median']:>12.3f} {unit}  {ratio}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = options_of("predict", __doc__)
    add_timing_options(parser, repeats=5)
    parser.add_argument("--rows", type=positive, default=1_000_000, help="rows of the table")
    parser.add_argument(
        "--trees",
        type=positive,
        default=100,
        help="trees for the table; four times as many for a row",
    )
    parser.add_argument("--batches", type=positive, default=30, help="batches of calls on a row")
    options = parser.parse_args(argv)
    peers.silence()
    record = Record("predict", options)
    results = {"table": measure_table(options), "row": measure_row(options)}
    show(results)
    record.write(results)
    return 0
