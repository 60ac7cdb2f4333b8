"""AdaBoost with ``device="cuda"`` in the simulator: the models of the CPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.naive_bayes import GaussianNB

from gpuens import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ThreeLearnerBoostingClassifier,
)

NAN = float("nan")
N = 30


@pytest.fixture(autouse=True)
def threads_take_turns_quickly() -> Iterator[None]:
    """The simulator's threads wait for each other at every barrier."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers with missing values, a target of all, and weights, some of them zero."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3)).round(1).astype(np.float32)
    y = X[:, 0] + X[:, 1] * (X[:, 2] > 0)
    X[rng.random(N) < 0.2, 2] = NAN
    return X, y, rng.exponential(size=N) * (np.arange(N) % 6 > 0)


CASES: dict[str, tuple[type, int, Any, dict[str, Any]]] = {
    "stumps": (AdaBoostClassifier, 2, None, {"max_bins": 8}),
    "trees": (AdaBoostClassifier, 3, DecisionTreeClassifier(max_depth=2), {"learning_rate": 0.7}),
    "linear": (AdaBoostRegressor, 0, DecisionTreeRegressor(max_depth=2), {}),
    "exponential": (AdaBoostRegressor, 0, None, {"loss": "exponential", "max_bins": 8}),
}


@pytest.mark.parametrize("cls, n_classes, tree, settings", CASES.values(), ids=CASES)
def test_the_model_is_that_of_the_cpu(cls, n_classes, tree, settings):
    X, y, weight = table()
    if n_classes:
        y = np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]))
    settings = {"n_estimators": 3, **settings}
    cpu, gpu = (cls(tree, **settings, device=d).fit(X, y, weight) for d in ("cpu", "cuda"))
    assert len(cpu) == 3
    assert gpu.forest_.fingerprint() == cpu.forest_.fingerprint()
    np.testing.assert_array_equal(gpu.estimator_errors_, cpu.estimator_errors_)
    np.testing.assert_array_equal(gpu.estimator_weights_, cpu.estimator_weights_)
    for method in ["predict"] + ["predict_proba", "decision_function"] * (n_classes > 0):
        expected = getattr(cpu, method)(X[:5])
        np.testing.assert_array_equal(getattr(gpu, method)(X[:5]), expected, strict=True)
    for a, b in zip(gpu.staged_predict(X[:5]), cpu.staged_predict(X[:5]), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "cls, base", [(AdaBoostClassifier, GaussianNB()), (AdaBoostRegressor, Ridge())]
)
def test_learners_of_other_packages(cls, base):
    X, y, weight = table()
    X, y = X[:, :2], (y > 0).astype(int)
    cpu, gpu = (cls(base, n_estimators=4, device=d).fit(X, y, weight) for d in ("cpu", "cuda"))
    np.testing.assert_array_equal(gpu.estimator_errors_, cpu.estimator_errors_)
    np.testing.assert_array_equal(gpu.predict(X), cpu.predict(X))


def test_three_learners():
    X, y, _ = table()
    models = [
        ThreeLearnerBoostingClassifier(device=d, random_state=5).fit(X, y > 0)
        for d in ("cpu", "cuda")
    ]
    assert len(models[0]) == 3
    for a, b in zip(*(model.estimators_samples_ for model in models), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(*(model.predict(X) for model in models))
