"""Votes, stacks, meta-models and learned weights on a real GPU: those of the CPU, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from gpuens import (
    GradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from gpuens.combining.linear import RidgeRegression
from gpuens.combining.logistic import LogisticRegression
from gpuens.combining.weights import accuracy_weights, greedy_weights, optimal_weights
from gpuens.datasets import make_covtype_like, make_higgs_like

pytestmark = pytest.mark.gpu
MEMBERS = [
    ("boosting", GradientBoostingClassifier(n_estimators=10)),
    ("forest", RandomForestClassifier(n_estimators=10)),
    ("bayes", GaussianNB()),  # gets host arrays
]


@pytest.mark.parametrize("make", [make_higgs_like, make_covtype_like])
def test_meta_models(cupy, make):
    X, y = make(20_000)
    weight = np.random.default_rng(0).random(len(y))
    for cls in (LogisticRegression, RidgeRegression):
        host = cls(device="cpu").fit(X, y, weight)
        there = cls().fit(*map(cupy.asarray, (X, y, weight)))
        np.testing.assert_array_equal(there.coef_, host.coef_)
        np.testing.assert_array_equal(there.intercept_, host.intercept_)
        prediction = there.predict(cupy.asarray(X))
        assert isinstance(prediction, cupy.ndarray)
        np.testing.assert_array_equal(prediction.get(), host.predict(X))


@pytest.mark.parametrize("learn", [accuracy_weights, optimal_weights, greedy_weights])
def test_learned_weights(cupy, learn):
    rng = np.random.default_rng(0)
    y = rng.normal(size=5000)
    values = y[:, None] + rng.normal(size=(5000, 4)) / 2
    np.testing.assert_array_equal(learn(cupy.asarray(values), cupy.asarray(y)), learn(values, y))
    codes = rng.integers(0, 3, 5000)
    odds = rng.random((5000, 4, 3))
    odds[np.arange(5000), :, codes] += 1
    shares = odds / odds.sum(axis=2, keepdims=True)
    np.testing.assert_array_equal(
        learn(cupy.asarray(shares), cupy.asarray(codes), loss="log_loss"),
        learn(shares, codes, loss="log_loss"),
    )


@pytest.mark.parametrize("passthrough", [False, True])
def test_stacks(cupy, passthrough):
    X, y = make_covtype_like(3000)
    settings = {"cv": 3, "passthrough": passthrough}
    host = StackingClassifier(MEMBERS, device="cpu", **settings).fit(X, y)
    there = StackingClassifier(MEMBERS, **settings).fit(cupy.asarray(X), cupy.asarray(y))
    np.testing.assert_array_equal(there.final_estimator_.coef_, host.final_estimator_.coef_)
    found = there.predict_proba(cupy.asarray(X))
    assert isinstance(found, cupy.ndarray)
    np.testing.assert_array_equal(found.get(), host.predict_proba(X))


@pytest.mark.parametrize("voting", ["hard", "soft"])
def test_votes(cupy, voting):
    X, y = make_covtype_like(3000)
    settings = {"voting": voting, "weights": "greedy"}
    host = VotingClassifier(MEMBERS, device="cpu", **settings).fit(X, y)
    there = VotingClassifier(MEMBERS, **settings).fit(cupy.asarray(X), cupy.asarray(y))
    np.testing.assert_array_equal(there.weights_, host.weights_)
    np.testing.assert_array_equal(there.predict(cupy.asarray(X)).get(), host.predict(X))
    torch = pytest.importorskip("torch")
    found = there.predict(torch.from_numpy(X).cuda())
    assert found.is_cuda and (found.cpu().numpy() == host.predict(X)).all()
