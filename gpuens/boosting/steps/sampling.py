"""Sampling of rows for the trees of boosting, with unequal chances.

Every scheme draws each row with a chance p and weights the drawn rows by 1/p, so that sums over the
sample are unbiased estimates of sums over all rows. Whether a row is drawn depends on the seed, the
round and the row's number alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...devices.array_functions import smallest
from ...devices.placement import Device, to_numpy
from ...kernels.runtime.arrays import Array
from ...kernels.runtime.collective import (
    NO_ROWS,
    ONE_WORKER,
    Workers,
    count_of_all,
    largest_of_all,
    rows_of_all,
    selected,
    sum_of_each,
)
from ...kernels.runtime.dtypes import Totals
from ...kernels.statistics.row_draws import draw_by_chances
from ...numerics.sampling import key_of_rows, rows_where, small_draws
from ...numerics.shared_order import count_before, kth_of_all, mvs_threshold
from ...numerics.weighted import ordered_sum

SCHEMES = ("uniform", "goss", "mvs", "balanced")
SUM_BITS = 62
MVS_REGULARISATION = 1e-4
"""Share of the largest squared gradient that is added to each, so that rows with a gradient of zero
can be drawn too."""


class Sampling(NamedTuple):
    """A scheme and its shares of the rows (see the parameters of the estimators)."""

    scheme: str = "uniform"
    fraction: float = 1.0
    top_rate: float = 0.2
    other_rate: float = 0.1

    @property
    def share(self) -> float:
        """The share of the rows that a tree gets."""
        return min(1.0, self.top_rate + self.other_rate) if self.scheme == "goss" else self.fraction


class Sample(NamedTuple):
    """The rows of a sample.

    Parameters
    ----------
    rows : int32, shape (n_sampled,)
        Ascending; empty: all rows, once each; ``NO_ROWS``: those of other workers.
    factor : float32, shape (n_sampled,) or (0,)
        Factors on their statistics; empty: 1.
    """

    rows: Array
    factor: Array


def goss_chances(
    importance: Array, top_rate: float, other_rate: float, device: Device,
    workers: Workers = ONE_WORKER,
) -> Array:  # fmt: skip
    """Compute the chances of gradient-based one-side sampling (Ke et al. 2017).

    Rows with large gradients are always drawn, the others with equal chances.

    Parameters
    ----------
    importance : float32, shape (n_rows,)
        Sum of ``|g| h`` over the outputs.
    top_rate, other_rate : float
        Shares of all rows.

    Returns
    -------
    float64, shape (n_rows,), on the device
    """
    if workers is ONE_WORKER:
        how = Sampling("goss", top_rate=top_rate, other_rate=other_rate)
        return goss_chances_of_lines(importance[None, :], [importance.shape[0]], [how], device)[0]
    xp, n = device.xp, rows_of_all(importance.shape[0], workers)
    n_top = math.ceil(top_rate * n)
    least: Any = np.float32(np.inf)
    if n_top:
        least = kth_of_all(to_numpy(importance), n - n_top, workers)
    above, ties = importance > least, importance == least
    room = n_top - count_of_all(int(xp.count_nonzero(above)), workers)
    room -= count_before(int(ties.sum()), workers)
    first = ties & (xp.cumulative_sum(xp.astype(ties, xp.int64)) <= room)
    return xp.where(above | first, 1.0, _chance_of_others(top_rate, other_rate))


def _chance_of_others(top_rate: float, other_rate: float) -> float:
    return min(1.0, other_rate / max(1.0 - top_rate, 1e-300))


def goss_chances_of_lines(
    importance: Array, n_rows: Sequence[int], samplings: Sequence[Sampling], device: Device
) -> Array:
    """Compute ``goss_chances`` of several models, a line each, which has ``n_rows``; what is behind
    them may be anything."""
    xp, n_most = device.xp, importance.shape[1]
    if min(n_rows) < n_most:
        is_row = xp.arange(n_most) < device.asarray(np.array(n_rows))[:, None]
        importance = xp.where(is_row, importance, importance.dtype.type(-np.inf))
    n_top = [math.ceil(own.top_rate * n) for own, n in zip(samplings, n_rows, strict=True)]
    # Behind the rows, and so before them in this order, are the others of a line.
    least = _smallest_of_lines(importance, [min(n_most - n, n_most - 1) for n in n_top], xp)
    if min(n_top) == 0:
        has_top = device.asarray(np.array(n_top) > 0)
        least = xp.where(has_top, least, importance.dtype.type(np.inf))
    above, ties = importance > least[:, None], importance == least[:, None]
    room = device.asarray(np.array(n_top)) - xp.count_nonzero(above, axis=1)
    running = xp.cumulative_sum(xp.astype(ties, xp.int64), axis=1)
    first = ties & (running <= room[:, None])
    others = [_chance_of_others(own.top_rate, own.other_rate) for own in samplings]
    return xp.where(above | first, 1.0, device.asarray(np.array(others))[:, None])


def _smallest_of_lines(values: Array, ks: Sequence[int], xp: Any) -> Array:
    """Return the k-th value of each line in ascending order, shape (n_lines,)."""
    if len(ks) == 1:
        return smallest(values[0, :], ks[0])[None]
    ordered = xp.reshape(xp.sort(values, axis=1, stable=False), (-1,))
    return xp.take(ordered, xp.asarray(np.arange(len(ks)) * values.shape[1] + np.array(ks)))


def mvs_chances(
    squares: Array, fraction: float, device: Device, workers: Workers = ONE_WORKER
) -> Array:
    """Compute the chances of minimal variance sampling (Ibragimov and Gusev 2019).

    They are proportional to the size of the gradients, and at most 1.

    Parameters
    ----------
    squares : float64, shape (n_rows,)
        Squared gradients, summed over the outputs.
    fraction : float
        Expected share of all rows.

    Returns
    -------
    float64, shape (n_rows,), on the device
    """
    if workers is ONE_WORKER:
        return mvs_chances_of_lines(squares[None, :], [squares.shape[0]], [fraction], device)[0]
    xp = device.xp
    n = rows_of_all(squares.shape[0], workers)
    largest = largest_of_all(float(squares.max()), workers)
    if largest == 0.0 or not math.isfinite(largest):
        return xp.full(squares.shape[0], fraction)
    whole = _whole_sizes(squares, largest, 2.0 ** _size_bits(n), xp)
    threshold = mvs_threshold(to_numpy(whole), fraction, SUM_BITS, workers)
    return xp.minimum(1.0, whole.astype(np.float64) / threshold)


def _size_bits(n: int) -> int:
    return SUM_BITS - 1 - n.bit_length()


def _whole_sizes(squares: Array, largest: Any, scale: Any, xp: Any) -> Array:
    """Return the sizes of gradients as whole numbers, whose cumulative sums are the same in any
    order."""
    size = xp.sqrt(squares / largest + MVS_REGULARISATION)
    return xp.maximum(xp.floor(size * scale).astype(np.int64), 1)


def mvs_chances_of_lines(
    squares: Array, n_rows: Sequence[int], fractions: Sequence[float], device: Device
) -> Array:
    """Compute ``mvs_chances`` of several models, a line each, which has ``n_rows``; what is behind
    them may be anything."""
    xp, (n_lines, n_most) = device.xp, squares.shape
    place, n = xp.arange(n_most), device.asarray(np.array(n_rows))[:, None]
    is_row = place < n
    if min(n_rows) < n_most:
        squares = xp.where(is_row, squares, 0.0)
    largest = squares.max(axis=1)[:, None]
    is_known = (largest > 0.0) & (largest < np.inf)
    squares, largest = xp.where(is_known, squares, 0.0), xp.where(is_known, largest, 1.0)
    scale = device.asarray(np.array([2.0 ** _size_bits(own) for own in n_rows]))[:, None]
    whole = _whole_sizes(squares, largest, scale, xp)
    # Rows that are none come last in the order, and count for nothing there.
    ordered = xp.sort(xp.where(is_row, whole, 2**SUM_BITS), axis=1, stable=False)
    below = xp.cumulative_sum(ordered, dtype=xp.int64, axis=1).astype(np.float64)
    # If the k largest rows are drawn for certain, the others share the rest of the sample: the
    # threshold t solves sum(min(1, size / t)) = fraction * n, with size >= t for those k rows.
    wanted = [own * m for own, m in zip(fractions, n_rows, strict=True)]
    left = device.asarray(np.array(wanted))[:, None] - (n - 1 - place)
    fits = (left > 0) & (ordered.astype(np.float64) * left <= below) & is_row
    last = xp.where(fits, place, 0).max(axis=1) + xp.arange(n_lines) * n_most
    numerator, denominator = (xp.take(xp.reshape(own, (-1,)), last) for own in (below, left))
    threshold = numerator / xp.maximum(denominator, 1e-300)
    chance = xp.minimum(1.0, whole.astype(np.float64) / threshold[:, None])
    fraction = device.asarray(np.array(fractions, np.float64))[:, None]
    return xp.where(is_known, chance, fraction)


def balanced_chances(
    classes: Array, n_classes: int, fraction: float, device: Device, workers: Workers = ONE_WORKER
) -> Array:
    """Compute chances that give every class the same expected number of rows, or all its rows.

    Parameters
    ----------
    classes : integers, shape (n_rows,)
    n_classes : int
    fraction : float
        Expected share of all rows, at most.

    Returns
    -------
    float64, shape (n_rows,), on the device
    """
    xp = device.xp
    own = np.array([int(xp.count_nonzero(classes == c)) for c in range(n_classes)])
    counts = sum_of_each(own, workers)
    wanted = fraction * rows_of_all(classes.shape[0], workers) / n_classes
    chance = np.minimum(1.0, wanted / np.maximum(counts, 1))
    return device.asarray(chance)[classes]


def draw_by_chance(
    chance: Array, weight: Array, seed: int, index: int, device: Device,
    workers: Workers = ONE_WORKER,
) -> Sample:  # fmt: skip
    """Draw each row with its own chance, and at least one row.

    Parameters
    ----------
    chance : float64, shape (n_rows,)
        In (0, 1].
    weight : float64, shape (n_rows,) or (0,)
        Rows with weight 0 are never drawn.
    seed, index : int
        Random key, and the number of the draw.
    """
    xp = device.xp
    if device.is_gpu and workers is ONE_WORKER:
        key = key_of_rows(seed, index)
        (found,) = draw_by_chances(weight, chance[None], [chance.shape[0]], [key])
        return Sample(*found)

    def limit_of(rows: slice) -> Array:
        return xp.floor(chance[rows] * 2.0**32).astype(np.uint64)

    keep = small_draws(chance.shape[0], limit_of, weight, seed, index, device, workers)
    is_certain = bool((keep & (chance == 1.0)).all())
    if not count_of_all(int(not is_certain), workers):
        return Sample(xp.empty(0, dtype=xp.int32), xp.empty(0, dtype=xp.float32))
    if workers is not ONE_WORKER and not keep.any():
        return Sample(NO_ROWS, np.ones(1, np.float32))
    drawn = rows_where(keep, device)
    return Sample(drawn, (1.0 / chance[drawn]).astype(np.float32))


def scale_statistics(
    g: Array, h: Array, sample: Sample, device: Device, workers: Workers
) -> Totals:
    """Multiply the statistics of the drawn rows by their factors in place; return their totals,
    which are not finite where float32 is too narrow."""
    rows, factor = sample
    totals = []
    for statistics in (g, h):
        if rows is not NO_ROWS:
            with np.errstate(over="ignore"):
                statistics[rows] *= factor
        size = abs(selected(statistics, rows))
        largest = largest_of_all(float(size.max()) if size.size else 0.0, workers)
        totals += [largest, ordered_sum(size.astype(np.float64), device, workers)]
    return Totals(*totals)
