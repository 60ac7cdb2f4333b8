"""Predicted distributions beside NGBoost's, and the coverage of conformal intervals.

quality
    The mean negative log-likelihood of normal distributions on held-out quarters. Both libraries
    have trees of depth 3, one row a leaf at least, the same rate and at most the same rounds, and
    stop early by the same fifth of the training rows. NGBoost multiplies each step by what its line
    search finds (1 or 2, as a rule), gpuens those of the mean by 2. ``mixture`` is generated: 1,030
    rows of eight features like those of the concrete table of UCI, whose strength follows Abrams'
    law.
    The CPU seconds of the fits are measured, too, both with one thread.
coverage
    The share of the targets within intervals of 90 %, the mean over splits of california_housing,
    by method of ``ConformalRegressor`` around regressors at their defaults: 1,000 rows to train on,
    1,000 to count. With fewer folds, and fewer trees of a bag, too: the goals are of the
    defaults.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from statistics import fmean, median
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from gpuens import GradientBoostingRegressor, RandomForestRegressor
from gpuens.conformal import ConformalRegressor

from ..common.goals import Goal, measured
from ..common.markdown import pivot
from ..common.peers import OURS, measure_each
from ..common.program import Content, Options, Program, Results
from ..common.tables import DATA, load
from ..programs.ranking import cpu_seconds

NGBOOST = "NGBoost"
TABLES = ("bike", "california_housing", "ames", "mixture")
RATE, DEPTH, PATIENCE = 0.02, 3, 50
LARGEST_RATIO = 0.1
COVERAGE, TOLERANCE = 0.9, 0.01
ROWS = 1000
"""To train on, and to count, in each split."""
VARIED = {"cv+, 5 folds": 5, "bag, 50 trees": 50}
"""The folds, or the trees, of cases that have fewer than by default."""
CASES = ("split", "quantile", "cv+", "bag", *VARIED)


def mixture(n_rows: int = 1030) -> tuple[np.ndarray, np.ndarray]:
    """Return mixtures (kg of cement, slag, ash, water, plasticiser, gravel, sand; days of age) and
    strengths: Abrams' law with the age's logarithm, and noise that falls with age."""
    rng = np.random.default_rng(0)
    cement, water = rng.uniform(100, 540, n_rows), rng.uniform(122, 247, n_rows)
    slag = rng.uniform(0, 360, n_rows) * (rng.random(n_rows) < 0.55)
    ash = rng.uniform(0, 200, n_rows) * (rng.random(n_rows) < 0.45)
    plasticiser = rng.uniform(0, 32, n_rows) * (rng.random(n_rows) < 0.6)
    gravel, sand = rng.uniform(801, 1145, n_rows), rng.uniform(594, 992, n_rows)
    days = rng.choice([3, 7, 14, 28, 56, 90, 180, 365], n_rows)
    binder = cement + 0.8 * slag + 0.5 * ash
    strength = 15.0 * (binder / water) ** 1.1 * np.log1p(days) / np.log(29.0)
    strength *= 1.0 + 0.01 * plasticiser
    spread = 0.08 * (1.0 + (days < 10))
    y = strength * np.exp(spread * rng.normal(size=n_rows)) + 2.0 * rng.normal(size=n_rows)
    X = np.column_stack([cement, slag, ash, water, plasticiser, gravel, sand, days])
    return X.astype(np.float32), y


def read(options: Options, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return X without missing values, which NGBoost does not take, and y."""
    if name == "mixture":
        return mixture()
    table = load(options.data, name)
    return np.nan_to_num(table["X"], nan=-1.0), table["y"].astype(np.float64)


def fit_ours(options: Options, rows: list[np.ndarray]) -> tuple[Any, int]:
    X, X_stop, y, y_stop = rows
    model = GradientBoostingRegressor(
        "normal", n_estimators=options.rounds, learning_rate=RATE, max_depth=DEPTH,
        max_leaf_nodes=None, min_samples_leaf=1, early_stopping=True, n_iter_no_change=PATIENCE,
        tol=0.0, n_jobs=1, random_state=0, device="cpu",
    ).fit(X, y, eval_set=(X_stop, y_stop))  # fmt: skip
    return model.predict_dist, model.forest_.n_trees // 2


def fit_theirs(options: Options, rows: list[np.ndarray]) -> tuple[Any, int]:
    from ngboost import NGBRegressor

    X, X_stop, y, y_stop = rows
    model = NGBRegressor(
        n_estimators=options.rounds, learning_rate=RATE, verbose=False, random_state=0
    ).fit(X, y, X_val=X_stop, Y_val=y_stop, early_stopping_rounds=PATIENCE)
    return model.pred_dist, len(model.scalings)


def libraries() -> dict[str, Any]:
    found = {OURS: fit_ours}
    if find_spec("ngboost") is None:
        print(f"skipped: {NGBOOST} is not installed (pip install ngboost)", flush=True)
    else:
        found[NGBOOST] = fit_theirs
    return found


