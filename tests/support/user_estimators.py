"""Estimators as users write them: scikit-learn's API, without the classes of this package."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from gpuens.devices.placement import on_host


class NearestMean(ClassifierMixin, BaseEstimator):
    """A user's classifier without weights, probabilities or randomness, in any array library."""

    def fit(self, X, y):
        self.seen_ = X, y
        self.classes_ = np.unique(on_host(y))
        self.means_ = [X[y == k].mean(axis=0) for k in self.classes_.tolist()]
        return self

    def predict(self, X):
        distance = [((X - mean) ** 2).sum(axis=1)[:, None] for mean in self.means_]
        nearest = np.concatenate(distance, axis=1).argmin(axis=1)
        return self.classes_[on_host(nearest)]


class NearestMeanWithDecisions(NearestMean):
    """The same with one decision for each class that it knows."""

    def decision_function(self, X):
        return np.stack([-((X - mean) ** 2).sum(axis=1) for mean in self.means_], axis=1)


class WeightedMean(RegressorMixin, BaseEstimator):
    """A user's regressor with weights, which predicts their mean."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        self.seen_ = X, y, sample_weight
        self.mean_ = np.average(y, weights=sample_weight, axis=0)
        return self

    def predict(self, X):
        return np.repeat(np.atleast_1d(self.mean_)[None], len(X), axis=0).squeeze(axis=1)


class FailsToFit(BaseEstimator):
    """An estimator whose training always fails."""

    def fit(self, X, y):
        raise RuntimeError("no luck")

    def predict(self, X):
        raise NotImplementedError
