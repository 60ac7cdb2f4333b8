"""Grids of feature values on which partial dependence is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..devices.placement import module_of, on_host, to_numpy
from ..estimators.parameters import integer, is_number
from ..kernels.runtime.arrays import Array
from .columns import Columns

PLOTTING_POSITION = 0.4
"""Parameter of the quantiles (alpha and beta of Hyndman and Fan 1996), as in scikit-learn."""


@dataclass(frozen=True)
class GridSettings:
    """Settings by which grid values are chosen: the ends of the grid as ``percentiles`` of the
    feature, ``resolution``, the most values of a numeric feature, and ``custom`` values by
    position."""

    percentiles: tuple[float, float]
    resolution: int
    custom: Mapping[int, np.ndarray]


def grid_settings(
    percentiles: Any, grid_resolution: Any, custom_values: Any, features: Sequence[Any],
    positions: Sequence[int],
) -> GridSettings:  # fmt: skip
    """Check the user's settings of the grid; ``custom_values`` has the features as the user wrote
    them for its keys. Raises a ValueError if the percentiles are not two shares in ascending order,
    there are fewer than two points, or custom values are empty or not a one-dimensional array."""
    ends = tuple(percentiles) if isinstance(percentiles, (tuple, list, np.ndarray)) else ()
    if len(ends) != 2 or not all(map(is_number, ends)) or not 0 <= ends[0] < ends[1] <= 1:
        raise ValueError(
            "percentiles must be two numbers, 0 <= percentiles[0] < percentiles[1] <= 1, got "
            f"{percentiles!r}."
        )
    integer(2).check("grid_resolution", grid_resolution)
    if custom_values is not None and not isinstance(custom_values, Mapping):
        raise ValueError(
            f"custom_values must be a dict from features to their values, got {custom_values!r}."
        )
    custom = {
        position: _custom(custom_values[feature], feature)
        for feature, position in zip(features, positions, strict=True)
        if custom_values and feature in custom_values
    }
    return GridSettings((float(ends[0]), float(ends[1])), int(grid_resolution), custom)


def axis_of(
    columns: Columns, feature: int, is_categorical: bool, settings: GridSettings, model: Any
) -> np.ndarray:
    """Return the grid values of one feature, NumPy: numbers with NaN for missing ones, or text as
    objects; as the user gave them, or ascending. Raises a ValueError if the feature has an integer
    type, or was categorical in training, and is not named as categorical; it has no values; its
    percentiles are too close; custom values are of the wrong type, or categories that training did
    not have."""
    known = _training_categories(model, feature)
    label = columns.label(feature)
    if is_categorical:
        custom = settings.custom.get(feature)
        if custom is None:
            return _all_categories(columns, feature)
        _require_categories(custom, known, label)
        return custom
    if known is not None or columns.is_text(feature):
        raise ValueError(
            f"The column {label} holds categories, which have no percentiles: name it in "
            "categorical_features too."
        )
    if columns.is_integer(feature):
        raise ValueError(
            f"The column {label} contains integer data. A grid of numbers would be rounded to "
            "integers: convert the column to floats, or name it in categorical_features for a grid "
            "of the values that occur."
        )
    numbers = columns.numbers(feature)
    if feature in settings.custom:
        return _as_numbers(settings.custom[feature], numbers.dtype, label)
    return _percentile_grid(numbers, settings, label)


def _custom(values: Any, feature: Any) -> np.ndarray:
    values = on_host(values)
    texts = not hasattr(values, "dtype") and any(isinstance(v, str) for v in values)
    array = np.asarray(values, dtype=object if texts else None)
    if array.ndim != 1:
        raise ValueError(
            "The custom grid for some features is not a one-dimensional array. "
            f"Feature {feature}: {array.ndim} dimensions"
        )
    if array.size == 0:
        raise ValueError(f"custom_values of feature {feature!r} is empty: pass at least one value.")
    return array.astype(object) if array.dtype.kind in "UST" else array


def _as_numbers(values: np.ndarray, dtype: np.dtype, label: str) -> np.ndarray:
    try:
        return values.astype(dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"custom_values of the column {label} must be numbers like the column ({error}), or "
            "the column must be named in categorical_features."
        ) from error


def _training_categories(model: Any, feature: int) -> np.ndarray | None:
    """Return the categories that a model of this package was fitted with, None for numeric
    features."""
    categories = getattr(model, "_categories", None)
    values = getattr(categories, "values", None)
    return values[feature] if isinstance(values, tuple) and feature < len(values) else None


def _all_categories(columns: Columns, feature: int) -> np.ndarray:
    values = columns.column(feature).distinct()
    if len(values) == 0:
        raise ValueError(
            f"The column {columns.label(feature)} has only missing values, so no grid "
            "can be made. Pass custom_values."
        )
    return values


def _require_categories(custom: np.ndarray, known: np.ndarray | None, label: str) -> None:
    """Refuse values that were not in the training data: all would silently count as missing."""
    if known is None:
        return
    listed = known.tolist()
    unknown = [v for v in custom.tolist() if v is not None and v == v and v not in listed]
    if unknown:
        raise ValueError(
            f"custom_values of the column {label} has categories that training did not have: "
            f"{unknown}. It had {listed[:20]}{' ...' if len(listed) > 20 else ''}."
        )


def _percentile_grid(values: Array, settings: GridSettings, label: str) -> np.ndarray:
    """Return equal steps between two percentiles of the finite values, or all distinct values where
    these are fewer."""
    xp = module_of(values)
    ordered = xp.sort(values[xp.isfinite(values)], stable=False)
    if ordered.size == 0:
        raise ValueError(
            f"The column {label} has no finite value, so no grid can be made. Pass custom_values."
        )
    is_new = xp.ones(ordered.size, dtype=xp.bool)
    is_new[1:] = ordered[1:] != ordered[:-1]
    if int(is_new.sum()) < settings.resolution:
        return to_numpy(ordered[is_new])
    low, high = (_quantile(ordered, share) for share in settings.percentiles)
    if np.allclose(low, high):
        raise ValueError(
            f"The percentiles {settings.percentiles} of the column {label} are too close to each "
            "other, unable to build the grid. Please choose percentiles that are further apart."
        )
    return np.linspace(low, high, num=settings.resolution).astype(ordered.dtype)


def _quantile(ordered: Array, share: float) -> float:
    """Interpolate between two of the ordered values."""
    n = ordered.size
    at = n * share + PLOTTING_POSITION + share * (1.0 - 2.0 * PLOTTING_POSITION)
    below = min(max(int(at), 1), n - 1) if n > 1 else 1
    part = min(max(at - below, 0.0), 1.0)
    low, high = float(ordered[below - 1]), float(ordered[min(below, n - 1)])
    return (1.0 - part) * low + part * high
