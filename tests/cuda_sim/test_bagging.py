"""Samples drawn by the CUDA kernels in the simulator are those of the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from gpuens import BaggingClassifier, BaggingRegressor

N = 60


@pytest.mark.parametrize("settings", [
    {}, {"max_samples": 100}, {"bootstrap": False, "max_samples": 20}, {"oob_score": True},
    {"max_features": 2, "bootstrap_features": True},
])  # fmt: skip
@pytest.mark.parametrize("cls", [BaggingClassifier, BaggingRegressor])
def test_the_bag_is_that_of_the_cpu(cls, settings, rng):
    X = rng.normal(size=(N, 3))
    y = (X[:, 0] > 0).astype(int)
    base = DecisionTreeClassifier() if cls is BaggingClassifier else DecisionTreeRegressor()
    settings = {"n_estimators": 15, **settings}
    cpu, gpu = (cls(base, device=device, **settings).fit(X, y) for device in ("cpu", "cuda"))
    np.testing.assert_array_equal(gpu.estimators_samples_, cpu.estimators_samples_)
    np.testing.assert_array_equal(gpu.predict(X), cpu.predict(X))
    if "oob_score" in settings:
        assert gpu.oob_score_ == cpu.oob_score_
