"""Isolation forests and quantile forests in the simulator: the CPU's models and predictions."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens import IsolationForest, QuantileForestRegressor

NAN = float("nan")
N = 40


def table() -> np.ndarray:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3)).astype(np.float32)
    X[:, 1] = rng.integers(0, 5, N)
    X[rng.random(N) < 0.2, 0] = NAN
    return X


@pytest.mark.parametrize("settings", [{}, {"max_features": 2}], ids=str)
def test_isolation_forest(settings):
    X = table()
    settings = {"n_estimators": 2, "max_samples": 10, "contamination": 0.2, **settings}
    cpu, gpu = (IsolationForest(**settings, device=device).fit(X) for device in ("cpu", "cuda"))
    assert gpu.forest_.fingerprint() == cpu.forest_.fingerprint()
    assert gpu.offset_ == cpu.offset_
    np.testing.assert_array_equal(gpu.score_samples(X), cpu.score_samples(X), strict=True)
    np.testing.assert_array_equal(gpu.predict(X), cpu.predict(X), strict=True)


def test_quantile_forest():
    X = table()
    y = np.where(np.isnan(X[:, 0]), 1.0, X[:, 0]) + X[:, 1] * (X[:, 2] > 0)
    settings = {"n_estimators": 2, "min_samples_leaf": 5}
    cpu, gpu = (
        QuantileForestRegressor(**settings, device=device).fit(X, y) for device in ("cpu", "cuda")
    )
    for name in ("values", "begin", "segment", "entries"):
        kept = getattr(gpu._targets, name)
        np.testing.assert_array_equal(kept, getattr(cpu._targets, name), strict=True)
    expected = cpu.predict(X[:9], [0.1, 0.5, 1.0])
    np.testing.assert_array_equal(gpu.predict(X[:9], [0.1, 0.5, 1.0]), expected, strict=True)
