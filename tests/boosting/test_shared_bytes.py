"""Features that share a byte of the histograms: the model is that of a byte for each."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.kernels.growth.cpu import layout

N_CHOICES = 9
FIRST = 3
"""Columns before those of the choice."""


def table():
    """Numbers, some of them missing; categories; a choice as columns of zeros and ones, of which
    one has missing values; rare counts; classes."""
    rng = np.random.default_rng(0)
    n = layout.FEWEST_ROWS + 1000
    X = np.zeros((n, FIRST + N_CHOICES + 2), np.float32)
    X[:, 0] = rng.normal(size=n)
    X[rng.random(n) < 0.1, 0] = np.nan
    X[:, 1] = rng.integers(0, 12, n)
    X[:, 2] = rng.integers(0, 3, n)
    choice = rng.integers(0, N_CHOICES + 1, n)
    X[:, FIRST : FIRST + N_CHOICES] = choice[:, None] == np.arange(N_CHOICES)
    X[rng.random(n) < 0.05, FIRST + 4] = np.nan
    counted = rng.integers(0, 15, n)
    X[:, -2] = np.where(counted == 0, rng.integers(1, 30, n), 0)
    X[:, -1] = np.where(counted == 1, -rng.integers(1, 30, n), 0)
    score = np.nan_to_num(X[:, 0]) + 0.2 * X[:, 1] * (X[:, 2] == 1) + 0.3 * (choice % 4)
    y = score + 0.05 * (X[:, -2] + X[:, -1]) + 0.5 * rng.normal(size=n)
    return X, y, np.digitize(y, [0.5, 1.5])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"categorical_features": [1, 2, FIRST + 1], "max_cat_to_onehot": 3},
        {"monotonic_cst": [0, 0, 0, 1, 0, -1, *[0] * 6, 1, 0]},
        {"interaction_cst": [[0, 1, 2, 4, 6, 8], [3, 5, 7, 9, 10, 11, 12, 13]]},
        {"colsample_bytree": 0.8, "colsample_bynode": 0.5, "subsample": 0.6},
        {"sampling": "goss", "min_sum_hessian": 5.0, "l2_regularization": 1.0},
        {"min_samples_leaf": 300, "max_leaf_nodes": 15},
        {"n_jobs": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("cls", [GradientBoostingRegressor, GradientBoostingClassifier])
def test_models_are_those_of_features_with_bytes_of_their_own(monkeypatch, cls, settings):
    X, y, classes = table()
    settings = {"n_estimators": 5, "learning_rate": 0.5, "n_jobs": 1, **settings}
    columns = []
    original = layout._layout

    def spied(*args):
        found = original(*args)
        columns.append(found.column_slots.size)
        return found

    monkeypatch.setattr(layout, "_layout", spied)
    if "monotonic_cst" in settings:  # for two classes
        classes = np.minimum(classes, 1)
    target = y if cls is GradientBoostingRegressor else classes
    shared = cls(**settings).fit(X, target)
    monkeypatch.setattr(layout, "_digits", lambda codes, n_bins, *_: (list(range(n_bins.size)), []))
    apart = cls(**settings).fit(X, target)
    assert columns[0] <= 5 and columns[1] == X.shape[1]
    assert set(range(FIRST, X.shape[1])) & set(shared.forest_.feature.tolist())
    assert shared.forest_.fingerprint() == apart.forest_.fingerprint()


def test_a_single_feature_of_few_bins(monkeypatch):
    """It shares no byte, and the bytes stay in the order of the features."""
    X, y, _ = table()
    X = X[:, [1, 0]]
    model = GradientBoostingRegressor(n_estimators=5, device="cpu").fit(X, y)
    monkeypatch.setattr(layout, "FEWEST_ROWS", len(X) + 1)
    alone = GradientBoostingRegressor(n_estimators=5, device="cpu").fit(X, y)
    assert model.forest_.fingerprint() == alone.forest_.fingerprint()
