"""Projections: weighted sums of a few features each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gpuens.kernels.binning.project import project

from .test_bin_values import LAYOUTS


def sums_of(n_features: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Projections of one to all features, with weights that are no powers of two."""
    rng = np.random.default_rng(seed)
    members = [np.sort(rng.choice(n_features, 1 + j % n_features, replace=False)) for j in range(n)]
    begin = np.cumsum([0, *map(len, members)])
    feature = np.concatenate(members).astype(np.int32)
    return begin, feature, rng.normal(size=feature.size)


def table(n: int, n_features: int, dtype: Any) -> np.ndarray:
    """Numbers of very different sizes, missing values and infinities."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, n_features)) * 10.0 ** rng.integers(-12, 12, (n, n_features))
    X[rng.random(X.shape) < 0.05] = np.nan
    X[rng.random(X.shape) < 0.05] = np.inf
    X[rng.random(X.shape) < 0.05] = -np.inf
    return X.astype(dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n", [1, 1030])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parity(target, oracle, same, dtype, n, layout):
    X = table(target.rows(n), 10, dtype)
    n_features = LAYOUTS[layout](X).shape[1]
    entries = sums_of(n_features, 13)

    def run(t):
        return t.run(project, t.view(t.array(X), LAYOUTS[layout]), *map(t.array, entries))

    same(target.host(run(target)), run(oracle))


def test_sums_are_rounded_entry_by_entry(oracle):
    X = table(200, 6, np.float64)
    begin, feature, weight = sums_of(6, 11)
    with np.errstate(invalid="ignore"):
        projected = oracle.run(project, X, begin, feature, weight)
        for j in range(11):
            for i in range(200):
                total = None
                for k in range(begin[j], begin[j + 1]):
                    own = weight[k] * X[i, feature[k]]
                    total = own if total is None else total + own
                assert projected[j, i] == total or (
                    math.isnan(total) and math.isnan(projected[j, i])
                )


def test_one_missing_value_makes_a_sum_missing(oracle):
    X = np.array([[1.0, 2.0], [np.nan, 2.0], [1.0, np.nan]])
    entries = np.array([0, 1, 3]), np.array([1, 0, 1], np.int32), np.array([1.0, 1.0, -1.0])
    projected = oracle.run(project, X, *entries)
    np.testing.assert_array_equal(projected, [[2.0, 2.0, np.nan], [-1.0, np.nan, np.nan]])
