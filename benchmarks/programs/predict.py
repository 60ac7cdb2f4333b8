"""Time to predict: a table, and a single row.

Probabilities through ``predict_proba``, what a user calls, in every library; for XGBoost also
``Booster.inplace_predict`` and, for a single row, ``Booster.predict`` on a new ``DMatrix``.
A ratio is always to that call of the other library.

With ``--device cuda`` models and tables are in the memory of a GPU, and nvForest takes part: with
XGBoost's model, after its ``optimize()`` for the table.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gpuens.datasets import make_higgs_like

from ..common.goals import Goal, measured
from ..common.markdown import number, pivot
from ..common.peers import OURS, GapError, say_skipped
from ..common.places import DEVICE, Host, place_of
from ..common.program import Content, Options, Program, Results, timing
from ..common.timing import compare, take_turns
from . import fit

TRAINING_ROWS = 200_000
ALL = (OURS, "XGBoost", "LightGBM", "HistGB")
BATCH_SECONDS = 0.05
"""Calls on one row are timed in batches of about this length."""
AT_MOST = {"table": 0.11, "row": 1.0}
CALLS = {"XGBoost": "XGBoost", "XGBoost inplace_predict": "XGBoost's `inplace_predict`"}


NVFOREST = "nvForest"
_kept: dict[Any, dict[str, Any]] = {}
"""The models of this process, which all parts share."""


def models_of(n_trees: int, options: Options, place: Host) -> dict[str, Any]:
    """Return fitted estimators of 63 leaves a tree, or of a depth."""
    n_rows = min(options.rows or TRAINING_ROWS, TRAINING_ROWS)
    workload = fit.Workload(n_rows, make_higgs_like, "binary", n_trees, ALL[1:])
    libraries = fit.contestants(workload, options, place)
    key = *libraries.items(), n_trees, n_rows, options.depth, options.threads
    if key not in _kept:
        settings = fit.settings_of(workload, with_trees(options, n_trees))
        X, y = place.table(make_higgs_like, n_rows, random_state=0)
        _kept[key] = {
            name: fit.trainer(name, device, "binary")(settings).fit(X, y)
            for name, device in libraries.items()
        }
    return _kept[key]


def with_trees(options: Options, n_trees: int) -> Options:
    return Options(**{**vars(options), "trees": n_trees})


def by_nvforest(model: Any, X: Any) -> Callable[[], Any]:
    """Return nvForest's prediction of a table with a model of XGBoost, tuned for that table."""
    if find_spec("nvforest") is None:
        raise GapError("nvForest is not installed (pip install nvforest-cu13)")
    import nvforest

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.ubj"
        model.get_booster().save_model(path)
        loaded = nvforest.load_model(path, model_type="xgboost_ubj", device="gpu")
    return partial(loaded.optimize(data=X).predict_proba, X)


def calls_of(models: dict[str, Any], X: Any, dmatrix: bool) -> dict[str, Callable[[], Any]]:
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


def measure_table(options: Options, n_rows: int = 1_000_000, dtype: str = "float32") -> Results:
    """Measure seconds for a table."""
    place = place_of(options.device)
    models = models_of(options.trees, options, place)
    X, _ = place.table(make_higgs_like, options.rows or n_rows, random_state=1)
    X = X.astype(dtype)
    calls, gaps = calls_of(models, X, dmatrix=False), []
    if place.others == "cuda" and "XGBoost" in models:
        try:
            calls[NVFOREST] = by_nvforest(models["XGBoost"], X)
        except Exception as error:
            gaps.append(say_skipped(GapError(f"{NVFOREST}: {error}")))
    calls = {name: place.waiting(call) for name, call in calls.items()}
    for call in calls.values():
        call()  # layouts are made at the first call
    libraries, _ = take_turns(calls, options)
    shape = {"n_rows": X.shape[0], "n_features": X.shape[1], "n_trees": options.trees}
    return {**shape, "libraries": libraries, "gaps": gaps}


def microseconds(call: Callable[[], Any], n_calls: int) -> float:
    """Return the mean time of a call in one batch."""
    start = time.perf_counter()
    for _ in range(n_calls):
        call()
    return (time.perf_counter() - start) / n_calls * 1e6


def measure_row(options: Options) -> Results:
    """Measure microseconds for one row: medians over batches of calls that take turns."""
    place = place_of(options.device)
    n_trees = 4 * options.trees
    models = models_of(n_trees, options, place)
    X, _ = place.table(make_higgs_like, options.batches, random_state=1)
    batches: dict[str, list[float]] = {}
    for i in range(options.batches):
        for name, action in calls_of(models, X[i : i + 1], dmatrix=True).items():
            call = place.waiting(action)
            once = microseconds(call, 1)  # also warms up
            n_calls = min(500, max(1, int(BATCH_SECONDS * 1e6 / once)))
            batches.setdefault(name, []).append(microseconds(call, n_calls))
    shape = {"n_rows": 1, "n_features": X.shape[1], "n_trees": n_trees}
    return {**shape, "libraries": compare(batches, OURS)}


def rows_in(part: Results) -> str:
    return "one row" if part["n_rows"] == 1 else f"{part['n_rows']:,} rows"


def show(content: Content) -> Iterator[str]:
    """Yield the time of a table in seconds and of one row in microseconds."""
    yield pivot("median time to predict", {
        f"{rows_in(part)}, {part['n_trees']} trees": {
            library: number(row["median"], "µs" if part["n_rows"] == 1 else "s")
            for library, row in part["libraries"].items()
        }
        for part in measured(content["results"]).values()
    })  # fmt: skip


def goals(content: Content) -> Iterator[Goal]:
    if content["settings"].get("device") == "cuda":
        return  # ``gpu_check`` has them
    for name, part in measured(content["results"]).items():
        for call, text in CALLS.items():
            if call in part["libraries"]:
                shape = f"{rows_in(part)}, {part['n_trees']} trees"
                what = f"the time to predict {shape}, relative to {text}"
                limit = AT_MOST.get(name, AT_MOST["table"])
                yield Goal(what, limit, part["libraries"][call]["ratio"])


PROGRAM = Program(
    "predict", __doc__, {"table": measure_table, "row": measure_row},
    {
        **timing(5),
        **DEVICE,
        "depth": (None, "depth of the trees instead of 63 leaves"),
        "rows": (None, "rows of every table instead of its own, 1,000,000 of `table`"),
        "trees": (100, "trees for the table; four times as many for a row"),
        "batches": (30, "batches of calls on a row"),
    },
    show, goals,
    rare={
        "100 rows": partial(measure_table, n_rows=100),
        "float64": partial(measure_table, dtype="float64"),
        "10k rows": partial(measure_table, n_rows=10_000),
        "10M rows": partial(measure_table, n_rows=10_000_000),
    },
)  # fmt: skip
main = PROGRAM.main
