"""The cut points between the bins of a feature.

Bins hold about the same weight each, which puts an extreme value among its neighbours, however far
away it is. So the outer values are cut by their gaps as well: one that is wider than the distance
from its inner side to the middle of the feature's bins is never inside a bin. A column without such
gaps is cut by weight alone.

All sums are of whole numbers that float64 holds, so neither the order in which a library adds them
nor the device changes a cut.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..devices.placement import module_of
from ..kernels.binning import cut_points as kernel
from ..kernels.runtime.arrays import Array
from ..kernels.scalars.primitives import vectorise
from ..kernels.scalars.routing import midpoint

_midpoint = vectorise(midpoint)

WHOLE_BITS = 52
"""Bits of the largest sum of whole weights; the half of one is exact too."""


def cut_points(values: Array, weight: Array | None, max_bins: int) -> np.ndarray:
    """Return the cut points (float64, ascending, on the host) of one feature.

    Parameters
    ----------
    values : float32 or float64, shape (n_rows,)
        NaN is missing.
    weight : float64, shape (n_rows,), in the same place, or None
        Rows of weight zero have no effect.
    """
    xp = module_of(values)
    if weight is None:
        return cut_points_of_sorted(_without_nan(xp.sort(values, stable=False)), None, max_bins)
    values = xp.where(weight > 0, values, xp.asarray(np.nan, dtype=values.dtype))
    order = xp.argsort(values, stable=False)
    ordered = _without_nan(values[order])
    return cut_points_of_sorted(ordered, weight[order[: ordered.size]], max_bins)


def cut_points_of_sorted(values: Array, weight: Array | None, max_bins: int) -> np.ndarray:
    """``cut_points`` for ascending values without NaN, and weights above zero."""
    if values.size == 0:
        return np.empty(0)
    whole = module_of(values).empty((0, 0)) if weight is None else whole_weights(weight)[None]
    (cuts,) = kernel.cut_points(values[None], whole, max_bins)
    return cuts


def cut_points_of_distinct(distinct: Array, mass: Array, max_bins: int) -> np.ndarray:
    """``cut_points`` for ascending values that differ, and the weight of each as whole numbers."""
    (cuts,) = kernel.cut_points(distinct[None], mass[None], max_bins)
    return cuts


def cut_points_of_table(ordered: Array, max_bins: int) -> list[np.ndarray]:
    """``cut_points`` of the rows of a table, which are ascending, NaN last."""
    return kernel.cut_points(ordered, module_of(ordered).empty((0, 0)), max_bins)


def whole_weights(weight: Array) -> Array:
    """Return weights times a power of two, rounded to whole numbers.

    A sample of 200,000 keeps 34 bits of its largest weight.
    """
    xp = module_of(weight)
    bits = WHOLE_BITS - int(weight.size).bit_length()
    power = bits - math.frexp(float(weight.max()))[1]
    half = power // 2  # 2.0**power may be infinite
    return xp.round(weight * 2.0**half * 2.0 ** (power - half))


def _without_nan(ordered: Array) -> Array:
    """Return sorted values without NaN, which comes last."""
    return ordered[: int((ordered == ordered).sum())]


def midpoints(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return cuts between values, ``low < high`` (see ``kernels.scalars.routing.midpoint``)."""
    with np.errstate(invalid="ignore", over="ignore"):
        return _midpoint(low, high)


def round_down(thresholds: np.ndarray, dtype: Any) -> np.ndarray:
    """Return the largest numbers of ``dtype`` not above the thresholds: for x of that type,
    ``x <= rounded`` is equivalent to ``x <= threshold``."""
    target = np.dtype(dtype)
    with np.errstate(over="ignore", under="ignore"):
        rounded = thresholds.astype(target)
        above = rounded.astype(np.float64) > thresholds
        return np.where(above, np.nextafter(rounded, target.type(-np.inf)), rounded)
