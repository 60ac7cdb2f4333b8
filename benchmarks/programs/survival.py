"""Survival analysis beside scikit-survival and XGBoost.

quality
    Harrell's concordance on metabric and gbsg2, the mean over repeated folds: gradient boosting
    with the losses of Cox and of accelerated failure times at the same settings, and forests of
    100 trees at each library's defaults.
speed
    Forests fitted to metabric, and to rows that are generated, whose times are whole numbers up to
    200: CPU seconds, the libraries in turn. A ratio divides medians; below 1 gpuens is better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from statistics import fmean, median
from typing import Any

import numpy as np
from sklearn.model_selection import RepeatedKFold

from gpuens import GradientBoostingRegressor, RandomSurvivalForest
from gpuens.survival_metrics import concordance

from ..common import peers
from ..common.goals import Goal, measured
from ..common.markdown import pivot
from ..common.peers import OURS, measure_each
from ..common.program import Content, Options, Program, Results
from ..common.tables import DATA, SURVIVAL, load
from .ranking import cpu_seconds

SKSURV = "scikit-survival"
LARGEST_GAP = 0.005
"""By which concordance may be below that of the best library."""
LARGEST_RATIO = 0.1
RATE, DEPTH, ROWS_OF_LEAF, ROUNDS = 0.05, 3, 10, 100
TREES = 100
GENERATED_TREES = 2
Rows = tuple[np.ndarray, np.ndarray, np.ndarray]
Risk = Callable[[Rows, np.ndarray], np.ndarray]
"""Fits to some rows (X, event, time) and returns the risks of others."""


def ours(loss: str, options: Options, rows: Rows, X: np.ndarray) -> np.ndarray:
    model = GradientBoostingRegressor(
        loss, n_estimators=ROUNDS, learning_rate=RATE, max_depth=DEPTH, max_leaf_nodes=None,
        min_samples_leaf=ROWS_OF_LEAF, n_jobs=options.threads, device="cpu",
    )  # fmt: skip
    risk = model.fit(rows[0], rows[1:]).predict(X)
    return risk if loss == "cox" else -risk


def of_xgboost(objective: str, options: Options, rows: Rows, X: np.ndarray) -> np.ndarray:
    import xgboost

    train, (_, event, time) = xgboost.DMatrix(rows[0]), rows
    if objective == "survival:cox":
        train.set_label(np.where(event, time, -time))
    else:
        train.set_float_info("label_lower_bound", time)
        train.set_float_info("label_upper_bound", np.where(event, time, np.inf))
    settings = {
        "objective": objective, "eta": RATE, "max_depth": DEPTH, "nthread": options.threads,
        "tree_method": "hist",
    }  # fmt: skip
    risk = xgboost.train(settings, train, ROUNDS).predict(xgboost.DMatrix(X))
    return risk if objective == "survival:cox" else -risk


def structured(event: np.ndarray, time: np.ndarray) -> np.ndarray:
    """Return a target of scikit-survival."""
    y = np.empty(time.size, dtype=[("event", "?"), ("time", "f8")])
    y["event"], y["time"] = event, time
    return y


def their_boosting(options: Options, rows: Rows, X: np.ndarray) -> np.ndarray:
    from sksurv.ensemble import GradientBoostingSurvivalAnalysis

    model = GradientBoostingSurvivalAnalysis(
        n_estimators=ROUNDS, learning_rate=RATE, max_depth=DEPTH, min_samples_leaf=ROWS_OF_LEAF,
        random_state=0,
    )  # fmt: skip
    return model.fit(rows[0], structured(*rows[1:])).predict(X)


def forest(n_trees: int, options: Options, seed: int = 0) -> Any:
    return RandomSurvivalForest(
        n_estimators=n_trees, n_jobs=options.threads, random_state=seed, device="cpu"
    )


def their_forest(n_trees: int, options: Options) -> Any:
    from sksurv.ensemble import RandomSurvivalForest as Theirs

    return Theirs(n_estimators=n_trees, n_jobs=options.threads, random_state=0)


def our_risks(options: Options, rows: Rows, X: np.ndarray) -> np.ndarray:
    return forest(TREES, options).fit(rows[0], rows[1:]).predict(X)


def their_risks(options: Options, rows: Rows, X: np.ndarray) -> np.ndarray:
    return their_forest(TREES, options).fit(rows[0], structured(*rows[1:])).predict(X)


def has_sksurv() -> bool:
    if find_spec("sksurv") is None:
        print(f"skipped: {SKSURV} is not installed (pip install scikit-survival)", flush=True)
        return False
    return True


def learners(options: Options) -> dict[str, Risk]:
    """Return what is measured, by kind of model and library."""
    found: dict[str, Risk] = {
        f"Cox, {OURS}": partial(ours, "cox", options),
        f"AFT, {OURS}": partial(ours, "aft", options),
        f"forest, {OURS}": partial(our_risks, options),
    }
    if peers.installed(["XGBoost"]):
        found["Cox, XGBoost"] = partial(of_xgboost, "survival:cox", options)
        found["AFT, XGBoost"] = partial(of_xgboost, "survival:aft", options)
    if has_sksurv():
        found[f"Cox, {SKSURV}"] = partial(their_boosting, options)
        found[f"forest, {SKSURV}"] = partial(their_risks, options)
    return found


def read(options: Options, name: str) -> Rows:
    arrays = load(options.data, name)
    return arrays["X"].astype(np.float32), arrays["event"].astype(bool), arrays["y"]


def quality(options: Options) -> Results:
    """Measure the concordance on folds."""

    def of_table(name: str) -> dict[str, float]:
        X, event, time = read(options, name)
        folds = list(RepeatedKFold(n_splits=5, n_repeats=options.repeats, random_state=0).split(X))
        found = {}
        for what, risk in learners(options).items():
            scores = []
            for train, test in folds:
                risks = risk((X[train], event[train], time[train]), X[test])
                scores.append(concordance((event[test], time[test]), np.float64(risks)))
            found[what] = fmean(scores)
            print(f"  {name}: {what:<26} {found[what]:.4f}", flush=True)
        return found

    return measure_each(SURVIVAL, of_table)


def generated(n_rows: int) -> Rows:
    """Return rows of ten features with whole times up to 200, about a third of them censored."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 10)).astype(np.float32)
    time = 40.0 * np.exp(0.5 * X[:, 0] + 0.3 * np.abs(X[:, 1])) * rng.weibull(1.5, n_rows)
    censoring = rng.exponential(150.0, n_rows)
    return X, time <= censoring, np.clip(np.ceil(np.minimum(time, censoring)), 1.0, 200.0)


