"""The generated problems against their definitions, and the Bayes rules' errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from gpuens.datasets import (
    airline_like_categories,
    make_airline_like,
    make_covtype_like,
    make_friedman1,
    make_friedman2,
    make_friedman3,
    make_hastie_10_2,
    make_higgs_like,
    make_moons,
    make_nested_spheres,
    make_ringnorm,
    make_sparse_parity,
    make_spirals,
    make_threenorm,
    make_trunk,
    make_twonorm,
    make_waveform,
    make_wide_sparse,
)


@pytest.mark.parametrize("n_features", [1, 2, 7, 28, 100])
def test_higgs_like_is_balanced(n_features):
    X, y = make_higgs_like(5000, n_features)
    assert X.shape == (5000, n_features) and np.isfinite(X).all()
    assert 0.45 < y.mean() < 0.55
    np.testing.assert_array_equal(X[:, 3::6], np.floor(X[:, 3::6]))
    assert (X[:, 1:9:4] > 0).all()


def test_covtype_like_has_common_and_rare_classes():
    X, y = make_covtype_like(20_000)
    counts = np.sort(np.bincount(y, minlength=7))
    assert X.shape == (20_000, 54)
    assert 0 < counts[0] < 400 and counts[-1] > 6000
    np.testing.assert_array_equal(X[:, 10:14].sum(axis=1), 1)
    np.testing.assert_array_equal(X[:, 14:].sum(axis=1), 1)
    np.testing.assert_array_equal(X[:, :10], np.round(X[:, :10]))
    assert 995 < X[:, :10].mean() < 1005 and 195 < X[:, :10].std() < 205


def test_friedman1():
    X, y = make_friedman1(5000, 7)
    assert X.shape == (5000, 7)
    x1, x2, x3, x4, x5 = X[:, :5].astype(np.float64).T
    expected = 10 * np.sin(np.pi * x1 * x2) + 20 * (x3 - 0.5) ** 2 + 10 * x4 + 5 * x5
    np.testing.assert_allclose(y, expected, rtol=1e-13)


def test_friedman2_and_friedman3():
    X, y = make_friedman2(20_000)
    phase_X, phase = make_friedman3(20_000)
    np.testing.assert_array_equal(X, phase_X)
    x1, x2, x3, x4 = X.astype(np.float64).T
    reactance = x2 * x3 - 1 / (x2 * x4)
    np.testing.assert_allclose(y, np.sqrt(x1**2 + reactance**2), rtol=1e-14)
    np.testing.assert_allclose(phase, np.arctan(reactance / x1), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(X.min(axis=0), [0, 40 * np.pi, 0, 1], atol=1)
    np.testing.assert_allclose(X.max(axis=0), [100, 560 * np.pi, 1, 11], atol=1)


@pytest.mark.parametrize(
    ("make", "noise"), [(make_friedman1, 1.0), (make_friedman2, 125.0), (make_friedman3, 0.1)]
)
def test_noise_of_friedman(make, noise):
    X, y = make(20_000, noise=noise)
    clean_X, clean = make(20_000)
    np.testing.assert_array_equal(X, clean_X)
    assert abs((y - clean).mean() / noise) < 0.03
    assert abs((y - clean).std() / noise - 1) < 0.03


def test_hastie_10_2():
    X, y = make_hastie_10_2(20_000)
    np.testing.assert_array_equal(y, np.where((X.astype(float) ** 2).sum(axis=1) > 9.34, 1, -1))
    assert abs(y.mean()) < 0.03


@pytest.mark.parametrize(("n_features", "n_classes"), [(1, 2), (10, 3), (4, 5)])
def test_nested_spheres(n_features, n_classes):
    X, y = make_nested_spheres(30_000, n_features, n_classes)
    assert X.shape == (30_000, n_features)
    np.testing.assert_allclose(np.bincount(y) / y.size, 1 / n_classes, atol=0.012)
    order = np.argsort((X.astype(float) ** 2).sum(axis=1))
    assert (np.diff(y[order]) >= 0).all()


def test_moons():
    X, y = make_moons(5000)
    x1, x2 = X.astype(float).T
    centre_1, centre_2 = np.where(y == 0, 0, 1), np.where(y == 0, 0, 0.5)
    np.testing.assert_allclose(np.hypot(x1 - centre_1, x2 - centre_2), 1, atol=1e-6)
    assert (np.where(y == 0, x2, 0.5 - x2) >= 0).all()
    noisy, _ = make_moons(5000, noise=0.2)
    np.testing.assert_allclose((noisy - X).std(axis=0), 0.2, rtol=0.05)


def test_spirals():
    X, y = make_spirals(5000)
    radius, angle = np.hypot(*X.astype(float).T), np.arctan2(X[:, 1], X[:, 0])
    turned = angle + np.pi * y - 6 * np.pi * radius
    np.testing.assert_allclose(np.cos(turned), 1, atol=1e-4)
    np.testing.assert_allclose(
        np.quantile(radius**2, [0.25, 0.5, 0.75]), [0.25, 0.5, 0.75], atol=0.03
    )


def log_density(X, mean, scale=1.0):
    """Of a normal distribution, but for a constant."""
    distance = ((X.astype(float) - mean) ** 2).sum(axis=1)
    return -distance / (2 * scale**2) - X.shape[1] * np.log(scale)


def test_bayes_error_of_twonorm():
    X, y = make_twonorm(200_000)
    mean = 2 / np.sqrt(20)
    error = np.mean((log_density(X, -mean) > log_density(X, mean)) != y)
    assert abs(error - 0.0228) < 0.0012  # Φ(-2)


def test_bayes_error_of_threenorm():
    X, y = make_threenorm(100_000)
    mean = 2 / np.sqrt(20)
    either = np.logaddexp(log_density(X, mean), log_density(X, -mean)) - np.log(2)
    error = np.mean((log_density(X, mean * (-1.0) ** np.arange(20)) > either) != y)
    assert abs(error - 0.105) < 0.004


def test_bayes_error_of_ringnorm():
    X, y = make_ringnorm(200_000)
    inner, outer = log_density(X, 2 / np.sqrt(20)), log_density(X, 0.0, 2.0)
    assert abs(np.mean((inner > outer) != y) - 0.013) < 0.001


@pytest.mark.slow
def test_bayes_error_of_waveform():
    X, y = make_waveform(40_000)
    m, u = np.arange(1, 22), (np.arange(100)[:, None] + 0.5) / 100
    at_7, at_11, at_15 = (np.maximum(6 - np.abs(m - peak), 0) for peak in (7, 11, 15))
    likelihood = []
    for first, second in ((at_11, at_15), (at_11, at_7), (at_15, at_7)):
        means = u * first + (1 - u) * second
        exponent = X.astype(float) @ means.T - (means**2).sum(axis=1) / 2
        likelihood.append(np.logaddexp.reduce(exponent, axis=1))
    assert abs(np.mean(np.argmax(likelihood, axis=0) != y) - 0.14) < 0.012


def test_noise_of_waveform():
    X, y = make_waveform(5000, 19)
    assert X.shape == (5000, 40)
    np.testing.assert_array_equal(X[:, :21], make_waveform(5000)[0])
    np.testing.assert_allclose(X[:, 21:].mean(axis=0), 0, atol=0.06)
    np.testing.assert_allclose(X[:, 21:].std(axis=0), 1, atol=0.05)
    np.testing.assert_allclose(np.bincount(y) / 5000, 1 / 3, atol=0.03)


def test_ringnorm_and_twonorm_of_other_widths():
    X, y = make_twonorm(50_000, 4)
    np.testing.assert_allclose(X[y == 1].mean(axis=0), -1, atol=0.03)
    X, y = make_ringnorm(50_000, 4)
    np.testing.assert_allclose(X[y == 1].mean(axis=0), 1, atol=0.03)
    np.testing.assert_allclose([X[y == 0].std(), X[y == 1].std()], [2, 1], rtol=0.02)


@pytest.mark.parametrize(("n_features", "density"), [(1000, 0.02), (300, 0.2), (7, 0.2)])
def test_wide_sparse(n_features, density):
    X, y = make_wide_sparse(4000, n_features, density)
    assert abs((X > 0).mean() / density - 1) < 0.05
    assert set(np.unique(X)) <= {0, 1, 2, 3, 4}
    for count in (1, 2):
        assert abs((X > count).sum() / (X >= count).sum() - 0.25) < 0.02
    assert 0.45 < y.mean() < 0.55
    assert X[:, 0].mean() > X[:, -1].mean()


def test_airline_like():
    X, y = make_airline_like(50_000)
    names = airline_like_categories()
    assert X.shape == (50_000, len(names)) and 0.18 < y.mean() < 0.22
    columns = dict(zip(names, X.T, strict=True))
    for name, categories in names.items():
        if categories:
            codes = columns[name][~np.isnan(columns[name])]
            np.testing.assert_array_equal(codes, np.floor(codes))
            assert codes.min() == 0 and codes.max() < len(categories) == len(set(categories))
    missing = {name: np.isnan(column).mean() for name, column in columns.items()}
    assert abs(missing.pop("departure_time") - 0.01) < 0.002
    assert abs(missing.pop("aircraft") - 0.03) < 0.003
    assert not any(missing.values())
    assert (columns["origin"] != columns["destination"]).all()
    time = columns["departure_time"][~np.isnan(columns["departure_time"])]
    assert time.min() == 500 and time.max() == 2359 and (time % 100 < 60).all()
    late = columns["departure_time"] > 1800
    assert y[late].mean() > y[~late].mean() + 0.1


def test_distances_of_airline_like_are_those_of_places():
    X, _ = make_airline_like(20_000)
    found = {}
    for origin, destination, distance in X[:, [5, 6, 8]].tolist():
        assert found.setdefault(frozenset((origin, destination)), distance) == distance
    assert 100 <= min(found.values()) and max(found.values()) < 6000


def test_airline_like_frame():
    pd = pytest.importorskip("pandas")
    X, y = make_airline_like(2000)
    frame, y_too = make_airline_like(2000, as_frame=True)
    np.testing.assert_array_equal(y, y_too)
    for k, (name, categories) in enumerate(airline_like_categories().items()):
        column = frame[name]
        if not categories:
            np.testing.assert_array_equal(column.to_numpy(), X[:, k])
            continue
        assert isinstance(column.dtype, pd.CategoricalDtype)
        assert list(column.cat.categories) == categories
        np.testing.assert_array_equal(column.isna(), np.isnan(X[:, k]))
        row = int(np.flatnonzero(~np.isnan(X[:, k]))[0])
        assert column.iloc[row] == categories[int(X[row, k])]


def test_trunk_has_the_error_of_its_bayes_rule():
    X, y = make_trunk(20_000, 10)
    weight = 1 / np.sqrt(np.arange(1, 11))
    error = np.mean((X @ weight > 0) != y)
    assert abs(error - ndtr(-np.sqrt((weight**2).sum()))) < 0.005


def test_single_features_of_sparse_parity_say_nothing():
    X, y = make_sparse_parity(20_000, 5, 3)
    assert abs(y.mean() - 0.5) < 0.02
    assert np.abs(np.corrcoef(X.T, y)[-1, :-1]).max() < 0.03
    np.testing.assert_array_equal(y, (X[:, :3] > 0).sum(axis=1) % 2)
