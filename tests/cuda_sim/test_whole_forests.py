"""Whole trees and forests with ``device="cuda"`` in the simulator: the models of the CPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gpuens import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
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
    """A number with missing values, categories, another number; a target of all, and weights."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3)).round(1).astype(np.float32)
    X[:, 1] = rng.integers(0, 4, N)
    X[rng.random(N) < 0.2, 0] = NAN
    y = np.where(np.isnan(X[:, 0]), 1.0, X[:, 0]) + X[:, 1] * (X[:, 2] > 0)
    return X, y, rng.exponential(size=N) * (np.arange(N) % 6 > 0)


SMALL = {"n_estimators": 2, "max_depth": 2}
CASES: dict[str, tuple[type, int, dict[str, Any]]] = {
    "tree": (DecisionTreeRegressor, 0, {"max_depth": 2}),
    "tree, categories": (
        DecisionTreeClassifier, 3, {"max_leaf_nodes": 3, "categorical_features": [1]},
    ),
    "forest": (RandomForestClassifier, 2, SMALL | {"oob_score": True, "max_bins": 8}),
    "forest, one feature": (RandomForestRegressor, 0, SMALL | {"max_features": 1}),
    "random forest": (ExtraTreesRegressor, 0, SMALL | {"monotonic_cst": [0, 0, 1]}),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Some inputs do not have OOB scores")
@pytest.mark.parametrize("cls, n_classes, settings", CASES.values(), ids=CASES)
def test_the_model_is_that_of_the_cpu(cls, n_classes, settings):
    X, y, weight = table()
    if n_classes:
        y = np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]))
    cpu, gpu = (cls(**settings, device=d).fit(X, y, weight) for d in ("cpu", "cuda"))
    assert cpu.forest_.n_leaves.min() > 2
    assert gpu.forest_.fingerprint() == cpu.forest_.fingerprint()
    if "oob_score" in settings:
        np.testing.assert_array_equal(gpu.oob_scores_path_, cpu.oob_scores_path_)
    for method in ["predict", "apply"] + ["predict_proba"] * (n_classes > 0):
        expected = getattr(cpu, method)(X[:5])
        np.testing.assert_array_equal(getattr(gpu, method)(X[:5]), expected, strict=True)


def test_a_forest_moves_between_devices():
    X, y, _ = table()
    settings = {"max_depth": 2, "max_features": 1}
    whole = RandomForestRegressor(2, device="cpu", **settings).fit(X, y)
    model = RandomForestRegressor(warm_start=True, **settings)
    for device, n in (("cpu", 1), ("cuda", 2)):
        model.set_params(device=device, n_estimators=n).fit(X, y)
    assert model.forest_.fingerprint() == whole.forest_.fingerprint()
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))
