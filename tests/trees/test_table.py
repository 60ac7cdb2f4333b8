"""The codes that trees are grown on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gpuens import AdaBoostClassifier, DecisionTreeClassifier, RandomForestClassifier
from gpuens.devices.placement import CPU
from gpuens.kernels.cart.problem import CartTable
from gpuens.kernels.runtime.cpu.team import using_threads
from gpuens.trees.table import CELLS_WORTH_A_THREAD, EXACT_CELLS, bins_for_classes, cart_table

NAN, INF = float("nan"), float("inf")


def table(
    X: Any, max_bins: int | None = None, n_categories: Any = None, n_threads: int = 1
) -> CartTable:
    X = np.asarray(X)
    n_features = X.shape[1]
    categories = np.zeros(n_features, np.int32) if n_categories is None else n_categories
    with using_threads(n_threads):
        return cart_table(
            X,
            n_categories=np.asarray(categories, np.int32),
            monotone=np.zeros(n_features, np.int8),
            max_bins=max_bins,
            seed=0,
            device=CPU,
        )


def check(found: CartTable, X: np.ndarray) -> None:
    """What holds for every table of numbers."""
    n_features = X.shape[1]
    assert found.codes.shape == (n_features, len(X)) and found.n_bins.dtype == np.int32
    assert found.codes.dtype == (np.uint8 if found.n_bins.max() <= 255 else np.uint32)
    assert found.begin.dtype == np.int64 and found.begin[-1] == found.lower.size
    np.testing.assert_array_equal(np.diff(found.begin), found.n_bins)
    for f in range(n_features):
        bins = slice(found.begin[f], found.begin[f + 1])
        lower, upper = found.lower[bins], found.upper[bins]
        x, code = X[:, f].astype(np.float64), found.codes[f].astype(np.int64)
        missing = np.isnan(x)
        assert (code[missing] == found.n_bins[f]).all() and (code[~missing] < found.n_bins[f]).all()
        assert (lower <= upper).all() and (lower[1:] > upper[:-1]).all()
        for b in range(found.n_bins[f]):  # every bin holds rows, and its bounds are values
            values = x[code == b]
            assert values.min() == lower[b] and values.max() == upper[b]


LARGEST = float(np.finfo(np.float32).max)
VALUES = st.sampled_from([NAN, -INF, INF, -0.0, 0.0, 1.0, 1.5, -2.0, LARGEST, -LARGEST])


@given(
    arrays(
        st.sampled_from([np.float32, np.float64]),
        st.tuples(st.integers(1, 40), st.integers(1, 3)),
        elements=st.one_of(VALUES, st.floats(width=16)),
    ),
    st.sampled_from([None, 2, 3, 8, 255]),
)
@settings(max_examples=150)
def test_any_table(X, max_bins):
    found = table(X, max_bins)
    check(found, X)
    for f, x in enumerate(X.T):
        distinct = np.unique(x[~np.isnan(x)]).size
        if max_bins is None or distinct <= max_bins:
            assert found.n_bins[f] == distinct
        else:
            assert 1 <= found.n_bins[f] <= max_bins


@pytest.mark.parametrize("n", [255, 256, 70_000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_bin_for_every_value(n, dtype):
    x = np.random.default_rng(0).permutation(n).astype(dtype)
    found = table(np.stack([x, np.zeros(n, dtype)], axis=1))
    assert found.n_bins.tolist() == [n, 1]
    assert found.codes.dtype == (np.uint8 if n == 255 else np.uint32)
    np.testing.assert_array_equal(found.codes[0], x)
    np.testing.assert_array_equal(found.lower[:n], np.arange(n))
    np.testing.assert_array_equal(found.upper, found.lower)


def test_float64_is_not_rounded():
    x = 1.0 + 1e-12 * np.arange(300)
    found = table(x[:, None])
    np.testing.assert_array_equal(found.codes[0], np.arange(300))
    np.testing.assert_array_equal(found.lower, x)


@pytest.mark.parametrize("max_bins", [2, 7, 100, 255])
def test_bins_hold_about_the_same_number_of_rows(max_bins):
    X = np.random.default_rng(0).lognormal(sigma=2.0, size=(5000, 2))
    X[::9, 1] = NAN
    found = table(X, max_bins)
    check(found, X)
    for f in range(2):
        count = np.bincount(found.codes[f])[: found.n_bins[f]]
        assert found.n_bins[f] == max_bins
        assert count.max() <= 1.1 * count.sum() / max_bins + 2


def test_frequent_values_keep_bins_of_their_own():
    rng = np.random.default_rng(0)
    x = np.where(rng.random(3000) < 0.7, 0.0, rng.normal(size=3000))
    found = table(x[:, None], 10)
    check(found, x[:, None])
    zero = found.codes[0][x == 0][0]
    assert found.lower[zero] <= 0 <= found.upper[zero] and 2 <= found.n_bins[0] <= 10
    assert 0 < zero < found.n_bins[0] - 1


@pytest.mark.parametrize("max_bins", [None, 2, 255])
def test_few_values_are_never_merged(max_bins):
    x = np.array([5.0, 7.0, NAN, 5.0, 5.0, 5.0, 5.0])
    found = table(x[:, None], max_bins)
    assert found.codes[0].tolist() == [0, 1, 2, 0, 0, 0, 0]
    assert found.lower.tolist() == found.upper.tolist() == [5.0, 7.0]


@pytest.mark.parametrize("max_bins", [None, 4])
def test_columns_without_values(max_bins):
    X = np.array([[NAN, 1.0], [NAN, 2.0]])
    found = table(X, max_bins)
    assert found.n_bins.tolist() == [0, 2] and found.begin.tolist() == [0, 0, 2]
    assert found.codes[0].tolist() == [0, 0]
    alone = table(X[:, :1], max_bins)
    assert alone.n_bins.tolist() == [0] and alone.lower.size == 0


def test_categories_are_their_own_codes():
    X = np.array([[0.0, 3.0], [2.0, 1.0], [NAN, 3.0], [1.0, NAN]])
    found = table(X, 2, n_categories=[300, 0])
    assert found.n_bins.tolist() == [300, 2] and found.categorical.tolist() == [1, 0]
    assert found.codes.dtype == np.uint32
    assert found.codes[0].tolist() == [0, 2, 300, 1]
    assert found.codes[1].tolist() == [1, 0, 1, 2]


def test_the_users_table_is_left_alone():
    X = np.asfortranarray([[0.0, NAN, 2.0], [1.0, 5.0, NAN]])
    X.flags.writeable = False
    before = X.copy()
    for max_bins in (None, 2):
        check(table(X, max_bins), X)
        table(X, max_bins, n_categories=[2, 0, 0])
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("max_bins", [None, 20])
def test_threads_do_not_matter(max_bins):
    X = np.random.default_rng(0).normal(size=(CELLS_WORTH_A_THREAD // 4, 5))
    one, two = (table(X, max_bins, n_threads=n) for n in (1, 2))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)


def test_more_classes_than_bins():
    """One feature tells all of 400 classes apart where the table is small."""
    assert bins_for_classes(255, (EXACT_CELLS // 4, 4), (2, 256)) is None
    assert bins_for_classes(255, (EXACT_CELLS // 4 + 1, 4), (256,)) == 255
    assert bins_for_classes(200, (10, 4), (255,)) == 200
    assert bins_for_classes(255, (10, 4), ()) == 255
    rng = np.random.default_rng(0)
    x, x_test = rng.random((2, 2000, 1))
    y, y_test = (400 * x[:, 0]).astype(int), (400 * x_test[:, 0]).astype(int)
    known = np.isin(y_test, y)
    for model in (
        RandomForestClassifier(n_estimators=2, random_state=0, device="cpu"),
        DecisionTreeClassifier(max_bins=255, device="cpu"),
        AdaBoostClassifier(DecisionTreeClassifier(max_bins=255), n_estimators=1, device="cpu"),
    ):
        assert model.fit(x, y).score(x_test[known], y_test[known]) > 0.8
