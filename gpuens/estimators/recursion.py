"""Partial dependence by recursion, for ``gpuens.inspection`` and for scikit-learn's function.

scikit-learn's ``partial_dependence`` calls a method of the estimator, but only of instances of
three of its own classes. These are abstract base classes, where others can be registered that have
the methods (PEP 3119) and are not derived from them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..forest.plain import SPECIAL, require_plain_trees
from ..forest.recursion import weighted_recursion
from ..forest.sum_of_trees import NotASumOfTreesError, SumOfTrees, described
from ..inputs.frames import DictionaryColumn


def trees_of_response(estimator: Any) -> SumOfTrees | None:
    """Return the trees of a fitted estimator; None if no response of it is their sum or mean."""
    try:
        trees = described(estimator)
    except NotASumOfTreesError:
        return None
    if trees is None or trees.response is None or isinstance(trees.forest, SPECIAL):
        return None
    return trees


def mean_response(
    trees: SumOfTrees, features: Sequence[int], grid: Sequence[np.ndarray]
) -> np.ndarray:
    """Return the mean response over the training rows at every point of a grid.

    Parameters
    ----------
    features : sequence of int
        Different features.
    grid : sequence of ndarray, shape (n_values_j,)
        Values of each feature as the user wrote them: numbers, or text as objects.

    Returns
    -------
    float64, shape (n_outputs, n_values_0, n_values_1, ...)
        Of probabilities of two classes the second only.
    """
    codes = [_codes(trees, feature, values) for feature, values in zip(features, grid, strict=True)]
    raw = weighted_recursion(trees.forest, trees.share, features, codes) / trees.n_averaged
    return raw[1:] if trees.response == "predict_proba" and len(raw) == 2 else raw


def _codes(trees: SumOfTrees, feature: int, values: np.ndarray) -> np.ndarray:
    """Return values of a feature as the trees compare them."""
    known = trees.categories[feature] if trees.categories else None
    if known is None:
        return values.astype(np.float64)
    column = DictionaryColumn.of_objects(values.tolist(), f"X's feature {feature}")
    return column.encode(known).astype(np.float64)


class HasRecursion:
    """Mixin of estimators of trees for scikit-learn's ``partial_dependence(method="recursion")``,
    which calls the method of those that have a ``_recursive_base`` (see ``ForestEstimator``)."""

    def _compute_partial_dependence_recursion(self, grid: Any, target_features: Any) -> np.ndarray:
        """Return the mean raw prediction at each point of a grid.

        Parameters
        ----------
        grid : array, shape (n_points, n_target_features)
            Values of the features; text of categorical ones.
        target_features : array of int, shape (n_target_features,)

        Returns
        -------
        float64, shape (n_outputs, n_points)

        Raises
        ------
        ValueError
            The predictions are not a function of the trees alone.

        Warns
        -----
        UserWarning
            The estimator predicts something else than the mean or sum of its trees.
        """
        trees = self._recursive_trees()
        features, values, places = [], [], []
        for feature, column in zip(
            np.asarray(target_features).tolist(), np.asarray(grid).T, strict=True
        ):
            distinct = list(dict.fromkeys(column.tolist()))  # NaN may come more than once
            number = {value: k for k, value in enumerate(distinct)}
            is_text = any(isinstance(value, str) for value in distinct)
            features.append(feature)
            values.append(np.array(distinct, object if is_text else np.float64))
            places.append([number[value] for value in column.tolist()])
        chosen: Any = (slice(None), *places)
        found: np.ndarray = mean_response(trees, features, values)[chosen]
        return found

    def _recursive_trees(self) -> SumOfTrees:
        """Return the trees that the recursion runs through, whatever is predicted of their sum."""
        try:
            trees: Any = described(self)
        except NotASumOfTreesError as error:
            raise ValueError(
                f"The recursion needs predictions that are made of the trees alone, but {error}. "
                "Pass method='brute'."
            ) from error
        instead = "set method='brute', use gpuens.inspection.partial_dependence, or "
        require_plain_trees(trees.forest, "method='recursion'", instead)
        if trees.response is not None:
            return trees
        warnings.warn(
            f"The recursion gives the mean raw prediction of {type(self).__name__}, which "
            "predicts a function of it. Pass method='brute' for the mean of the predictions.",
            stacklevel=3,
        )
        return replace(trees, response="decision_function")
