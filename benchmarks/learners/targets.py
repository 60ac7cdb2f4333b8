"""Regressions of several targets, a tree a round for all of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gpuens import GradientBoostingRegressor

from ..common.peers import OURS, measure_each
from ..common.program import Options, Results
from .values import Values, add, cpu_seconds, present

EACH = "gpuens, a tree each"
N_TARGETS, N_FEATURES, TEST_ROWS, SEEDS = 16, 20, 5000, 5
ROWS = {"3,000 rows": 3000, "20,000 rows": 20_000}


def generated(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return targets that mix six functions of the features, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, N_FEATURES)).astype(np.float32)
    parts = [
        np.sin(X[:, 0]), X[:, 1] * X[:, 2], X[:, 3] ** 2, np.abs(X[:, 4]), X[:, 5] > 0,
        X[:, 6] * (X[:, 7] > 0),
    ]  # fmt: skip
    mixed = np.stack(parts, axis=1) @ rng.normal(size=(len(parts), N_TARGETS))
    return X, mixed + rng.normal(scale=0.7, size=mixed.shape)


def learners_of(options: Options) -> dict[str, Callable[[], Any]]:
    """Return what builds each library's model: rate 0.1, other settings at their defaults."""

    def ours(strategy: str) -> Callable[[], Any]:
        return lambda: GradientBoostingRegressor(
            n_estimators=options.rounds, learning_rate=0.1, multi_strategy=strategy,
            n_jobs=options.threads,
        )  # fmt: skip

    def xgboost() -> Any:
        from xgboost import XGBRegressor

        return XGBRegressor(
            n_estimators=options.rounds, learning_rate=0.1, multi_strategy="multi_output_tree",
            n_jobs=options.threads,
        )  # fmt: skip

    strategies = {OURS: ours("multi_output_tree"), EACH: ours("one_output_per_tree")}
    return present({**strategies, "XGBoost": xgboost})


def targets(options: Options) -> Results:
    """Measure the root of the mean squared error over all targets of fresh rows, and fits."""

    def of_rows(name: str) -> Values:
        n, values = ROWS[name], Values()
        for seed in range(SEEDS):
            X, y = generated(n + TEST_ROWS, seed)
            for library, make in learners_of(options).items():
                make().fit(X[:200], y[:200])  # compiled or loaded off the clock
                taken, model = cpu_seconds(partial(make().fit, X[:n], y[:n]))
                error = np.sqrt(np.mean((model.predict(X[n:]) - y[n:]) ** 2))
                add(values, library, error=error, cpu=taken)
        return values

    return measure_each(ROWS, of_rows)
