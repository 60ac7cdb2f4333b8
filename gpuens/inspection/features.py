"""Which features a user means."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

from ..devices.placement import on_host
from .columns import Columns

SHOWN = 20
"""Names that an error message lists."""


def feature_names_of(columns: Columns, feature_names: Any) -> list[Any] | None:
    """The names of the features: those given, or the columns of a data frame.

    Raises
    ------
    ValueError
        Not one for each feature, or repeated.
    """
    if feature_names is None:
        return columns.names
    names = np.asarray(feature_names).tolist()
    if len(names) != columns.shape[1]:
        raise ValueError(
            f"feature_names has {len(names)} names, but X has {columns.shape[1]} features: pass "
            "one for each."
        )
    if len(set(names)) < len(names):
        raise ValueError(f"feature_names should not contain duplicates, got {names}.")
    return names


def positions_of(
    features: Any, columns: Columns, names: Sequence[Any] | None, argument: str = "features"
) -> list[int]:
    """Features as positions.

    Parameters
    ----------
    features : int, str, list of these, or mask of bool
    columns : Columns
    names : list or None
        Of the features.
    argument : str
        What error messages call the features.

    Returns
    -------
    list of int
        At least one, all different.

    Raises
    ------
    ValueError
        A feature is not there, or named twice; or there is none.
    """
    n_features = columns.shape[1]
    wanted = [features] if isinstance(features, (str, Integral)) else list(on_host(features))
    wanted = [w.item() if isinstance(w, np.generic) else w for w in wanted]
    if wanted and all(isinstance(w, bool) for w in wanted):
        if len(wanted) != n_features:
            raise ValueError(
                f"{argument} is a mask of {len(wanted)} booleans, but X has {n_features} features: "
                "pass one for each."
            )
        wanted = [f for f, chosen in enumerate(wanted) if chosen]
    if not wanted:
        raise ValueError(f"{argument} names no feature: pass at least one position or name.")
    positions = [_position(w, n_features, names, argument) for w in wanted]
    if len(set(positions)) < len(positions):
        raise ValueError(f"{argument} names a feature more than once: {wanted}.")
    return positions


def _position(feature: Any, n_features: int, names: Sequence[Any] | None, argument: str) -> int:
    if isinstance(feature, str):
        if names is None:
            raise ValueError(
                f"{argument} names {feature!r}, but X is no data frame. Pass positions, "
                "feature_names, or a data frame."
            )
        if feature not in names:
            some = ", ".join(map(repr, names[:SHOWN])) + (", ..." if len(names) > SHOWN else "")
            raise ValueError(
                f"Some column names are not columns of the dataframe: {argument} names "
                f"{feature!r}, the columns are {some}."
            )
        return list(names).index(feature)
    if not isinstance(feature, Integral) or isinstance(feature, bool):
        raise ValueError(f"{argument} must be positions, names or a mask, got {feature!r}.")
    if not 0 <= int(feature) < n_features:
        raise ValueError(
            f"all features must be in [0, {n_features - 1}], for X has {n_features} features; "
            f"{argument} has {feature}."
        )
    return int(feature)


def categorical_positions(
    categorical_features: Any, columns: Columns, names: Sequence[Any] | None, model: Any
) -> set[int]:
    """The features whose grid is made of their categories.

    Parameters
    ----------
    categorical_features : mask, positions, names, or None
        None: those that the model was fitted with as categorical, and columns of text.
    columns, names
        As for ``positions_of``.
    model : estimator

    Raises
    ------
    ValueError
        Features that are not there, or none at all.
    """
    n_features = columns.shape[1]
    if categorical_features is None:
        known = getattr(model, "is_categorical_", None)
        chosen = set(np.flatnonzero(known).tolist()) if known is not None else set()
        return chosen | {f for f in range(n_features) if columns.is_text(f)}
    listed = np.asarray(on_host(categorical_features))
    if listed.size == 0:
        raise ValueError(
            "Passing an empty list (`[]`) to `categorical_features` is not supported. Use `None` "
            "instead to indicate that there are no categorical features."
        )
    return set(positions_of(listed.tolist(), columns, names, "categorical_features"))
