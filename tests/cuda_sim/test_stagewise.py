"""Forward stagewise modelling with ``device="cuda"`` in the simulator: the models of the CPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from gpuens import DecisionTreeRegressor, StagewiseClassifier, StagewiseRegressor

N = 30
TREE = DecisionTreeRegressor(max_depth=2)


@pytest.fixture(autouse=True)
def threads_take_turns_quickly() -> Iterator[None]:
    """The simulator's threads wait for each other at every barrier."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers, a positive target, and weights, some of them zero."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3)).round(1).astype(np.float32)
    y = np.exp(X[:, 0] + X[:, 1] * (X[:, 2] > 0))
    return X, y, rng.exponential(size=N) * (np.arange(N) % 6 > 0)


CASES: dict[str, tuple[type, int, Any, dict[str, Any]]] = {
    "squared": (StagewiseRegressor, 0, TREE, {"subsample": 0.7}),
    "absolute": (StagewiseRegressor, 0, Ridge(), {"loss": "absolute_error"}),
    "huber": (StagewiseRegressor, 0, [TREE, Ridge()], {"loss": "huber"}),
    "poisson": (StagewiseRegressor, 0, Ridge(), {"loss": "poisson"}),
    "binomial": (StagewiseClassifier, 2, TREE, {}),
    "multinomial": (StagewiseClassifier, 3, [TREE, Ridge()], {"early_stopping": True}),
}


@pytest.mark.parametrize("cls, n_classes, base, settings", CASES.values(), ids=CASES)
def test_the_model_is_that_of_the_cpu(cls, n_classes, base, settings):
    X, y, weight = table()
    if n_classes:
        y = np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]))
    settings = {"n_estimators": 2, **settings}
    cpu, gpu = (cls(base, **settings, device=d).fit(X, y, weight) for d in ("cpu", "cuda"))
    np.testing.assert_array_equal(gpu.estimator_weights_, cpu.estimator_weights_)
    assert gpu.evals_result_ == cpu.evals_result_
    for method in ["predict"] + ["predict_proba", "decision_function"] * (n_classes > 0):
        expected = getattr(cpu, method)(X[:5])
        np.testing.assert_array_equal(getattr(gpu, method)(X[:5]), expected, strict=True)
