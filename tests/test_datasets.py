"""The generated tables."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens import GradientBoostingClassifier
from gpuens.datasets import make_covtype_like, make_higgs_like


@pytest.mark.parametrize("make", [make_higgs_like, make_covtype_like])
def test_the_seed_decides(make):
    first, again, other = make(500, random_state=4), make(500, random_state=4), make(500)
    for a, b, c in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(a, b)
        assert not np.array_equal(a, c)
    assert (first[0].dtype, first[1].dtype) == (np.float32, np.int64)


@pytest.mark.parametrize("n_features", [1, 2, 7, 28, 100])
def test_higgs_like_is_balanced(n_features):
    X, y = make_higgs_like(5000, n_features)
    assert X.shape == (5000, n_features) and np.isfinite(X).all()
    assert 0.45 < y.mean() < 0.55


def test_covtype_like_has_common_and_rare_classes():
    X, y = make_covtype_like(20_000)
    counts = np.sort(np.bincount(y, minlength=7))
    assert X.shape == (20_000, 54)
    assert 0 < counts[0] < 400 and counts[-1] > 6000
    np.testing.assert_array_equal(X[:, 10:14].sum(axis=1), 1)
    np.testing.assert_array_equal(X[:, 14:].sum(axis=1), 1)
    np.testing.assert_array_equal(X[:, :10], np.round(X[:, :10]))


def test_other_rows_follow_the_same_rule():
    X, y = make_higgs_like(4000, 20)
    model = GradientBoostingClassifier(n_estimators=30, device="cpu").fit(X, y)
    assert model.score(*make_higgs_like(2000, 20, random_state=1)) > 0.6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_higgs_like(0), "n_rows must be an integer >= 1, got 0"),
        (lambda: make_higgs_like(5, 0), "n_features must be an integer >= 1, got 0"),
        (lambda: make_covtype_like(-1), "n_rows must be an integer >= 1, got -1"),
    ],
)
def test_bad_sizes(call, message):
    with pytest.raises(ValueError, match=message):
        call()