def quality(options: Options) -> Results:
    """Measure the negative log-likelihood of fresh rows, and the CPU time of fits."""

    def of_table(name: str) -> dict[str, Any]:
        X, y = read(options, name)
        found: dict[str, Any] = {}
        for seed in range(options.splits):
            X_all, X_test, y_all, y_test = train_test_split(X, y, test_size=0.25, random_state=seed)
            rows = train_test_split(X_all, y_all, test_size=0.2, random_state=seed)
            for library, fit in libraries().items():
                own = found.setdefault(library, {"nll": [], "seconds": [], "rounds": []})
                kept: list[Any] = []
                run = partial(lambda fit, rows, kept: kept.extend(fit(options, rows)), fit, rows)
                own["seconds"].append(cpu_seconds(partial(run, kept)))
                predict, rounds = kept
                own["nll"].append(-float(np.mean(predict(X_test).logpdf(y_test))))
                own["rounds"].append(rounds)
                print(f"  {name} {seed}: {library:<8}", *(v[-1] for v in own.values()), flush=True)
        return found

    first = read(options, "mixture")
    fit_ours(options, [first[0][:200], first[0][200:300], first[1][:200], first[1][200:300]])
    return measure_each(TABLES, of_table)


def regressor(case: str, options: Options, seed: int) -> ConformalRegressor:
    """Return a regressor with intervals."""
    method = case.partition(",")[0]
    kind: Any = RandomForestRegressor if method == "bag" else GradientBoostingRegressor
    own = kind(n_jobs=options.threads, random_state=seed, device="cpu")
    model = ConformalRegressor(own, method=method, random_state=seed)
    if case in VARIED:
        name = "estimator__n_estimators" if method == "bag" else "cv"
        model.set_params(**{name: VARIED[case]})
    return model


def coverage(options: Options) -> Results:
    """Measure how many targets are within conformal intervals."""
    X, y = read(options, "california_housing")

    def of_case(case: str) -> dict[str, Any]:
        shares, widths = [], []
        for seed in range(options.draws):
            rows = np.random.default_rng(seed).permutation(len(y))[: 2 * ROWS]
            train, test = np.split(rows, 2)
            model = regressor(case, options, seed).fit(X[train], y[train])
            low, high = np.asarray(model.predict_interval(X[test], COVERAGE)).T
            shares.append(float(np.mean((low <= y[test]) & (y[test] <= high))))
            widths.append(float(np.mean(high - low)))
        print(f"  {case}: {fmean(shares):.4f}, width {fmean(widths):.3f}", flush=True)
        return {"coverage": fmean(shares), "width": fmean(widths), "spread": float(np.std(shares))}

    return measure_each(CASES, of_case)


def show(content: Content) -> Iterator[str]:
    """Yield likelihoods, times and coverage."""
    results = measured(content["results"])
    tables = measured(results.get("quality", {}))
    yield pivot("negative log-likelihood", {
        name: {library: f"{fmean(own['nll']):.4f}" for library, own in found.items()}
        | {f"CPU seconds, {library}": f"{median(own['seconds']):.2f}"
           for library, own in found.items()}
        for name, found in tables.items()
    })  # fmt: skip
    yield pivot("intervals of 90 %", {
        method: {
            "coverage": f"{found['coverage']:.4f}", "mean width": f"{found['width']:.3f}",
            "spread over splits": f"{found['spread']:.4f}",
        }
        for method, found in measured(results.get("coverage", {})).items()
    })  # fmt: skip


def goals(content: Content) -> Iterator[Goal]:
    results = measured(content["results"])
    for name, found in measured(results.get("quality", {})).items():
        if NGBOOST in found:
            gap = fmean(found[OURS]["nll"]) - fmean(found[NGBOOST]["nll"])
            what = f"the negative log-likelihood of normal distributions on {name} minus NGBoost's"
            yield Goal(what, 0.0, gap)
            ratio = median(found[OURS]["seconds"]) / median(found[NGBOOST]["seconds"])
            what = f"the CPU time to fit distributions to {name}, relative to NGBoost"
            yield Goal(what, LARGEST_RATIO, ratio)
    for method, found in measured(results.get("coverage", {})).items():
        if method not in VARIED:
            what = f"the distance of the coverage of conformal intervals ({method}) from 90 %"
            yield Goal(what, TOLERANCE, abs(found["coverage"] - COVERAGE))


PROGRAM = Program(
    "distributions", __doc__,
    {"quality": quality, "coverage": coverage},
    {
        "data": (DATA, "folder of the real tables"),
        "splits": (5, "splits of each table"),
        "rounds": (500, "most rounds of boosting"),
        "draws": (200, "splits that coverage is counted on"),
        "threads": (1, "threads"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
