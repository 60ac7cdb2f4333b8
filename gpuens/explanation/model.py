"""The trees that explanations are computed of."""

from __future__ import annotations

from typing import Any

from ..forest.plain import require_plain_trees
from ..forest.sum_of_trees import NotASumOfTreesError, SumOfTrees, described


def sum_of_trees(model: Any) -> SumOfTrees:
    """Return the trees of a fitted model.

    Raises
    ------
    TypeError
        The model is not of this package, or does not add up the values of its trees.
    ValueError
        Its trees are more than splits of single features and constants.
    sklearn.exceptions.NotFittedError
    """
    instead = "use gpuens.inspection.permutation_importance, or "
    try:
        trees = described(model)
    except NotASumOfTreesError as error:
        raise NotASumOfTreesError(
            f"model is a {type(model).__name__} whose prediction is not a sum of the values of "
            f"trees: {error}. Use gpuens.inspection.permutation_importance, or shap."
        ) from error
    if trees is None:
        kind = model.__name__ if isinstance(model, type) else type(model).__name__
        raise TypeError(
            f"model must be a fitted gradient boosting, random forest, extra trees, decision tree "
            f"or isolation forest model of gpuens, a bag of its trees, or a model imported with "
            f"gpuens.from_xgboost and the like, got {kind}. Predictions of other models are not "
            "sums of the values of trees: use gpuens.inspection.permutation_importance, or shap."
        )
    require_plain_trees(trees.forest, "An explanation by Shapley values", instead)
    return trees
