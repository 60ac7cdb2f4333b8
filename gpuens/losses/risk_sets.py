"""The rows that are at risk at the time of each event, and sums over them.

Sums are running sums over the rows, latest first, and over the events, earliest first, so that a
round takes O(n). Their order is fixed (``kernels.survival.running_sums``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..devices.placement import CPU, Device, to_numpy
from ..kernels.runtime.arrays import Array
from ..kernels.scalars import losses as formulas
from ..kernels.statistics.gradients import row_values
from ..kernels.survival.running_sums import running_sums
from ..numerics.weighted import ordered_sum

LEAST_EXPONENT = -500.0
"""Scores count as at most so far below the largest one: no risk is zero."""
SMALLEST_WEIGHT = 2.3e-308


class RiskSets(NamedTuple):
    """The layout of some rows. An event counts where its weight is positive; ``times`` are those
    of such events, ascending.

    times : float64 ndarray, shape (n_times,)
    weight : float64, shape (n_rows,) or (0,)
    is_tied : bool
        Whether a share is positive.
    rate : float
        Weight of the events, divided by that of all rows.
    order : int64, shape (n_rows,)
        The rows, latest first.
    at_risk : int64, shape (n_times,)
        Rows at risk at each time: so many are first in ``order``.
    n_before : int64, shape (n_rows,)
        Times up to that of each row.
    events : int64, shape (n_events,)
        Rows with an event that counts, earliest first.
    time_of_event : int64, shape (n_events,)
        The number of its time.
    first, end : int64, shape (n_times,)
        The events of each time are ``events[first:end]``.
    share : float64, shape (n_events,)
        Efron: the share of the events of the same time that are taken from the risk set, 0 for
        the first; Breslow: 0.
    event_weight : float64, shape (n_events,)
        Efron: the mean weight of the events of the same time.
    """

    times: np.ndarray
    weight: Array
    is_tied: bool
    rate: float
    order: Array
    at_risk: Array
    n_before: Array
    events: Array
    time_of_event: Array
    first: Array
    end: Array
    share: Array
    event_weight: Array


class Risks(NamedTuple):
    """Sums of the risks of scores.

    relative : float64, shape (n_rows,)
        exp(score - top).
    left : float64, shape (n_events,)
        Sum of the relative risks for each event, without the share of tied events.
    hazard : float64, shape (n_times,)
        Cumulative baseline hazard at each time, for a score of ``top``.
    spared : float64, shape (n_times,) or (0,)
        What the events of a time do not receive of the hazard at it, because of ties.
    top : float64, shape (1,)
        The largest score.
    """

    relative: Array
    left: Array
    hazard: Array
    spared: Array
    top: Array


def risk_sets(event: Array, time: Array, weight: Array, efron: bool, device: Device) -> RiskSets:
    """Return the layout of rows with events (0 or 1) and times; ``weight`` may be empty."""
    when, has_event = to_numpy(time), to_numpy(event) > 0.5
    factor = to_numpy(weight) if weight.size else np.ones(when.size)
    counts = has_event & (factor > 0.0)
    times, number = np.unique(when[counts], return_inverse=True)
    earliest_first = np.argsort(number, kind="stable")
    events, number = np.flatnonzero(counts)[earliest_first], number[earliest_first]
    of_time = np.bincount(number, minlength=times.size)
    end = np.cumsum(of_time)
    event_weight, share = factor[events], np.zeros(events.size)
    if efron:
        event_weight = (np.bincount(number, event_weight, times.size) / of_time)[number]
        share = (np.arange(events.size) - (end - of_time)[number]) / of_time[number]
    order = np.argsort(-when, kind="stable")
    at_risk = np.searchsorted(-when[order], -times, side="right")
    n_before = np.searchsorted(times, when, side="right")
    arrays = order, at_risk, n_before, events, number, end - of_time, end, share, event_weight
    rate = ordered_sum(factor[events], CPU) / max(ordered_sum(factor, CPU), SMALLEST_WEIGHT)
    return RiskSets(times, weight, bool(share.any()), rate, *map(device.asarray, arrays))


def risks_of(score: Array, sets: RiskSets, device: Device) -> Risks:
    """Sum the risks of scores, float64 of shape (n_rows,), over the risk sets."""
    xp = device.xp
    top = score.max().reshape(1)
    exponent = xp.maximum(score - top, LEAST_EXPONENT)
    relative = row_values(formulas.LogLink(), exponent, exponent, exponent[:0])
    size = relative * sets.weight if sets.weight.size else relative
    left = running_sums(size[sets.order])[sets.at_risk - 1][sets.time_of_event]
    if sets.is_tied:
        since = xp.zeros(left.shape[0] + 1)
        since[:-1] = running_sums(size[sets.events][::-1].copy())[::-1]
        tied = since[sets.first] - since[sets.end]
        left = left - sets.share * tied[sets.time_of_event]
    increase = sets.event_weight / left
    hazard = running_sums(increase)[sets.end - 1]
    spared = xp.empty(0)
    if sets.is_tied:
        until = xp.zeros(left.shape[0] + 1)
        until[1:] = running_sums(sets.share * increase)
        spared = until[sets.end] - until[sets.first]
    return Risks(relative, left, hazard, spared, top)


def gradients_of(sets: RiskSets, risks: Risks, event: Array, device: Device) -> Array:
    """Return gradients and hessians of the negative log partial likelihood, divided by the weights;
    float64 of shape (2, n_rows).

    The hessian of a row is what it is expected to contribute to the events: the curvature along
    its own score is smaller, and that along any move d of all scores is at most the sum of
    hessian · d². It is never less than the mean over the rows, which is their rate of events. What
    is expected of a row depends on when it left, so that leaves of rows that left early by chance
    would have the longest steps. The sum of the hessians at most doubles.
    """
    xp = device.xp
    before = xp.zeros(risks.hazard.shape[0] + 1)
    before[1:] = risks.hazard
    expected = risks.relative * before[sets.n_before]
    if sets.is_tied:
        expected[sets.events] -= risks.relative[sets.events] * risks.spared[sets.time_of_event]
    expected = xp.maximum(expected, 0.0)
    return xp.stack([expected - event, xp.maximum(expected, sets.rate)])
