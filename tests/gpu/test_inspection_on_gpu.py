"""Inspection, diversity, and bias and variance of arrays on a real GPU: results are there too, and
equal to those of the same arrays on the host."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from gpuens import GradientBoostingRegressor, RandomForestClassifier, diversity
from gpuens.bias_variance.decomposition import bias_variance
from gpuens.datasets import make_higgs_like
from gpuens.inspection import (
    drop_column_importance,
    h_statistic,
    partial_dependence,
    permutation_importance,
)

pytestmark = pytest.mark.gpu
X, C = make_higgs_like(2000, 5)
Y = 2.0 * X[:, 0] - X[:, 1] * X[:, 2] + C
CLOSE = {"rtol": 1e-9, "atol": 1e-12}


@pytest.fixture(scope="module")
def boosted():
    return GradientBoostingRegressor(n_estimators=10, device="cpu").fit(X, Y)


@pytest.mark.parametrize("method", ["recursion", "brute"])
def test_partial_dependence(cupy, boosted, method):
    settings = {"method": method, "grid_resolution": 12}
    expected = partial_dependence(boosted, X, [0, 1], **settings)
    boosted.set_params(device="auto")
    found = partial_dependence(boosted, cupy.asarray(X), [0, 1], **settings)
    boosted.set_params(device="cpu")
    for ours, host in zip(found.grid_values, expected.grid_values, strict=True):
        assert isinstance(ours, cupy.ndarray)
        np.testing.assert_array_equal(ours.get(), host)
    assert isinstance(found.average, cupy.ndarray)
    np.testing.assert_allclose(found.average.get(), expected.average, **CLOSE)


def test_importances_and_interaction(cupy):
    model = GradientBoostingRegressor(n_estimators=10, device="cpu").fit(X, Y)
    table, y = cupy.asarray(X), cupy.asarray(Y)
    cases = [
        (lambda m, t, v: permutation_importance(m, t, v, n_repeats=2).importances, model),
        (lambda m, t, v: permutation_importance(m, t, v, max_samples=0.3).importances, model),
        (lambda m, t, v: drop_column_importance(m, t, v, cv=2).importances, model),
        (lambda m, t, v: h_statistic(m, t, [0, 1, 2], max_samples=40).h, model),
        (lambda m, t, v: permutation_importance(m, t, v).importances, LinearRegression().fit(X, Y)),
    ]
    for compute, estimator in cases:
        if estimator is model:
            estimator.set_params(device="cpu")
        expected = compute(estimator, X, Y)
        if estimator is model:
            estimator.set_params(device="auto")
        found = compute(estimator, table, y)
        assert isinstance(found, cupy.ndarray)
        np.testing.assert_allclose(found.get(), expected, rtol=1e-7, atol=1e-9)


def test_diversity(cupy):
    forest = RandomForestClassifier(n_estimators=6, max_depth=4, device="cpu").fit(X, C)
    labels = diversity.member_predictions(forest, X)
    forest.set_params(device="auto")
    there = diversity.member_predictions(forest, cupy.asarray(X))
    np.testing.assert_array_equal(there.get(), labels)
    expected = diversity.pairwise(labels, C)
    for name, matrix in diversity.pairwise(there, cupy.asarray(C)).items():
        assert isinstance(matrix, cupy.ndarray)
        np.testing.assert_allclose(matrix.get(), expected[name], **CLOSE)
    found = diversity.summary(there, cupy.asarray(C))
    assert found == pytest.approx(diversity.summary(labels, C), rel=1e-12)


def test_bias_variance(cupy):
    model = RandomForestClassifier(n_estimators=3, max_depth=4, device="cpu")
    expected = bias_variance(model, X, C, rounds=4)
    found = bias_variance(model.set_params(device="auto"), cupy.asarray(X), cupy.asarray(C),
                          rounds=4)  # fmt: skip
    assert isinstance(found.error_of_rows, cupy.ndarray)
    np.testing.assert_allclose(found.error_of_rows.get(), expected.error_of_rows, **CLOSE)