def speed(options: Options) -> Results:
    """Measure the CPU time of fits of forests."""

    def of_rows(name: str) -> dict[str, Any]:
        is_generated = name == "generated"
        X, event, time = generated(options.rows) if is_generated else read(options, name)
        n_trees = GENERATED_TREES if is_generated else TREES
        forest(2, options).fit(X[:200], (event[:200], time[:200]))
        seconds: dict[str, list[float]] = {}
        for seed in range(options.repeats):
            model = forest(n_trees, options, seed)
            fits: dict[str, Any] = {OURS: partial(model.fit, X, (event, time))}
            if has_sksurv():
                their = their_forest(n_trees, options)
                fits[SKSURV] = partial(their.fit, X, structured(event, time))
            for library, fit in fits.items():
                seconds.setdefault(library, []).append(cpu_seconds(fit))
                print(f"  {name}: {library:<16} {seconds[library][-1]:.2f} s", flush=True)
        found: dict[str, Any] = {"rows": int(time.size), "trees": n_trees, "seconds": seconds}
        if SKSURV in seconds:
            found["ratio"] = median(seconds[OURS]) / median(seconds[SKSURV])
        return found

    return measure_each(("metabric", "generated"), of_rows)


def show(content: Content) -> Iterator[str]:
    """Yield concordance and times of each library."""
    results = measured(content["results"])
    tables = measured(results.get("quality", {}))
    whats = sorted({what for found in tables.values() for what in found})
    yield pivot("concordance on folds", {
        what: {name: f"{found[what]:.4f}" for name, found in tables.items() if what in found}
        for what in whats
    })  # fmt: skip
    yield pivot("CPU seconds to fit a survival forest", {
        f"{found['rows']:,} rows, {found['trees']} trees": {
            library: f"{median(seconds):.2f}" for library, seconds in found["seconds"].items()
        }
        | ({"gpuens ÷": f"{found['ratio']:.4f}"} if "ratio" in found else {})
        for found in measured(results.get("speed", {})).values()
    })  # fmt: skip


def goals(content: Content) -> Iterator[Goal]:
    results = measured(content["results"])
    for name, found in measured(results.get("quality", {})).items():
        for kind in ("Cox", "AFT", "forest"):
            theirs = [
                value for what, value in found.items()
                if what.startswith(f"{kind}, ") and not what.endswith(OURS)
            ]  # fmt: skip
            if theirs:
                gap = max(theirs) - found[f"{kind}, {OURS}"]
                what = f"the concordance of the best {kind} on {name} minus that of gpuens"
                yield Goal(what, LARGEST_GAP, gap)
    for name, found in measured(results.get("speed", {})).items():
        if "ratio" in found:
            what = f"the CPU time to fit a survival forest, {name}, relative to {SKSURV}"
            yield Goal(what, LARGEST_RATIO, found["ratio"])


PROGRAM = Program(
    "survival", __doc__,
    {"quality": quality, "speed": speed},
    {
        "data": (DATA, "folder of the real tables"),
        "rows": (100_000, "rows that are generated"),
        "repeats": (5, "repetitions of the five folds, and of the fits"),
        "threads": (2, "threads"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
