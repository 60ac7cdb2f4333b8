"""Importances of features by how much the trees use them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..bagging.bagging import BaggingClassifier, BaggingRegressor
from ..bagging.base import joined_forest
from ..forest.forest import Forest
from ..forest.structure import KINDS, feature_sums


def feature_importances(model: Any, kind: str = "gain", *, normalize: bool = True) -> np.ndarray:
    """Sum up the splits of each feature over all trees.

    All of these say how the trees were grown, and favour features of many values:
    ``permutation_importance`` measures how much the predictions depend on a feature.

    Parameters
    ----------
    model : fitted estimator of this package, or Forest
        A tree, a forest, boosting, or a bag of trees that see all features.
    kind : {"gain", "cover", "frequency"}, default="gain"
        The sum of the splits' gains (decrease of the impurity, or of the loss), the weight of the
        training rows that came to the splits (boosting: the sum of their hessians), or the number
        of splits.
    normalize : bool, default=True
        Whether the most important feature gets 100 and the others their share of it (Friedman
        2001). All are 0 where there is no split.

    Returns
    -------
    float64, shape (n_features,), NumPy

    Raises
    ------
    ValueError, TypeError
        A bad kind, or a model without trees of this package.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuens import GradientBoostingClassifier
    >>> from gpuens.inspection import feature_importances
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GradientBoostingClassifier(n_estimators=5, device="cpu").fit(X, y)
    >>> feature_importances(model).max().item()
    100.0
    """
    if not (isinstance(kind, str) and kind in KINDS):
        raise ValueError(f"kind must be {' or '.join(map(repr, KINDS))}, got {kind!r}.")
    if not isinstance(normalize, (bool, np.bool_)):
        raise ValueError(f"normalize must be True or False, got {normalize!r}.")
    total = feature_sums(forest_of(model), kind)
    largest = float(total.max())
    return 100.0 * (total / largest) if normalize and largest > 0 else total


def forest_of(model: Any) -> Forest:
    """Return the trees of a fitted model. Raises a TypeError if it has none of this package, or
    trees that know the features by other numbers."""
    if isinstance(model, Forest):
        return model
    check_is_fitted(model)
    forest = getattr(model, "forest_", None)
    if isinstance(model, (BaggingClassifier, BaggingRegressor)):
        is_tree = hasattr(model.estimators_[0], "forest_")
        forest = joined_forest(model) if is_tree else None
    if not isinstance(forest, Forest):
        raise TypeError(
            f"{type(model).__name__} has no trees of this package that see all features. Pass a "
            "tree, a forest, boosting or a bag of trees, or take permutation_importance, which "
            "works with any model."
        )
    return forest
