"""Meta-models, learned weights and stacks in the simulator are those of the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from gpuens import StackingClassifier, VotingClassifier
from gpuens.combining.linear import RidgeRegression
from gpuens.combining.logistic import LogisticRegression

N = 40


@pytest.fixture
def table(rng):
    X = rng.normal(size=(N, 3))
    return X, X @ [1.0, -2.0, 0.5] + rng.normal(size=N)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_logistic_regression(table, n_classes):
    X, y = table
    y = np.digitize(y, [0.0, 1.0][: n_classes - 1])
    cpu, gpu = (LogisticRegression(device=device).fit(X, y) for device in ("cpu", "cuda"))
    np.testing.assert_array_equal(gpu.coef_, cpu.coef_)
    np.testing.assert_array_equal(gpu.intercept_, cpu.intercept_)
    np.testing.assert_array_equal(gpu.predict_proba(X), cpu.predict_proba(X))


def test_ridge_regression(table):
    cpu, gpu = (RidgeRegression(device=device).fit(*table) for device in ("cpu", "cuda"))
    np.testing.assert_array_equal(gpu.coef_, cpu.coef_)
    np.testing.assert_array_equal(gpu.predict(table[0]), cpu.predict(table[0]))


def test_ensembles(table):
    X, y = table[0], np.digitize(table[1], [0.0, 1.0])
    members = [("bayes", GaussianNB()), ("tree", DecisionTreeClassifier(random_state=0))]
    for cls, settings in (
        (VotingClassifier, {"voting": "soft", "weights": "optimal", "validation_fraction": 0.5}),
        (StackingClassifier, {"cv": 2}),
    ):
        cpu, gpu = (cls(members, device=device, **settings).fit(X, y) for device in ("cpu", "cuda"))
        np.testing.assert_array_equal(gpu.predict_proba(X), cpu.predict_proba(X))
