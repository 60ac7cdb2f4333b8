"""Estimators whose response is a sum over trees, so that the weighted pass gives its mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier

from ..bagging.bagging import BaggingClassifier, BaggingRegressor
from ..bagging.base import joined_forest
from ..boosting.classifier import GradientBoostingClassifier
from ..boosting.regressor import GradientBoostingRegressor
from ..forest.forest import Forest
from ..forests.quantile import QuantileForestRegressor
from ..inputs.frames import DictionaryColumn
from ..trees.cart import CartEstimator
from .dependence_grid import Axis
from .dependence_recursion import weighted_recursion

IDENTITY_LINK = ("squared_error", "absolute_error", "huber", "quantile")
"""Losses of boosting whose raw prediction is the prediction."""
HESSIAN_IS_WEIGHT = ("squared_error",)
"""Losses of boosting whose hessian is the row's weight and nothing else."""


class AdditiveTrees(NamedTuple):
    """Trees that make a response.

    forest : Forest
    share : float64, shape (n_nodes,)
        Of the training rows, or of their weight, that came to each node.
    n_trees : int
        What the sum over the trees is divided by.
    response : "predict", "predict_proba" or "decision_function"
    categories : sequence of ndarray or None, one for each feature
        The values of categorical features; empty if there are none.
    """

    forest: Forest
    share: np.ndarray
    n_trees: int
    response: str
    categories: Sequence[np.ndarray | None]

    def mean_at(self, axes: Sequence[Axis]) -> np.ndarray:
        """The mean response at every point of a grid: float64, shape
        (n_outputs, n_values_0, ...); of two classes only the second."""
        codes = [self._codes(axis) for axis in axes]
        features = [axis.feature for axis in axes]
        raw = weighted_recursion(self.forest, self.share, features, codes) / self.n_trees
        return raw[1:] if self.response == "predict_proba" and len(raw) == 2 else raw

    def _codes(self, axis: Axis) -> np.ndarray:
        """The values of an axis as the trees compare them."""
        known = self.categories[axis.feature] if self.categories else None
        if known is None:
            return axis.values.astype(np.float64)
        values = axis.values.tolist()
        column = DictionaryColumn.of_objects(values, f"X's feature {axis.feature}")
        return column.encode(known).astype(np.float64)


def additive_trees(estimator: Any) -> AdditiveTrees | None:
    """The trees of a fitted estimator of this package, None where its response is no mean or sum of
    what they predict.

    The nodes' shares are the weights of the training rows. Boosting keeps them only for the
    squared error, whose hessians they are; for other losses rows count alike.
    """
    forest: Forest | None = getattr(estimator, "forest_", None)
    reader = estimator
    if isinstance(estimator, (BaggingClassifier, BaggingRegressor)):
        if not hasattr(estimator.estimators_[0], "forest_") or not estimator._averages_values():
            return None
        forest, reader = joined_forest(estimator), estimator.estimators_[0]
    if forest is None:
        return None
    if isinstance(estimator, (GradientBoostingClassifier, GradientBoostingRegressor)):
        loss = getattr(estimator.loss, "name", estimator.loss)  # of a loss object, or a name
        if not is_classifier(estimator) and loss not in IDENTITY_LINK:
            return None
        rows = forest.n_samples.astype(np.float64)
        share = forest.cover if loss in HESSIAN_IS_WEIGHT else rows
        response = "decision_function" if is_classifier(estimator) else "predict"
        return AdditiveTrees(forest, share, 1, response, _categories(reader))
    if not isinstance(reader, CartEstimator):
        return None
    if isinstance(reader, QuantileForestRegressor) and not _predicts_means(reader):
        return None
    response = "predict_proba" if is_classifier(estimator) else "predict"
    return AdditiveTrees(forest, forest.cover, forest.n_trees, response, _categories(reader))


def _predicts_means(forest: QuantileForestRegressor) -> bool:
    default = forest.default_quantiles
    return isinstance(default, str) and default == "mean"


def _categories(estimator: Any) -> Sequence[np.ndarray | None]:
    categories = getattr(estimator, "_categories", None)
    return () if categories is None else categories.values
