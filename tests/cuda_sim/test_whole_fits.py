"""Whole fits with ``device="cuda"`` in the simulator: the model is the CPU's, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor

NAN = float("nan")
N = 40


def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features with ties and missing values, a target that depends on both, weights."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3)).astype(np.float32)
    X[:, 1] = rng.integers(0, 5, N)
    X[rng.random(N) < 0.2, 0] = NAN
    y = np.where(np.isnan(X[:, 0]), 1.0, X[:, 0]) + X[:, 1] * (X[:, 2] > 0)
    return X, y, rng.lognormal(size=N) * (np.arange(N) % 6 > 0)


SMALL = {"n_estimators": 1, "max_leaf_nodes": 3, "max_bins": 16, "min_samples_leaf": 3}
CASES: dict[str, tuple[int, bool, dict[str, Any]]] = {
    "regression": (0, True, {"max_leaf_nodes": 4}),
    "binary, subsample": (2, False, {"subsample": 0.7, "n_estimators": 2}),
    "three classes": (3, False, {}),
    "depth-wise, colsample": (
        0, False, {"max_leaf_nodes": None, "max_depth": 2, "colsample_bynode": 0.7},
    ),
    "large leaves": (2, True, {"min_samples_leaf": 7}),
}  # fmt: skip


@pytest.mark.parametrize("n_classes, weighted, settings", CASES.values(), ids=CASES)
def test_the_model_is_that_of_the_cpu(n_classes, weighted, settings):
    X, y, weight = table()
    if n_classes:
        y = np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]))
    cls = GradientBoostingClassifier if n_classes else GradientBoostingRegressor
    data = {"eval_set": (X[:5], y[:5])} | ({"sample_weight": weight} if weighted else {})
    settings = SMALL | settings
    cpu = cls(**settings, device="cpu").fit(X, y, **data)
    gpu = cls(**settings, device="cuda").fit(X, y, **data)
    assert cpu.forest_.n_leaves.min() > 2
    assert gpu.forest_.fingerprint() == cpu.forest_.fingerprint()
    assert gpu.evals_result_ == cpu.evals_result_
    for method in ["predict", "apply"] + ["predict_proba"] * (n_classes > 0):
        expected = getattr(cpu, method)(X[:5])
        np.testing.assert_array_equal(getattr(gpu, method)(X[:5]), expected, strict=True)


def test_strided_and_read_only_arrays():
    X, y, _ = table()
    wide = np.repeat(X, 2, axis=1)[::-1]
    wide.flags.writeable = False
    settings = {"n_estimators": 1, "max_leaf_nodes": 2, "max_bins": 4}
    cpu, gpu = (
        GradientBoostingRegressor(**settings, device=device).fit(wide[:, ::2], y)
        for device in ("cpu", "cuda")
    )
    assert gpu.forest_.fingerprint() == cpu.forest_.fingerprint()


def test_a_model_moves_between_devices():
    X, y, _ = table()
    settings = SMALL | {"n_estimators": 2, "device": "cpu"}
    whole = GradientBoostingRegressor(**settings).fit(X, y)
    model = GradientBoostingRegressor(**settings, warm_start=True)
    for device, n in (("cpu", 1), ("cuda", 2)):
        model.set_params(device=device, n_estimators=n).fit(X, y)
    assert model.forest_.fingerprint() == whole.forest_.fingerprint()
