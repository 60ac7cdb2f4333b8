"""Predicted distributions beside NGBoost's, and the coverage of conformal intervals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

import gpuens
from gpuens.conformal.regressor import ConformalRegressor

from ..common.peers import OURS, measure_each
from ..common.program import Options, Results
from ..common.tables import load
from .values import Values, add, cpu_seconds, present

NGBOOST = "NGBoost"
NUMBERS = ("bike", "california_housing", "ames")
PATIENCE = 50
COVERAGE, ROWS = 0.9, 1000
VARIED = {"cv+, 5 folds": 5, "bag, 50 trees": 50}
"""The folds, or the trees, of cases that have fewer than by default."""
CASES = ("split", "quantile", "cv+", "bag", *VARIED)


def normal_of_ours(rows: list[np.ndarray], rounds: int) -> Callable[[np.ndarray], Any]:
    X, X_stop, y, y_stop = rows
    return gpuens.GradientBoostingRegressor(
        "normal", n_estimators=rounds, learning_rate=0.02, max_depth=3, max_leaf_nodes=None,
        min_samples_leaf=1, early_stopping=True, n_iter_no_change=PATIENCE, tol=0.0, n_jobs=1,
        device="cpu",
    ).fit(X, y, eval_set=(X_stop, y_stop)).predict_dist  # fmt: skip


def normal_of_ngboost(rows: list[np.ndarray], rounds: int) -> Callable[[np.ndarray], Any]:
    from ngboost import NGBRegressor

    X, X_stop, y, y_stop = rows
    model = NGBRegressor(n_estimators=rounds, learning_rate=0.02, verbose=False, random_state=0)
    return model.fit(X, y, X_val=X_stop, Y_val=y_stop, early_stopping_rounds=PATIENCE).pred_dist


def distributions(options: Options) -> Results:
    """Measure likelihoods of fresh rows, and fits with one thread."""

    def of_table(name: str) -> Values:
        X, y = numbers_of(options, name)
        values: Values = {}
        normal_of_ours([X[:200], X[200:300], y[:200], y[200:300]], 2)
        fits = present({OURS: normal_of_ours, NGBOOST: normal_of_ngboost})
        for seed in range(options.splits):
            X_all, X_test, y_all, y_test = train_test_split(X, y, test_size=0.25, random_state=seed)
            rows = train_test_split(X_all, y_all, test_size=0.2, random_state=seed)
            for library, fit in fits.items():
                taken, predict = cpu_seconds(partial(fit, rows, 5 * options.rounds))
                nll = -float(np.mean(predict(X_test).logpdf(y_test)))
                add(values, library, nll=nll, cpu=taken)
        return values

    return measure_each(NUMBERS, of_table)


def numbers_of(options: Options, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return X without missing values, which NGBoost does not take, and y."""
    table = load(options.data, name)
    return np.nan_to_num(table["X"], nan=-1.0), table["y"]


def with_intervals(case: str, options: Options, seed: int) -> ConformalRegressor:
    """Return a regressor with intervals."""
    method = case.partition(",")[0]
    kind: Any = (
        gpuens.RandomForestRegressor if method == "bag" else gpuens.GradientBoostingRegressor
    )
    own = kind(n_estimators=100, n_jobs=options.threads, random_state=seed, device="cpu")
    model = ConformalRegressor(own, method=method, random_state=seed)
    if case in VARIED:
        name = "estimator__n_estimators" if method == "bag" else "cv"
        model.set_params(**{name: VARIED[case]})
    return model


def intervals(options: Options) -> Results:
    """Measure the coverage of conformal intervals on California housing."""
    X, y = numbers_of(options, "california_housing")

    def of_case(case: str) -> dict[str, float]:
        inside, widths = [], []
        for seed in range(options.draws):
            train, test = np.random.default_rng(seed).permutation(len(y))[: 2 * ROWS].reshape(2, -1)
            model = with_intervals(case, options, seed).fit(X[train], y[train])
            low, high = np.asarray(model.predict_interval(X[test], COVERAGE)).T
            inside.append(float(np.mean((low <= y[test]) & (y[test] <= high))))
            widths.append(float(np.mean(high - low)))
        return {"coverage": fmean(inside), "width": fmean(widths), "spread": float(np.std(inside))}

    return measure_each(CASES, of_case)
