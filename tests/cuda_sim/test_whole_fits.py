"""Whole fits with ``device="cuda"`` in the simulator: the model is the CPU's, bit for bit.

One of each kind of growth, to see that the simulator, which users may debug with, runs the project.
Everything else runs as compiled PTX (``tests/ptx``, ``tests/gpu``, ``tests/kernels``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuens import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    IsolationForest,
    ObliqueRandomForestClassifier,
    RandomForestClassifier,
)

N = 40


def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features with ties and missing values, a target that depends on both, weights."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3)).astype(np.float32)
    X[:, 1] = rng.integers(0, 5, N)
    X[rng.random(N) < 0.2, 0] = np.nan
    y = np.where(np.isnan(X[:, 0]), 1.0, X[:, 0]) + X[:, 1] * (X[:, 2] > 0)
    return X, y, rng.lognormal(size=N) * (np.arange(N) % 6 > 0)


BOOSTED = {"n_estimators": 2, "max_leaf_nodes": 3, "max_bins": 16, "min_samples_leaf": 3}
CASES: dict[str, tuple[type, dict[str, Any]]] = {
    "boosting": (GradientBoostingRegressor, BOOSTED | {"monotonic_cst": [0, 0, 1]}),
    "boosting, classes": (
        GradientBoostingClassifier, BOOSTED | {"subsample": 0.7, "categorical_features": [1]},
    ),
    "forest": (RandomForestClassifier, {"n_estimators": 2, "max_depth": 2, "max_bins": 8}),
    "oblique forest": (
        ObliqueRandomForestClassifier,
        {"n_estimators": 2, "max_depth": 2, "feature_combinations": 2, "n_projections": 6},
    ),
    "isolation forest": (
        IsolationForest, {"n_estimators": 2, "max_samples": 10, "bootstrap": True},
    ),
}  # fmt: skip


@pytest.mark.parametrize("cls, settings", CASES.values(), ids=CASES)
def test_the_model_is_that_of_the_cpu(cls, settings):
    X, y, weight = table()
    if cls is not GradientBoostingRegressor:
        y = (y > 1).astype(int)
    cpu, gpu = (cls(**settings, device=device).fit(X, y, weight) for device in ("cpu", "cuda"))
    assert cpu.forest_.n_leaves.min() > 2
    assert gpu.forest_.fingerprint() == cpu.forest_.fingerprint()
    np.testing.assert_array_equal(gpu.predict(X[:5]), cpu.predict(X[:5]), strict=True)
