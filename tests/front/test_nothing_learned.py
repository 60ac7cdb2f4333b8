"""Targets and weights that are too small for training."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from gpuens import (
    DecisionTreeRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    NothingLearnedWarning,
    RandomForestRegressor,
)

X = np.random.default_rng(0).normal(size=(200, 2))
Y = X[:, 0] + 0.1 * X[:, 1]
POISSON = {"loss": "poisson"}


@pytest.mark.parametrize("scale", [1e-10, 1e-30, 5e-324])
def test_tiny_weights_are_scaled_by_a_power_of_two(scale):
    largest = 2.0 ** np.floor(np.log2(scale))
    model = GradientBoostingRegressor(n_estimators=3)
    expected = model.fit(X, Y, np.full(Y.size, 0.5)).predict(X)
    assert np.unique(expected).size > 3
    tiny = model.fit(X, Y, np.full(Y.size, largest))
    np.testing.assert_array_equal(tiny.predict(X), expected)


@pytest.mark.parametrize(
    ("model", "y", "weight", "advice"),
    [
        (GradientBoostingRegressor(n_estimators=2), Y * 1e-100, None, "Multiply y"),
        (GradientBoostingRegressor(**POISSON, n_estimators=2), np.exp(Y) * 1e-30, None, "Poisson"),
        (GradientBoostingClassifier(n_estimators=2), Y > 0, 1e-6, "Multiply sample_weight"),
        (DecisionTreeRegressor(), Y * 1e-200, None, "Multiply y"),
        (RandomForestRegressor(2), Y * 1e-200, None, "Multiply y"),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else "",
)
def test_a_constant_model_is_named_with_its_reason(model, y, weight, advice):
    with pytest.warns(NothingLearnedWarning, match=advice):
        model.fit(X, y, weight)
    assert np.unique(model.predict(X)).size == 1


@pytest.mark.parametrize("y", [np.full(200, 1e-300), np.zeros(200), np.tile([0.0, 1.0], 100)])
def test_other_constant_models_are_no_reason_to_warn(y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GradientBoostingRegressor(n_estimators=2).fit(X[:5], y[:5])
        DecisionTreeRegressor().fit(X, y)
