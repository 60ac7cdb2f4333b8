"""Survival models beside scikit-survival and XGBoost."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.model_selection import RepeatedKFold

import gpuens
from gpuens.survival_metrics import concordance

from ..common.peers import OURS, measure_each
from ..common.program import Options, Results
from ..common.tables import SURVIVAL, load
from .values import Values, add, cpu_seconds, present

SKSURV = "scikit-survival"
Rows = tuple[np.ndarray, np.ndarray, np.ndarray]
"""X, whether the event happened, and times."""
RATE, DEPTH, ROWS_OF_LEAF = 0.05, 3, 10
LOSSES = {"Cox": ("cox", "survival:cox"), "AFT": ("aft", "survival:aft")}
TREES_OF_LARGE = 2


def our_risks(kind: str, options: Options, rows: Rows, X: np.ndarray) -> np.ndarray:
    if kind == "forest":
        model: Any = our_forest(100, options)
    else:
        model = gpuens.GradientBoostingRegressor(
            LOSSES[kind][0], n_estimators=options.rounds, learning_rate=RATE, max_depth=DEPTH,
            max_leaf_nodes=None, min_samples_leaf=ROWS_OF_LEAF, n_jobs=options.threads,
            device="cpu",
        )  # fmt: skip
    risk = model.fit(rows[0], rows[1:]).predict(X)
    return -risk if kind == "AFT" else risk


def xgboost_risks(kind: str, options: Options, rows: Rows, X: np.ndarray) -> np.ndarray:
    import xgboost

    train, (_, event, times) = xgboost.DMatrix(rows[0]), rows
    if kind == "Cox":
        train.set_label(np.where(event, times, -times))
    else:
        train.set_float_info("label_lower_bound", times)
        train.set_float_info("label_upper_bound", np.where(event, times, np.inf))
    settings = {
        "objective": LOSSES[kind][1], "eta": RATE, "max_depth": DEPTH, "nthread": options.threads,
        "tree_method": "hist",
    }  # fmt: skip
    risk = xgboost.train(settings, train, options.rounds).predict(xgboost.DMatrix(X))
    return -risk if kind == "AFT" else risk


def sksurv_risks(kind: str, options: Options, rows: Rows, X: np.ndarray) -> np.ndarray:
    if kind == "forest":
        model = their_forest(100, options)
    else:
        from sksurv.ensemble import GradientBoostingSurvivalAnalysis

        model = GradientBoostingSurvivalAnalysis(
            n_estimators=options.rounds, learning_rate=RATE, max_depth=DEPTH,
            min_samples_leaf=ROWS_OF_LEAF, random_state=0,
        )  # fmt: skip
    return model.fit(rows[0], structured(rows)).predict(X)


RISKS = {
    "Cox": {OURS: our_risks, "XGBoost": xgboost_risks, SKSURV: sksurv_risks},
    "AFT": {OURS: our_risks, "XGBoost": xgboost_risks},
    "forest": {OURS: our_risks, SKSURV: sksurv_risks},
}


def our_forest(trees: int, options: Options) -> Any:
    return gpuens.RandomSurvivalForest(trees, n_jobs=options.threads, random_state=0, device="cpu")


def their_forest(trees: int, options: Options) -> Any:
    from sksurv.ensemble import RandomSurvivalForest

    return RandomSurvivalForest(trees, n_jobs=options.threads, random_state=0)


def structured(rows: Rows) -> np.ndarray:
    """Return a target of scikit-survival."""
    y = np.empty(len(rows[0]), dtype=[("event", "?"), ("time", "f8")])
    y["event"], y["time"] = rows[1:]
    return y


def survival(options: Options) -> Results:
    """Measure concordance on folds, and fits of forests."""

    def of_table(name: str) -> Values:
        kind, table = name.split(", ")
        if table == "generated":
            return speed_of_forests(generated_times(options.rows), TREES_OF_LARGE, options)
        X, event, times = times_of(options, table)
        values: Values = {}
        split = RepeatedKFold(n_splits=5, n_repeats=options.repeats, random_state=0).split(X)
        for train, test in split:
            for library, risks in present(RISKS[kind]).items():
                found = risks(kind, options, (X[train], event[train], times[train]), X[test])
                value = concordance((event[test], times[test]), np.float64(found))
                add(values, library, concordance=value)
        if kind == "forest" and table == "metabric":
            for library, own in speed_of_forests((X, event, times), 100, options).items():
                values[library] |= own
        return values

    names = [f"{kind}, {table}" for table in SURVIVAL for kind in RISKS]
    return measure_each([*names, "forest, generated"], of_table)


def speed_of_forests(rows: Rows, trees: int, options: Options) -> Values:
    """Return CPU seconds of fits of survival forests."""
    values: Values = {}
    X, event, times = rows
    our_forest(2, options).fit(X[:200], (event[:200], times[:200]))
    for _ in range(options.repeats):
        add(values, OURS, cpu=cpu_seconds(
            partial(our_forest(trees, options).fit, X, (event, times)))[0])  # fmt: skip
        if present({SKSURV: their_forest}):
            fit = partial(their_forest(trees, options).fit, X, structured(rows))
            add(values, SKSURV, cpu=cpu_seconds(fit)[0])
    return values


def times_of(options: Options, name: str) -> Rows:
    arrays = load(options.data, name)
    return arrays["X"].astype(np.float32), arrays["event"].astype(bool), arrays["y"]


def generated_times(n_rows: int) -> Rows:
    """Return rows of ten features with whole times up to 200, about a third of them censored."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 10)).astype(np.float32)
    times = 40.0 * np.exp(0.5 * X[:, 0] + 0.3 * np.abs(X[:, 1])) * rng.weibull(1.5, n_rows)
    censoring = rng.exponential(150.0, n_rows)
    return X, times <= censoring, np.clip(np.ceil(np.minimum(times, censoring)), 1.0, 200.0)
