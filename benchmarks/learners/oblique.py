"""Oblique forests beside plain ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import train_test_split

import gpuens
from gpuens.datasets import make_sparse_parity, make_trunk

from ..common.peers import OURS, THEIRS, measure_each
from ..common.program import Options, Results
from ..common.tables import REGRESSION, load
from .values import Values, add, cpu_seconds

PLAIN, BEST = "gpuens, plain", "the best rule"
GENERATED: dict[str, tuple[Callable[..., Any], int, int]] = {
    "parity, 1,000 rows": (make_sparse_parity, 1000, 20),
    "parity, 5,000 rows": (make_sparse_parity, 5000, 20),
    "parity, 10,000 rows": (make_sparse_parity, 10_000, 20),
    "trunk, 100 x 10": (make_trunk, 100, 10),
    "trunk, 1,000 x 10": (make_trunk, 1000, 10),
    "trunk, 100 x 100": (make_trunk, 100, 100),
    "trunk, 1,000 x 100": (make_trunk, 1000, 100),
}
"""Name, and how a table is made: with which function, of how many rows and features."""
CLASSES = ("sonar", "ionosphere", "vehicle", "pima_diabetes")
NUMBERS = ("california_housing", "bike", "ames")
TEST_ROWS, MOST_ROWS, SEEDS = 5000, 8000, 3
TREES = 100


def error_of_best(name: str) -> float:
    """Return the error of the best rule."""
    make, _, n_features = GENERATED[name]
    if make is make_sparse_parity:
        return 0.0
    distance = math.sqrt(sum(1.0 / j for j in range(1, n_features + 1)))
    return 0.5 * math.erfc(distance / math.sqrt(2.0))


def split_of(name: str, options: Options, seed: int) -> list[np.ndarray]:
    """Return X to train on, X to predict, and their targets."""
    if name in GENERATED:
        make, n, n_features = GENERATED[name]
        X, y = make(n + TEST_ROWS, n_features, random_state=seed)
        return [X[:n], X[n:], y[:n], y[n:]]
    arrays = load(options.data, name, MOST_ROWS)
    X, y = np.nan_to_num(arrays["X"], nan=-1.0), arrays["y"]
    stratify = None if name in REGRESSION else y
    return list(train_test_split(X, y, test_size=0.25, random_state=seed, stratify=stratify))


def oblique(options: Options) -> Results:
    """Measure errors and fits of oblique forests, with one thread."""

    def of_table(name: str) -> Values:
        numeric = name in REGRESSION
        kind = "Regressor" if numeric else "Classifier"
        forests = {
            OURS: getattr(gpuens, f"ObliqueRandomForest{kind}"),
            PLAIN: getattr(gpuens, f"RandomForest{kind}"),
            THEIRS: RandomForestRegressor if numeric else RandomForestClassifier,
        }
        values: Values = {}
        for seed in range(SEEDS):
            X, X_test, y, y_test = split_of(name, options, seed)
            for library, make in forests.items():
                model = make(n_estimators=TREES, random_state=seed, n_jobs=1)
                taken, _ = cpu_seconds(partial(model.fit, X, y))
                off = model.predict(X_test) - y_test
                error = np.sqrt(np.mean(off**2)) if numeric else np.mean(off != 0)
                add(values, library, error=error, cpu=taken)
        if name in GENERATED:
            add(values, BEST, error=error_of_best(name))
        return values

    return measure_each((*GENERATED, *CLASSES, *NUMBERS), of_table)
