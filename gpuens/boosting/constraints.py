"""Monotone and interaction constraints of gradient boosting: reading them, and leaf values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from numbers import Integral
from typing import Any

import numpy as np

from ..estimators.parameters import monotone_constraints
from ..kernels.growth.grow import GrownTrees
from ..kernels.growth.params import FeatureRules
from ..kernels.runtime.compilation import kernel
from ..kernels.scalars.bounds import between_values, within


class _NoFeatureError(ValueError):
    """What should name a feature is no position and no name."""


def feature_rules(estimator: Any, is_categorical: np.ndarray, n_classes: int) -> FeatureRules:
    """Read ``monotonic_cst`` and ``interaction_cst`` of an estimator that has read X.

    Parameters
    ----------
    estimator : object
        Has the parameters, and ``feature_names_in_`` where X had names.
    is_categorical : bool, shape (n_features,)
    n_classes : int
        0 for a regression.

    Raises
    ------
    ValueError, TypeError
        Names the parameter, what it got and what it wants.
    """
    names = getattr(estimator, "feature_names_in_", None)
    names = None if names is None else list(map(str, names))
    n_features = is_categorical.size
    monotone = monotone_constraints(
        _by_position(estimator.monotonic_cst, names, n_features),
        is_categorical,
        (n_classes,) if n_classes else (),
        1,
    )
    try:
        groups = _groups(estimator.interaction_cst, names, n_features)
    except _NoFeatureError as error:
        raise ValueError(
            "Interaction constraints must consist of integer indices in [0, n_features - 1] = "
            f"[0, {n_features - 1}], specifying the position of features, or of names: {error}"
        ) from error
    return FeatureRules(monotone, groups, is_categorical)


def _by_position(monotonic_cst: Any, names: list[str] | None, n_features: int) -> Any:
    """The constraints in the order of the features, if they are given by name."""
    if not isinstance(monotonic_cst, Mapping):
        return monotonic_cst
    positions = [_position(name, "monotonic_cst", names, n_features) for name in monotonic_cst]
    if any(not isinstance(name, str) for name in monotonic_cst):
        raise ValueError(
            f"monotonic_cst as a dict must have names of X's columns as keys, got "
            f"{monotonic_cst!r}. Pass a list with -1, 0 or 1 for each feature instead."
        )
    constraints = np.zeros(n_features, object)
    constraints[positions] = list(monotonic_cst.values())
    return constraints.tolist()


def _position(feature: Any, parameter: str, names: list[str] | None, n_features: int) -> int:
    if isinstance(feature, Integral) and not isinstance(feature, (bool, np.bool_)):
        if 0 <= int(feature) < n_features:
            return int(feature)
        raise _NoFeatureError(
            f"{parameter} must name features from 0 to {n_features - 1}, for X has {n_features} "
            f"features, got {feature!r}."
        )
    if isinstance(feature, str):
        if names is None:
            raise ValueError(
                f"{parameter} names the feature {feature!r}, but X has no column names. Pass "
                "positions, or a data frame."
            )
        if feature in names:
            return names.index(feature)
        raise ValueError(
            f"{parameter} names a column that X does not have: {feature!r}. Its columns are "
            f"{', '.join(map(repr, names[:20]))}{', ...' if len(names) > 20 else ''}."
        )
    raise _NoFeatureError(
        f"{parameter} must name features by position or by name, got {feature!r}."
    )


def _groups(
    interaction_cst: Any, names: list[str] | None, n_features: int
) -> tuple[tuple[int, ...], ...]:
    """Groups of positions, ascending; the features of no group are a group of their own."""
    if interaction_cst is None or isinstance(interaction_cst, str):
        return ()
    groups = []
    for group in interaction_cst:
        if isinstance(group, (str, Mapping)) or not isinstance(group, Collection):
            raise ValueError(
                "Interaction constraints must be a sequence of tuples or lists: interaction_cst "
                "must be None, 'pairwise', 'no_interactions' or a list of sets of features; one "
                f"of its entries is {group!r}."
            )
        positions = {_position(f, "interaction_cst", names, n_features) for f in group}
        groups.append(tuple(sorted(positions)))
    rest = set(range(n_features)).difference(*groups)
    return tuple(group for group in (*groups, tuple(sorted(rest))) if group)


def bound_values(trees: GrownTrees, t: int, monotone: np.ndarray, value: np.ndarray) -> np.ndarray:
    """The values of tree ``t``'s nodes, in the order that monotone constraints ask for.

    From the root down, each node's value is put between the bounds that the splits above it
    set: the middle between the values of the two children of a constrained feature is where
    the values below the one end and those below the other begin. So no leaf is on the wrong side
    of another, however its value was found.

    Parameters
    ----------
    trees : GrownTrees
    t : int
    monotone : int8, shape (n_features,)
    value : float64, shape (n_nodes,)

    Returns
    -------
    float64, shape (n_nodes,)
    """
    nodes = slice(trees.offset[t], trees.offset[t + 1])
    bounded = value.copy()
    _bound_values(trees.feature[nodes], trees.left[nodes], trees.right[nodes], monotone, bounded)
    return bounded


@kernel
def _bound_values(feature, left, right, monotone, value):
    """In place; children have higher numbers than their parents."""
    low = np.full(value.size, -np.inf)
    high = np.full(value.size, np.inf)
    for node in range(value.size):
        value[node] = within(value[node], low[node], high[node])
        if left[node] < 0:
            continue
        a, b = left[node], right[node]
        low[a] = low[b] = low[node]
        high[a] = high[b] = high[node]
        middle = between_values(
            within(value[a], low[node], high[node]), within(value[b], low[node], high[node])
        )
        direction = monotone[feature[node]]
        if direction > 0:
            high[a] = low[b] = middle
        elif direction < 0:
            low[a] = high[b] = middle
