"""The refusal of trees that are more than splits of single features and constants in leaves."""

from __future__ import annotations

from typing import Any

from .linear import LinearForest
from .oblique import ObliqueForest

SPECIAL = (LinearForest, ObliqueForest)


class SpecialTreesError(ValueError, AttributeError):
    """The trees are more than a task can express.

    It is an ``AttributeError`` too, so that ``hasattr`` and displays of all attributes pass over a
    property that needs plain trees.
    """


def require_plain_trees(forest: Any, task: str, instead: str) -> None:
    """Refuse a forest with linear functions in its leaves, or with splits of projections.

    Parameters
    ----------
    forest : object
    task : str
        The beginning of the message: what needs plain trees.
    instead : str
        What to do, beside training another model.

    Raises
    ------
    SpecialTreesError
    """
    if isinstance(forest, LinearForest):
        raise SpecialTreesError(
            f"{task} needs leaves with constant values, but those of the model are linear "
            f"functions of the features: {instead}train with linear_leaves=False."
        )
    if isinstance(forest, ObliqueForest):
        raise SpecialTreesError(
            f"{task} needs splits of single features, but those of the model are of sums of "
            f"features: {instead}train a RandomForestClassifier or a RandomForestRegressor."
        )
