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

from ..devices.placement import module_of, to_numpy
from ..kernels.runtime.arrays import Array

BINS_OF_A_GAP = 16
"""Bins of a feature for each cut that its gaps may ask for: at most 15 of 254 cuts."""
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
        return cut_points_of_sorted(_without_nan(xp.sort(values)), None, max_bins)
    values = xp.where(weight > 0, values, xp.asarray(np.nan, values.dtype))
    order = xp.argsort(values)
    ordered = _without_nan(values[order])
    return cut_points_of_sorted(ordered, weight[order[: ordered.size]], max_bins)


def cut_points_of_sorted(values: Array, weight: Array | None, max_bins: int) -> np.ndarray:
    """``cut_points`` for ascending values without NaN, and weights above zero."""
    if values.size == 0:
        return np.empty(0)
    xp = module_of(values)
    begins = xp.ones(values.size, np.bool_)
    begins[1:] = values[1:] != values[:-1]
    first = xp.flatnonzero(begins)
    distinct = values[first].astype(np.float64) + 0.0  # equal values may begin with a zero below 0
    if distinct.size <= max_bins:
        distinct = to_numpy(distinct)
        return midpoints(distinct[:-1], distinct[1:])
    mass = xp.empty(first.size, np.float64)
    if weight is None:
        mass[:-1] = first[1:] - first[:-1]
        mass[-1:] = values.size - first[-1:]
    else:
        below = xp.cumsum(whole_weights(weight))
        mass[:-1] = below[first[1:] - 1]
        mass[-1:] = below[-1:]
        mass[1:] -= mass[:-1].copy()
    return cut_points_of_distinct(distinct, mass, max_bins)


def cut_points_of_distinct(distinct: Array, mass: Array, max_bins: int) -> np.ndarray:
    """``cut_points`` for more than ``max_bins`` ascending values that differ, float64, and the
    weight of each as whole numbers."""
    xp = module_of(distinct)
    last = _ends_of_bins(mass, max_bins)
    outer = _wide_gaps(distinct, last, max_bins // BINS_OF_A_GAP)
    if not np.isin(outer, to_numpy(last)).all():
        by_weight = to_numpy(_ends_of_bins(mass, max_bins - outer.size))
        last = xp.asarray(np.union1d(by_weight, outer))
    return midpoints(to_numpy(distinct[last]), to_numpy(distinct[last + 1]))


def whole_weights(weight: Array) -> Array:
    """Return weights times a power of two, rounded to whole numbers.

    A sample of 200,000 keeps 34 bits of its largest weight.
    """
    xp = module_of(weight)
    bits = WHOLE_BITS - int(weight.size).bit_length()
    return xp.rint(xp.ldexp(weight, bits - math.frexp(float(weight.max()))[1]))


def _without_nan(ordered: Array) -> Array:
    """Return sorted values without NaN, which comes last."""
    return ordered[: int((ordered == ordered).sum())]


def _ends_of_bins(mass: Array, max_bins: int) -> Array:
    """Return the distinct values (all but the last) that are the last of their bin.

    Values that outweigh an average bin have one each; the others share the rest evenly.
    """
    xp = module_of(mass)
    heavy = mass >= mass.sum() / max_bins
    light = xp.where(heavy, 0.0, mass)
    shared = xp.cumsum(light) - 0.5 * light
    of_light = max(float(light.sum()), 1e-300)
    n_light = max(1, max_bins - int(heavy.sum()))
    while True:
        bin_of = xp.floor(shared * (n_light / of_light))
        ends = xp.flatnonzero((bin_of[1:] != bin_of[:-1]) | heavy[1:] | heavy[:-1])
        excess = ends.size + 1 - max_bins
        if excess <= 0:
            return ends
        if n_light == 1:  # light values between heavy ones: join the emptiest neighbours
            order = np.argsort(to_numpy(mass[ends]), kind="stable")
            return xp.asarray(np.sort(to_numpy(ends)[order[excess:]]))
        n_light = max(1, n_light - excess)


def _wide_gaps(distinct: Array, ends: Array, most: int) -> np.ndarray:
    """Return the values (of all but the last) before the wide gaps.

    Gaps count in the outer quarters of the bins, and are wide if they are wider than the distance
    to the middle. Of more than ``most`` the widest are returned; of equal ones the lower.
    """
    if not most or not ends.size:
        return np.empty(0, np.int64)
    xp = module_of(distinct)
    n = ends.size
    low, middle, high = to_numpy(ends)[[n // 4, n // 2, n - 1 - n // 4]].tolist()
    centre = distinct[middle]
    with np.errstate(invalid="ignore", over="ignore"):
        gap = distinct[1:] - distinct[:-1]
        is_wide = xp.zeros(gap.size, np.bool_)
        is_wide[:low] = gap[:low] > centre - distinct[1 : low + 1]
        is_wide[high:] = gap[high:] > distinct[high:-1] - centre
    wide = to_numpy(xp.flatnonzero(is_wide))
    if wide.size > most:
        widest = np.argsort(-to_numpy(gap[wide]), kind="stable")
        wide = np.sort(wide[widest[:most]])
    return wide


def midpoints(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Half-way between low < high, always with ``low <= midpoint < high``: next to the limits
    of the floats, and beside infinities, it is ``low`` itself."""
    with np.errstate(invalid="ignore", over="ignore"):
        middle = 0.5 * low + 0.5 * high
    return np.where((low <= middle) & (middle < high), middle, low)


def round_down(thresholds: np.ndarray, dtype: Any) -> np.ndarray:
    """Return the largest numbers of ``dtype`` not above the thresholds: for x of that type,
    ``x <= rounded`` is equivalent to ``x <= threshold``."""
    target = np.dtype(dtype)
    with np.errstate(over="ignore", under="ignore"):
        rounded = thresholds.astype(target)
        above = rounded.astype(np.float64) > thresholds
        return np.where(above, np.nextafter(rounded, target.type(-np.inf)), rounded)
