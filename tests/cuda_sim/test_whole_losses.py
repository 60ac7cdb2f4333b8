"""Whole fits of losses in the simulator: the model is the CPU's, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.losses import (
    AbsoluteError,
    CustomLoss,
    Exponential,
    Focal,
    Huber,
    Loss,
    Poisson,
    exp,
    mul,
)

N = 40
SMALL = {"n_estimators": 1, "max_leaf_nodes": 3, "max_bins": 16, "min_samples_leaf": 3}
CASES: dict[str, tuple[Loss, int, dict[str, Any]]] = {
    "absolute": (AbsoluteError(), 0, {"subsample": 0.8}),
    "huber": (Huber(0.7), 0, {"n_estimators": 3}),
    "poisson, line search": (Poisson(), 0, {"line_search": True}),
    "exponential": (Exponential(), 2, {}),
    "focal, three classes": (Focal(1.0), 3, {}),
}


def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3)).astype(np.float32)
    X[rng.random(N) < 0.2, 0] = np.nan
    y = np.round(np.exp(np.nan_to_num(X[:, 0]) + 0.3 * rng.normal(size=N)), 1) + 0.1
    return X, y, rng.lognormal(size=N) * (np.arange(N) % 6 > 0)


def assert_same_as_on_the_cpu(loss: Loss, n_classes: int, settings: dict[str, Any]) -> None:
    X, y, weight = table()
    if n_classes:
        y = np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]))
    cls = GradientBoostingClassifier if n_classes else GradientBoostingRegressor
    data = {"sample_weight": weight, "eval_set": (X[:5], y[:5])}
    cpu, gpu = (
        cls(loss, **SMALL | settings, device=device).fit(X, y, **data) for device in ("cpu", "cuda")
    )
    assert cpu.forest_.n_leaves.min() > 1
    assert gpu.forest_.fingerprint() == cpu.forest_.fingerprint()
    assert gpu.evals_result_ == cpu.evals_result_
    np.testing.assert_array_equal(gpu.predict(X[:5]), cpu.predict(X[:5]), strict=True)


@pytest.mark.parametrize("loss, n_classes, settings", CASES.values(), ids=CASES)
def test_the_model_is_that_of_the_cpu(loss, n_classes, settings):
    assert_same_as_on_the_cpu(loss, n_classes, settings)


class TestCustomLosses:
    @pytest.fixture(autouse=True)
    def launches_are_catalogued(self):
        """What is compiled for a custom loss is in no catalogue."""

    def test_scalar_functions(self):
        def value(y, score):
            return exp(score) - mul(y, score)

        def gradient(y, score):
            return exp(score) - y if y > 0.5 else mul(score, 1e-3)

        def hessian(y, score):
            return exp(score)

        loss = CustomLoss(value, gradient, hessian, inverse_link=exp)
        assert_same_as_on_the_cpu(loss, 0, {"line_search": True})
