"""Constraints and categories in the simulator: the model is the CPU's, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor

N = 60
SMALL = {"n_estimators": 2, "max_leaf_nodes": 4, "max_bins": 16, "min_samples_leaf": 3}
CASES: dict[str, dict[str, Any]] = {
    "monotone": {"monotonic_cst": [0, 1, -1]},
    "interactions": {"interaction_cst": [{0, 2}, {1}], "monotonic_cst": [0, 0, 1]},
    "categories": {"categorical_features": [0, 1], "cat_smooth": 3.0},
    "categories counted": {"categorical_features": [0], "min_samples_leaf": 14, "cat_smooth": 1.0},
    "more categories than bins": {
        "categorical_features": [0], "max_bins": 5, "max_cat_to_onehot": 2, "subsample": 0.8,
    },
}  # fmt: skip


@pytest.mark.parametrize("settings", CASES.values(), ids=CASES)
@pytest.mark.parametrize("of_classes", [False, True])
def test_the_model_is_that_of_the_cpu(settings, of_classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3)).astype(np.float32)
    X[:, 0] = rng.integers(0, 8, N)
    X[:, 1] = rng.integers(0, 3, N)
    y = (X[:, 0] % 3 == 1) * 2.0 + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=N)
    X[rng.random(N) < 0.1, 0] = np.nan
    cls = GradientBoostingClassifier if of_classes else GradientBoostingRegressor
    y = (y > 1).astype(int) if of_classes else y
    cpu, gpu = (
        cls(**SMALL | settings, device=device).fit(X, y, eval_set=(X[:9], y[:9]))
        for device in ("cpu", "cuda")
    )
    assert cpu.forest_.n_leaves.min() > 1
    assert gpu.forest_.fingerprint() == cpu.forest_.fingerprint()
    assert gpu.evals_result_ == cpu.evals_result_
    np.testing.assert_array_equal(gpu.predict(X[:9]), cpu.predict(X[:9]), strict=True)
