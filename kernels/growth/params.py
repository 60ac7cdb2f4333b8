"""Settings of growth, and the rules of the features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

UNLIMITED = 2**31 - 1


class GrowthParams(NamedTuple):
    """Settings of growth, all numbers (see ``GradientBoostingRegressor`` for their meaning).

    max_leaves, max_depth : int
        ``UNLIMITED`` where there is no limit.
    min_gain : float
        A split needs ``gain > min_gain``, in the units of the loss.
    colsample_bylevel, colsample_bynode : float
        Fractions of the tree's features, and of those of the level.
    max_path_features : int
        Most different features of a path from the root; ``UNLIMITED`` where there is no limit.
    cat_smooth : float
        Added to the hessian of a category where categories are ordered. A category with fewer
        rows in a node goes with its missing values. ``FeatureRules`` may have other values.
    cat_l2 : float
        Added to ``l2`` where ordered categories are cut.
    max_cat_to_onehot : int
        A feature with at most so many bins is split into one category and the others.
    min_samples_split : int
        Fewest rows of a node that is split.
    is_symmetric : int
        1: the nodes of a level are split alike (see ``levels``); ``max_leaves`` is ``UNLIMITED``
        then and ``max_depth`` is not.
    """

    max_leaves: int
    max_depth: int
    min_samples_leaf: int
    min_sum_hessian: float
    l2: float
    min_gain: float
    colsample_bytree: float
    colsample_bylevel: float
    colsample_bynode: float
    max_path_features: int = UNLIMITED
    cat_smooth: float = 10.0
    cat_l2: float = 0.0
    max_cat_to_onehot: int = 4
    min_samples_split: int = 2
    is_symmetric: int = 0


class FeatureRules(NamedTuple):
    """Properties of the features, beyond their bins, that a batch of trees needs (NumPy).

    monotone : int8, shape (n_features,) or (0,)
        1: values must not fall from left to right at its splits, -1: not rise, 0: free.
    groups : tuple of tuples of int
        A path from the root may use features only if one group holds them all; empty where all
        may interact.
    categorical : bool, shape (n_features,) or (0,)
        Which features are split by categories, one for each bin.
    cat_smooth : float64, shape (n_features,) or (0,)
        Takes the place of the setting of that name.
    """

    monotone: np.ndarray = np.zeros(0, np.int8)
    groups: tuple[tuple[int, ...], ...] = ()
    categorical: np.ndarray = np.zeros(0, np.bool_)
    cat_smooth: np.ndarray = np.zeros(0)


NO_RULES = FeatureRules()
