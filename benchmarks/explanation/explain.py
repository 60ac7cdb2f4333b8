"""CPU time of Shapley values, beside XGBoost's own and shap's, of the same trees.

XGBoost trains; its trees are imported, so that all libraries explain the same model. Times are CPU
seconds of the whole process, all threads together, because the libraries thread differently.
Additivity is the largest difference between a prediction and the sum that explains it, relative to
the largest prediction.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from gpuens import TreeExplainer, from_xgboost

from ..common.goals import Goal, measured
from ..common.markdown import medians
from ..common.peers import OURS, GapError
from ..common.program import Content, Options, Program, Results, timing
from ..common.timing import compare

XGBOOST, SHAP = "XGBoost", "shap"
LABELS = {"values": "values", "interactions": "interactions", "background": "against a background"}


def values(options: Options) -> Results:
    """Measure path-dependent values beside XGBoost's."""
    xgboost, booster, X = _model(options.trees, options)
    X = X[: options.rows]
    ours, table = from_xgboost(booster), xgboost.DMatrix(X)
    explainer = TreeExplainer(ours)
    actions = {
        OURS: partial(explainer.shap_values, X),
        XGBOOST: partial(booster.predict, table, pred_contribs=True),
    }
    libraries, found = _cpu_turns(actions, options)
    raw = np.asarray(ours.predict(X, output_margin=True), np.float64)
    exact = ours.forest_.raw_predict(X)[0]
    totals = {OURS: (found[OURS].sum(axis=1) + explainer.expected_value, exact),
              XGBOOST: (found[XGBOOST].astype(np.float64).sum(axis=1), raw)}  # fmt: skip
    additivity = {
        name: float(np.abs(total - wanted).max() / np.abs(wanted).max())
        for name, (total, wanted) in totals.items()
    }
    difference = np.abs(found[OURS] - found[XGBOOST][:, :-1]).max() / np.abs(found[OURS]).max()
    return {"libraries": libraries, "additivity": additivity, "difference": float(difference),
            "n_rows": len(X), "n_trees": options.trees}  # fmt: skip


def interactions(options: Options) -> Results:
    """Measure interactions beside XGBoost's, on fewer trees and rows: it takes minutes."""
    xgboost, booster, X = _model(options.pair_trees, options)
    X = X[: options.pair_rows]
    table = xgboost.DMatrix(X)
    actions = {
        OURS: partial(TreeExplainer(from_xgboost(booster)).shap_interaction_values, X),
        XGBOOST: partial(booster.predict, table, pred_interactions=True),
    }
    libraries, found = _cpu_turns(actions, options)
    theirs = found[XGBOOST][:, :-1, :-1]
    difference = np.abs(found[OURS] - theirs).max() / np.abs(found[OURS]).max()
    return {"libraries": libraries, "difference": float(difference), "n_rows": len(X),
            "n_trees": options.pair_trees}  # fmt: skip


def background(options: Options) -> Results:
    """Measure interventional values beside shap's."""
    if find_spec("shap") is None:
        raise GapError("shap is not installed")
    _, booster, X = _model(options.trees, options)
    rows, others = X[: options.background_rows], X[-options.background :]
    explainer = TreeExplainer(from_xgboost(booster), others)
    theirs = import_module("shap").TreeExplainer(
        explainer.to_shap(), others.astype(np.float64), feature_perturbation="interventional"
    )
    wide = rows.astype(np.float64)
    actions = {
        OURS: partial(explainer.shap_values, rows),
        SHAP: partial(theirs.shap_values, wide, check_additivity=False),
    }
    libraries, found = _cpu_turns(actions, options)
    difference = np.abs(found[OURS] - found[SHAP]).max() / np.abs(found[OURS]).max()
    return {"libraries": libraries, "difference": float(difference), "n_rows": len(rows),
            "n_trees": options.trees, "n_background": len(others)}  # fmt: skip


def _model(n_trees: int, options: Options) -> tuple[Any, Any, np.ndarray]:
    """Return XGBoost, a booster of it and a table of nine features."""
    if find_spec("xgboost") is None:
        raise GapError("xgboost is not installed")
    xgboost = import_module("xgboost")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(max(options.training_rows, options.rows), 9)).astype(np.float32)
    y = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + X[:, 3] * X[:, 4] * X[:, 5]
    y += 0.3 * rng.normal(size=len(y))
    settings = {"max_depth": options.depth, "learning_rate": 0.05, "nthread": options.threads}
    table = xgboost.DMatrix(X, y)
    return xgboost, xgboost.train(settings, table, num_boost_round=n_trees), X


def _cpu_turns(
    actions: dict[str, Callable[[], Any]], options: Options
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run actions in turn; return ``timing.compare`` of their CPU seconds, and the results."""
    actions[OURS]()  # compiles
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    found = {}
    for _ in range(options.repeats):
        for name, action in actions.items():
            gc.collect()
            start = time.process_time()
            found[name] = action()
            seconds[name].append(time.process_time() - start)
            print(f"  {name:<10} {seconds[name][-1]:>10.3f} s", flush=True)
    return compare(seconds, OURS), found


def show(content: Content) -> Iterator[str]:
    """Yield CPU times."""
    results = measured(content["results"])
    rows = {
        f"{LABELS[name]}: {part['n_trees']} trees, {part['n_rows']} rows": part["libraries"]
        for name, part in results.items()
        if "libraries" in part
    }
    if rows:
        yield medians("CPU seconds", rows)


def goals(content: Content) -> Iterator[Goal]:
    results = measured(content["results"])
    for name, peer, limit in (
        ("values", XGBOOST, 0.15), ("interactions", XGBOOST, 0.05), ("background", SHAP, 0.1),
    ):  # fmt: skip
        libraries = results.get(name, {}).get("libraries", {})
        if peer in libraries:
            what = f"the CPU time of Shapley {LABELS[name]}, relative to {peer}'s"
            yield Goal(what, limit, libraries[peer]["ratio"])
    if "additivity" in results.get("values", {}):
        what = "the largest relative error of the sum of Shapley values"
        yield Goal(what, 1e-12, results["values"]["additivity"][OURS])


PROGRAM = Program(
    "explain", __doc__,
    {"values": values, "interactions": interactions, "background": background},
    {
        **timing(3),
        "training_rows": (20_000, "rows that the model is trained on"),
        "trees": (1000, "trees of the model"),
        "depth": (8, "largest depth of the trees"),
        "rows": (1000, "rows to explain"),
        "pair_trees": (100, "trees of the model whose interactions are explained"),
        "pair_rows": (300, "rows whose interactions are explained"),
        "background": (100, "background rows"),
        "background_rows": (100, "rows to explain against the background"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
