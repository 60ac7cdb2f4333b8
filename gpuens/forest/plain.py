"""The refusal of trees that are more than splits of single features and constants in leaves."""

from __future__ import annotations

from typing import Any

from .linear import LinearForest
from .oblique import ObliqueForest

SPECIAL = (LinearForest, ObliqueForest)


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
    ValueError
    """
    if isinstance(forest, LinearForest):
        raise ValueError(
            f"{task} needs leaves with constant values, but those of the model are linear "
            f"functions of the features: {instead}train with linear_leaves=False."
        )
    if isinstance(forest, ObliqueForest):
        raise ValueError(
            f"{task} needs splits of single features, but those of the model are of sums of "
            f"features: {instead}train a RandomForestClassifier or a RandomForestRegressor."
        )
