"""Reference twin of ``kernels.binning.cut_points``."""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace

from ...runtime.arrays import Array
from ...runtime.reference.arrays import beside, to_host
from ...scalars.primitives import vectorise
from ...scalars.routing import midpoint
from ..cut_points import BINS_OF_A_GAP

_midpoint = vectorise(midpoint)


def sort_rows(table: Array) -> Array:
    return array_namespace(table).sort(table, axis=1)


def cut_points(ordered: Array, weight: Array, max_bins: int) -> list[np.ndarray]:
    xp = array_namespace(ordered)
    known = xp.astype(ordered == ordered, xp.int64)
    n_values = to_host(xp.sum(known, axis=1)).tolist()
    return [
        _cut(ordered[f, :n], weight[f, :n] if weight.size else None, max_bins)
        for f, n in enumerate(n_values)
    ]


def _cut(values: Array, weight: Array | None, max_bins: int) -> np.ndarray:
    if values.size == 0:
        return np.empty(0)
    xp = array_namespace(values)
    is_first = xp.ones(values.shape[0], dtype=xp.bool)
    is_first[1:] = values[1:] != values[:-1]
    first = xp.nonzero(is_first)[0]
    distinct = xp.astype(xp.take(values, first), xp.float64) + 0.0  # a zero may be below 0
    n = first.shape[0]
    if n <= max_bins:
        on_host = to_host(distinct)
        return _between(on_host[:-1], on_host[1:])
    below = xp.zeros(n + 1, dtype=xp.float64)
    if weight is None:
        below[1:-1] = xp.astype(first[1:], xp.float64)
        below[-1:] = float(values.shape[0])
    else:
        sums = xp.cumulative_sum(weight)
        below[1:-1] = xp.take(sums, first[1:] - 1)
        below[-1:] = sums[-1:]
    mass = below[1:] - below[:-1]
    last = _ends_of_bins(mass, max_bins)
    outer = _wide_gaps(distinct, last, max_bins // BINS_OF_A_GAP)
    if not np.isin(outer, last).all():
        last = np.union1d(_ends_of_bins(mass, max_bins - outer.size), outer)
    low, high = (to_host(xp.take(distinct, beside(last + i, distinct))) for i in range(2))
    return _between(low, high)


def _ends_of_bins(mass: Array, max_bins: int) -> np.ndarray:
    """Return the distinct values (all but the last) that are the last of their bin."""
    xp = array_namespace(mass)
    is_heavy = mass >= xp.sum(mass) / max_bins
    light = xp.where(is_heavy, 0.0, mass)
    shared = xp.cumulative_sum(light) - 0.5 * light
    of_light = max(float(xp.sum(light)), 1e-300)
    n_light = max(1, max_bins - int(xp.sum(xp.astype(is_heavy, xp.int64))))
    while True:
        bin_of = xp.floor(shared * (n_light / of_light))
        is_end = (bin_of[1:] != bin_of[:-1]) | is_heavy[1:] | is_heavy[:-1]
        ends = xp.nonzero(is_end)[0]
        excess = ends.shape[0] + 1 - max_bins
        if excess <= 0:
            return to_host(ends)
        if n_light == 1:  # light values between heavy ones: join the emptiest neighbours
            order = np.argsort(to_host(xp.take(mass, ends)), kind="stable")
            return np.sort(to_host(ends)[order[excess:]])
        n_light = max(1, n_light - excess)


def _wide_gaps(distinct: Array, ends: np.ndarray, most: int) -> np.ndarray:
    """Return the values (of all but the last) before the wide gaps, at most ``most``."""
    n = ends.size
    if not most or not n:
        return np.empty(0, np.int64)
    xp = array_namespace(distinct)
    low, middle, high = ends[[n // 4, n // 2, n - 1 - n // 4]].tolist()
    centre = distinct[middle]
    with np.errstate(invalid="ignore", over="ignore"):
        gap = distinct[1:] - distinct[:-1]
        is_wide = xp.zeros(gap.shape[0], dtype=xp.bool)
        is_wide[:low] = gap[:low] > centre - distinct[1 : low + 1]
        is_wide[high:] = gap[high:] > distinct[high:-1] - centre
    wide = xp.nonzero(is_wide)[0]
    if wide.shape[0] <= most:
        return to_host(wide)
    widest = np.argsort(-to_host(xp.take(gap, wide)), kind="stable")
    return np.sort(to_host(wide)[widest[:most]])


def _between(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", over="ignore"):
        return _midpoint(low, high)
