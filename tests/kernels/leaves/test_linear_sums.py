"""Linear functions in leaves: the features of paths, exact sums, and least squares."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.leaves.linear_sums import linear_sums, path_features, solve_linear
from gpuens.kernels.runtime.dtypes import Scales

SCALES = Scales(2.0**30, 2.0**30)
# The simulator warns of what hardware does in silence: rows with infinite values.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore:{what} encountered in scalar")
    for what in ("invalid value", "overflow")
]
LEFT = np.array([1, 3, -1, 5, -1, -1, -1], np.int32)
RIGHT = np.array([2, 4, -1, 6, -1, -1, -1], np.int32)
FEATURE = np.array([2, 0, -1, 2, -1, -1, -1], np.int32)
CUT = np.array([0.5, -0.25, np.nan, -1.0, np.nan, np.nan, np.nan])
"""x2 <= 0.5, then x0 <= -0.25, then x2 <= -1: leaves 2, 4, 5 and 6."""


def table(n, dtype, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).astype(dtype)
    X[rng.random(X.shape) < 0.05] = np.nan
    X[rng.random(X.shape) < 0.02] = np.inf
    return X


def leaves_of(X):
    """A missing value goes right, and rows at the end are in no leaf."""
    x0, x2 = X[:, 0], X[:, 2]
    lowest = np.where(x2 <= -1.0, 5, 6)
    leaf = np.where(x2 <= 0.5, np.where(x0 <= -0.25, lowest, 4), 2).astype(np.int32)
    leaf[-len(X) // 10 :] = -1
    return leaf


def bounds(X):
    finite = np.where(np.isfinite(X), X, np.nan).astype(np.float64)
    return np.nanmin(finite, axis=0), np.nanmax(finite, axis=0)


def features_of(X):
    return path_features(FEATURE, CUT, LEFT, RIGHT, *bounds(X))


def statistics(n):
    rng = np.random.default_rng(1)
    return rng.normal(size=n).astype(np.float32), rng.random(n).astype(np.float32)


def test_paths():
    X = table(200, np.float64)
    low, high = bounds(X)
    found = features_of(X)
    assert np.diff(found.begin).tolist() == [0, 0, 1, 0, 2, 2, 2]
    assert found.feature.tolist() == [2, 0, 2, 0, 2, 0, 2]
    intervals = [
        (0.5, high[2]), (-0.25, high[0]), (low[2], 0.5), (low[0], -0.25), (low[2], -1.0),
        (low[0], -0.25), (-1.0, 0.5),
    ]  # fmt: skip
    for (first, last), center, scale in zip(intervals, found.center, found.scale, strict=True):
        assert center == pytest.approx((first + last) / 2, rel=1e-12)
        assert 0.5 <= (last - first) / 2 * scale <= 1.0 and np.frexp(scale)[0] == 0.5


def test_features_without_an_interval_take_no_part():
    low, high = np.array([0.0, 0.0, np.inf]), np.array([0.0, 1.0, -np.inf])
    assert path_features(FEATURE, CUT, LEFT, RIGHT, low, high).feature.size == 0
    by_category = np.full(7, np.nan)
    assert path_features(FEATURE, by_category, LEFT, RIGHT, -high - 9, high + 9).feature.size == 0
    alone = np.array([-1], np.int32)
    assert path_features(alone, CUT[-1:], alone, alone, low, high).begin.tolist() == [0, 0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize("n", [1, 37, 4000])
def test_parity(target, oracle, same, n, layout, dtype):
    n = target.rows(n, 200)
    X, (g, h) = table(max(n, 50), dtype), statistics(n)
    features, X = features_of(X), X[:n]
    leaf = leaves_of(X)
    expected = oracle.run(linear_sums, leaf, g, h, X, features, SCALES)
    rows = target.array(np.ascontiguousarray(X)) if layout == "C" else target.array(X.T.copy()).T
    for own in target.leaves(leaf):
        args = own, target.array(g), target.array(h), rows, features, SCALES
        same(target.run(linear_sums, *args), expected)


def test_against_plain_python(oracle):
    X, (g, h) = table(150, np.float64), statistics(150)
    leaf, features = leaves_of(X), features_of(X)
    sums = oracle.run(linear_sums, leaf, g, h, X, features, SCALES)
    begin = features.begin_of_sums()
    for node in range(7):
        own = slice(features.begin[node], features.begin[node + 1])
        if own.start == own.stop:
            assert begin[node] == begin[node + 1]
            continue
        expected = np.zeros(begin[node + 1] - begin[node], np.int64)
        for row in np.flatnonzero(leaf == node):
            z = (X[row, features.feature[own]] - features.center[own]) * features.scale[own]
            if not np.isfinite(z).all():
                continue
            z, terms = [*z.tolist(), 1.0], []
            for i, zi in enumerate(z):
                terms += [round(float(h[row]) * SCALES.h * zi * zj) for zj in z[: i + 1]]
                terms.append(round(float(g[row]) * SCALES.g * zi))
            expected += [*terms, 1]
        np.testing.assert_array_equal(sums[begin[node] : begin[node + 1]], expected)
        assert features.complete_rows(sums)[node] == expected[-1]


def solved(X, leaf, g, h, oracle, **settings):
    features = features_of(X)
    sums = oracle.run(linear_sums, leaf, g, h, X, features, SCALES)
    n_rows = np.bincount(leaf[leaf >= 0], minlength=7).astype(np.int32)
    total = np.array([[g[leaf == k].sum(), h[leaf == k].sum()] for k in range(7)], np.float64)
    how = {
        "ridge": 0.0, "min_sum_hessian": 1e-3, "is_bounded": False, "value": np.full(7, 9.0)
    } | settings  # fmt: skip
    return solve_linear(features, sums, SCALES, n_rows, total, **how)


@pytest.mark.parametrize("ridge", [0.0, 3.0])
def test_least_squares(oracle, ridge):
    """The normal equations of the features as they are, by NumPy."""
    X, (g, h) = np.nan_to_num(table(400, np.float64), posinf=1.0), statistics(400)
    leaf = leaves_of(X)
    fits = solved(X, leaf, g, h, oracle, ridge=ridge)
    for node, n in enumerate(np.diff(fits.begin)):
        assert n == [0, 0, 1, 0, 2, 2, 2][node]
        if n == 0:
            assert fits.intercept[node] == 9.0
            continue
        own, rows = slice(fits.begin[node], fits.begin[node + 1]), leaf == node
        A = np.column_stack([X[rows][:, fits.feature[own]], np.ones(rows.sum())])
        left = A.T @ (A * h[rows, None]) + ridge * np.diag([1.0] * n + [0.0])
        expected = -np.linalg.solve(left, A.T @ g[rows])
        np.testing.assert_allclose(fits.coefficient[own], expected[:-1], rtol=1e-6)
        assert fits.intercept[node] == pytest.approx(expected[-1], rel=1e-6)


def test_features_that_others_determine_get_no_coefficient(oracle):
    X, (g, h) = np.nan_to_num(table(400, np.float64), posinf=1.0), statistics(400)
    X[:, 2] = 3.0 * X[:, 0] - 1.0
    leaf = np.where(X[:, 0] <= -0.25, 5, 2).astype(np.int32)
    # Of leaf 5 feature 2 is determined by feature 0, which comes first.
    fits = solved(X, leaf, g, h, oracle)
    own = slice(fits.begin[5], fits.begin[6])
    assert fits.feature[own].tolist() == [0]
    # Where rows are not complete it keeps its place, so that they get the constant.
    X[np.flatnonzero(leaf == 5)[0], 2] = np.nan
    fits = solved(X, leaf, g, h, oracle)
    own = slice(fits.begin[5], fits.begin[6])
    assert fits.feature[own].tolist() == [0, 2] and fits.coefficient[own][1] == 0.0


def test_leaves_that_keep_their_constant(oracle):
    X, (g, h) = np.nan_to_num(table(400, np.float64), posinf=1.0), statistics(400)
    leaf = leaves_of(X)
    few = np.where(np.cumsum(leaf == 5) > 2, -1, leaf).astype(np.int32)
    assert np.diff(solved(X, few, g, h, oracle).begin)[5] == 0  # two rows for three numbers
    assert solved(X, leaf, g, h, oracle, min_sum_hessian=1e9).feature.size == 0
    assert solved(X, leaf, g * 0, h, oracle, value=np.zeros(7)).feature.size == 0
    # With gradients that are constant, and the best constant, nothing is better.
    g = np.float32(-2.0) * h
    same = solved(X, leaf, g, h, oracle, value=np.full(7, 2.0))
    assert same.feature.size == 0 or np.abs(same.coefficient).max() < 1e-6


def test_missing_rows_that_a_bounded_loss_forbids(oracle):
    X, (g, h) = np.nan_to_num(table(400, np.float64), posinf=1.0), statistics(400)
    leaf = np.zeros(400, np.int32) + 2
    X[:200, 2] = np.nan
    g[200:], g[:200] = h[200:] * (X[200:, 2] - 3.0).astype(np.float32), 0.5 * h[:200]
    # The step of the others, 2, is bad for the rows without a value, whose own is -0.5.
    value = np.full(7, 2.0)
    assert solved(X, leaf, g, h, oracle, value=value).begin[3] == 1
    assert solved(X, leaf, g, h, oracle, value=value, is_bounded=True).begin[3] == 0
    value = np.full(7, -0.1)
    assert solved(X, leaf, g, h, oracle, value=value, is_bounded=True).begin[3] == 1
