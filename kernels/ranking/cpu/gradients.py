"""Gradients of learning to rank (contract: ``kernels.ranking.gradients``)."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.compilation import inner, kernel
from ...runtime.cpu.team import CACHE_LINE, atomic_add, run, threads_for
from ...scalars.elementary import exp
from ...scalars.primitives import select
from ...scalars.ranking import (
    list_correction,
    list_gradient,
    list_ratio,
    list_target,
    pair_distance,
    pair_gradient,
    pair_weight,
    query_factor,
)
from ...scalars.rng import draw
from ...statistics.cpu.gradients import halve
from ..gradients import PairSettings
from ..queries import LANES, Queries

u64 = np.uint64
QUERIES_AT_ONCE = 4


@inner
def sum_in_lanes(values, lanes):
    """Sum in the order that ``LANES`` describes; ``lanes`` is scratch."""
    lanes[:] = 0.0
    n_whole = values.size - values.size % LANES
    # Lanes are added side by side, in vectors; a GPU's group of threads has the same lanes, and so
    # the same sums.
    for begin in range(0, n_whole, LANES):
        line = values[begin : begin + LANES]
        for k in range(LANES):
            lanes[k] += line[k]
    rest = values[n_whole:]
    for k in range(rest.size):
        lanes[k] += rest[k]
    # Then halves of the lanes, in the order of the GPU's threads.
    return halve(lanes, np.int64(LANES))


@inner
def _compare(s_i, r_i, d_i, s, r, discount, inverse_ideal, sigma, by_gain, softened, own, curved):
    """Compare a document with those that rank below it."""
    for k in range(s.size):
        gap, gain_gap = s_i - s[k], r_i - r[k]
        weight = pair_weight(gain_gap, d_i - discount[k], inverse_ideal, by_gain)
        distance = pair_distance(gap, softened)
        slope, curvature = pair_gradient(gap, gain_gap, weight, sigma, distance)
        # ``slope`` is positive: its sign is turned where the upper document is the better one.
        own[k] = select(gain_gap > 0.0, -slope, slope)
        curved[k] = curvature


@inner
def _receive(own, curved, g, h, size):
    # Three loops of few arrays each: the compiler checks in advance that no two overlap.
    for k in range(own.size):
        g[k] -= own[k]
    for k in range(own.size):
        h[k] += curved[k]
    for k in range(own.size):
        size[k] += abs(own[k])


@inner
def _pairs_of_query(s, r, discount, inverse_ideal, settings, g, h, size, own, curved, lanes):
    """Fill in the gradients and hessians by rank."""
    n = s.size
    g[:] = 0.0
    h[:] = 0.0
    size[:] = 0.0
    sigma, by_gain = settings.sigma, 1.0 if settings.by_gain else 0.0
    # Distances of scores tell something only if the scores of the query differ.
    softened = 1.0 if settings.normalise and s[0] != s[n - 1] else 0.0
    for i in range(min(n - 1, settings.truncation)):
        # Document i against all that rank below it: these get their part at once, i its sum.
        pairs = slice(0, n - 1 - i)
        below = slice(i + 1, n)
        _compare(
            s[i], r[i], discount[i], s[below], r[below], discount[below],
            inverse_ideal, sigma, by_gain, softened, own[pairs], curved[pairs],
        )  # fmt: skip
        _receive(own[pairs], curved[pairs], g[below], h[below], size[below])
        g[i] += sum_in_lanes(own[pairs], lanes)
        h[i] += sum_in_lanes(curved[pairs], lanes)
    # Long queries, which have many pairs, do not outweigh short ones.
    if settings.normalise:
        factor = query_factor(2.0 * sum_in_lanes(size, lanes))
        for k in range(n):
            g[k] *= factor
            h[k] *= factor


@kernel
def _pairs_worker(
    thread, n_threads, barrier, score, gain, order, inverse_ideal, discount, begin, longest,
    settings, counter, out,
):  # fmt: skip
    lines = np.empty((7, longest))
    lanes = np.empty(LANES)
    n_queries = begin.size - 1
    while True:
        # Queries differ in length, and their work in its square: threads take them from a queue.
        chunk = atomic_add(counter, 0, QUERIES_AT_ONCE)
        if chunk >= n_queries:
            break
        for q in range(chunk, min(chunk + QUERIES_AT_ONCE, n_queries)):
            first, n = begin[q], begin[q + 1] - begin[q]
            s, r, g, h = lines[0, :n], lines[1, :n], lines[2, :n], lines[3, :n]
            rows = order[first : first + n]
            for k in range(n):
                # By rank: pairs are then loops over neighbours.
                s[k] = score[rows[k]]
                r[k] = gain[rows[k]]
            _pairs_of_query(
                s, r, discount[:n], inverse_ideal[q], settings, g, h, lines[4, :n], lines[5, :n],
                lines[6, :n], lanes,
            )  # fmt: skip
            for k in range(n):
                # Back to the rows.
                out[0, rows[k]] = g[k]
                out[1, rows[k]] = h[k]


def pair_gradients(
    score: Array,
    gain: Array,
    order: Array,
    inverse_ideal: Array,
    discount: Array,
    queries: Queries,
    settings: PairSettings,
) -> Array:
    out = np.empty((2, score.size))
    counter = np.zeros(CACHE_LINE, np.int64)
    work = score.size * min(settings.truncation, queries.longest)
    n_threads = threads_for(work)
    run(
        _pairs_worker, n_threads,
        score, gain, order, inverse_ideal, discount, queries.begin, queries.longest, settings,
        counter, out,
    )  # fmt: skip
    return out


@inner
def _fill_shares(s, row, gain, key, share, target, lanes):
    """Fill in the softmax of the scores, and the targets; ``row`` is that of the first one."""
    top = s[0]
    for k in range(s.size):
        top = max(top, s[k])
    for k in range(s.size):
        # Below the largest score, so that no exponential overflows.
        share[k] = exp(s[k] - top)
    total = sum_in_lanes(share, lanes)
    for k in range(s.size):
        share[k] /= total
    for k in range(s.size):
        # The draw depends on the row's number, not on the thread that comes to it.
        target[k] = list_target(gain[k], float(draw(key, u64(row + k))))


@inner
def _list_of_query(share, target, g, h, ratio, lanes):
    n = share.size
    total = sum_in_lanes(target, lanes)
    for k in range(n):
        # The first order; the two corrections below need sums of what it has given.
        g[k] = list_gradient(share[k], target[k], total)
    for k in range(n):
        ratio[k] = list_ratio(g[k], share[k])
    total = sum_in_lanes(ratio, lanes)
    for k in range(n):
        # The second order.
        ratio[k] = list_correction(share[k], total, ratio[k])
    for k in range(n):
        g[k] += ratio[k]
    for k in range(n):
        # The third order.
        ratio[k] = list_ratio(ratio[k], share[k])
    total = sum_in_lanes(ratio, lanes)
    for k in range(n):
        g[k] += list_correction(share[k], total, ratio[k])
    for k in range(n):
        h[k] = share[k] * (1.0 - share[k])


@kernel
def _list_worker(thread, n_threads, barrier, score, gain, begin, longest, key, out):
    lines = np.empty((3, longest))
    lanes = np.empty(LANES)
    n = begin.size - 1
    for q in range(n * thread // n_threads, n * (thread + 1) // n_threads):
        first, end = begin[q], begin[q + 1]
        share, target, ratio = lines[0, : end - first], lines[1, : end - first], lines[2]
        _fill_shares(score[first:end], first, gain[first:end], key, share, target, lanes)
        g, h = out[0, first:end], out[1, first:end]
        _list_of_query(share, target, g, h, ratio[: end - first], lanes)


def list_gradients(score: Array, gain: Array, queries: Queries, key: int) -> Array:
    out = np.empty((2, score.size))
    run(
        _list_worker, threads_for(score.size),
        score, gain, queries.begin, queries.longest, u64(key), out,
    )  # fmt: skip
    return out
