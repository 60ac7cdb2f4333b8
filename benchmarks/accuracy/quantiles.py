"""A quantile regression forest on the leaves of scikit-learn's random forest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array


class QuantileForest:
    """Meinshausen's weights: in each tree the training rows of a leaf share a weight of one, in
    proportion to how often they were drawn.

    Parameters
    ----------
    forest : sklearn.ensemble.RandomForestRegressor
        Not fitted; draws as many rows a tree as there are.
    """

    def __init__(self, forest: Any) -> None:
        self.forest = forest

    def fit(self, X: np.ndarray, y: np.ndarray) -> QuantileForest:
        self.forest.fit(X, y)
        order = np.argsort(y, kind="stable")
        self._y = y[order]
        leaves = self.forest.apply(X)[order]
        counts = [np.bincount(drawn, minlength=len(y)) for drawn in self.forest.estimators_samples_]
        drawn = np.column_stack(counts)[order].astype(float)
        sizes = [tree.tree_.node_count for tree in self.forest.estimators_]
        self._begin = np.cumsum([0, *sizes[:-1]])
        places = leaves + self._begin
        in_leaf = np.bincount(places.ravel(), drawn.ravel(), minlength=sum(sizes))
        weights = drawn / in_leaf[places] / len(sizes)
        self._weights = _sparse(places, weights, sum(sizes)).T.tocsr()
        return self

    def predict(self, X: np.ndarray, quantiles: Sequence[float]) -> np.ndarray:
        """The smallest target up to which the weights add up to q; shape (n, quantiles)."""
        places = self.forest.apply(X) + self._begin
        reached = _sparse(places, np.ones(places.shape), self._weights.shape[0])
        predicted = np.empty((len(X), len(quantiles)))
        weights = (reached @ self._weights).tocsr()
        weights.sort_indices()  # columns are training rows by ascending target
        for i in range(len(X)):
            own = slice(weights.indptr[i], weights.indptr[i + 1])
            total = np.cumsum(weights.data[own])
            at = np.searchsorted(total, np.asarray(quantiles) - 1e-12)
            predicted[i] = self._y[weights.indices[own][np.minimum(at, total.size - 1)]]
        return predicted


def _sparse(places: np.ndarray, values: np.ndarray, n_places: int) -> csr_array:
    """One row for each row of ``places``, shape (n, trees), with a value at each place."""
    n, n_trees = places.shape
    begin = np.arange(n + 1) * n_trees
    return csr_array((values.ravel(), places.ravel(), begin), shape=(n, n_places))
