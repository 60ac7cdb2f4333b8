"""Reference twin of ``kernels.ranking.gradients``."""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace, device

from ...runtime.arrays import Array
from ...runtime.reference.arrays import to_host
from ...scalars import elementary, ranking, rng
from ...scalars.primitives import vectorise
from ..gradients import PairSettings
from ..queries import LANES, Queries

draw = vectorise(rng.draw)
exp = vectorise(elementary.exp)
list_correction = vectorise(ranking.list_correction)
list_gradient = vectorise(ranking.list_gradient)
list_ratio = vectorise(ranking.list_ratio)
list_target = vectorise(ranking.list_target)
pair_distance = vectorise(ranking.pair_distance)
pair_gradient = vectorise(ranking.pair_gradient)
pair_weight = vectorise(ranking.pair_weight)
query_factor = vectorise(ranking.query_factor)


def pair_gradients(
    score: Array,
    gain: Array,
    order: Array,
    inverse_ideal: Array,
    discount: Array,
    queries: Queries,
    settings: PairSettings,
) -> Array:
    """One query after the other, each document beside all that rank below it."""
    xp = array_namespace(score)
    parts = []
    begin = to_host(queries.begin).tolist()
    for q, (first, end) in enumerate(zip(begin[:-1], begin[1:], strict=True)):
        s, r = xp.take(score, order[first:end]), xp.take(gain, order[first:end])
        parts.append(_pairs_of_query(s, r, inverse_ideal[q], discount[: end - first], settings))
    place = xp.argsort(order)
    return xp.take(xp.concat(parts, axis=1), place, axis=1)


def _pairs_of_query(
    s: Array, r: Array, inverse_ideal: Array, discount: Array, settings: PairSettings
) -> Array:
    """Return gradients and hessians by rank."""
    xp, n = array_namespace(s), s.shape[0]
    g, h, size = xp.zeros_like(s), xp.zeros_like(s), xp.zeros_like(s)
    by_gain = xp.ones_like(s) * float(settings.by_gain)
    softened = xp.ones_like(s) * float(settings.normalise and bool(s[0] != s[-1]))
    for i in range(min(n - 1, settings.truncation)):
        low = slice(i + 1, n)
        gap, gain_gap = s[i] - s[low], r[i] - r[low]
        weight = pair_weight(gain_gap, discount[i] - discount[low], inverse_ideal, by_gain[low])
        distance = pair_distance(gap, softened[low])
        slope, curvature = pair_gradient(gap, gain_gap, weight, settings.sigma, distance)
        own = xp.where(gain_gap > 0.0, -slope, slope)
        g[low] = g[low] - own
        h[low] = h[low] + curvature
        size[low] = size[low] + slope
        g[i] = g[i] + sum_in_lanes(own)
        h[i] = h[i] + sum_in_lanes(curvature)
    if settings.normalise:
        factor = query_factor(2.0 * sum_in_lanes(size))
        g, h = factor * g, factor * h
    return xp.stack([g, h])


def list_gradients(score: Array, gain: Array, queries: Queries, key: int) -> Array:
    """One query after the other."""
    xp = array_namespace(score)
    row = xp.arange(score.shape[0], dtype=xp.int64, device=device(score))
    target = list_target(gain, xp.astype(draw(int(key), row), xp.float64))
    begin = to_host(queries.begin).tolist()
    parts = [
        _list_of_query(score[first:end], target[first:end])
        for first, end in zip(begin[:-1], begin[1:], strict=True)
    ]
    return xp.concat(parts, axis=1)


def _list_of_query(s: Array, target: Array) -> Array:
    xp = array_namespace(s)
    size = exp(s - xp.max(s))
    share = size / sum_in_lanes(size)
    first = list_gradient(share, target, sum_in_lanes(target))
    ratio = list_ratio(first, share)
    second = list_correction(share, sum_in_lanes(ratio), ratio)
    ratio = list_ratio(second, share)
    third = list_correction(share, sum_in_lanes(ratio), ratio)
    return xp.stack([first + second + third, share * (1.0 - share)])


def sum_in_lanes(values: Array) -> Any:
    """Sum in the order that ``LANES`` describes."""
    xp = array_namespace(values)
    missing = -values.shape[0] % LANES
    zeros = xp.zeros(missing, dtype=values.dtype, device=device(values))
    lines = xp.reshape(xp.concat([values, zeros]), (-1, LANES))
    lanes = xp.zeros_like(lines[0, :])
    for k in range(lines.shape[0]):
        lanes = lanes + lines[k, :]
    while lanes.shape[0] > 1:
        half = lanes.shape[0] // 2
        lanes = lanes[:half] + lanes[half:]
    return lanes[0]
