"""Gradients of pairs of documents (contract: ``kernels.ranking.gradients``).

A pair is computed twice, for each of its documents, so that every sum has one owner and a fixed
order. The work of a long query is shared by as many threads as it has documents, and by a group
of threads for each document that is compared with all others.
"""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.target import blocks_for, blocks_for_rows, cuda, empty, kernel, launch
from ...scalars.primitives import mul
from ...scalars.ranking import pair_distance, pair_gradient, pair_weight, query_factor
from ..gradients import PairSettings
from ..queries import LANES, Queries
from .lanes import BLOCK, GROUPS, sum_of_lanes
from .lists import list_gradients

__all__ = ["list_gradients", "pair_gradients"]

u32 = np.uint32
G, H, SIZE = range(3)
"""Rows of the table of sums: gradient, hessian, and size of what was received."""


@kernel
def gather(score, gain, order, ranked):
    """Write scores and gains in the order of the documents; one document a thread."""
    n = u32(order.shape[0])
    p = u32(cuda.grid(1))
    while p < n:
        row = u32(order[p])
        ranked[0, p] = score[row]
        ranked[1, p] = gain[row]
        p = u32(p + cuda.gridsize(1))


@kernel
def receive(
    ranked, begin, of_row, inverse_ideal, discount, sigma, truncation, normalise, by_gain, sums
):
    """Add up what each document receives from those that rank above it; one document a thread."""
    n = u32(of_row.shape[0])
    p = u32(cuda.grid(1))
    while p < n:
        # A document's rank, and the query it belongs to.
        query = u32(of_row[p])
        first = u32(begin[query])
        last = u32(begin[u32(query + u32(1))] - u32(1))
        softened = 0.0
        if ranked[0, first] != ranked[0, last]:
            softened = normalise
        rank = u32(p - first)
        g = 0.0
        h = 0.0
        size = 0.0
        # The documents above it, in their order: one thread owns the sum.
        i = u32(0)
        while i < rank and i < truncation:
            gap = ranked[0, u32(first + i)] - ranked[0, p]
            gain_gap = ranked[1, u32(first + i)] - ranked[1, p]
            discount_gap = discount[i] - discount[rank]
            weight = pair_weight(gain_gap, discount_gap, inverse_ideal[query], by_gain)
            distance = pair_distance(gap, softened)
            slope, curvature = pair_gradient(gap, gain_gap, weight, sigma, distance)
            if gain_gap > 0.0:
                g += slope
            else:
                g -= slope
            h += curvature
            # Sizes are noted by the lower document of a pair alone, so that each pair counts once.
            size += slope
            i = u32(i + u32(1))
        sums[G, p] = g
        sums[H, p] = h
        sums[SIZE, p] = size
        p = u32(p + cuda.gridsize(1))


@kernel
def compare(
    ranked, begin, of_row, inverse_ideal, discount, sigma, truncation, normalise, by_gain, sums
):
    """Add the comparisons of each document with those that rank below it; a group of threads a
    document."""
    shared = cuda.shared.array(BLOCK, np.float64)
    n = u32(of_row.shape[0])
    lane = u32(cuda.threadIdx.x % LANES)
    base = u32(cuda.blockIdx.x * GROUPS)
    # All groups of a block go on together, also those without a document: they meet at the barriers
    # of ``sum_of_lanes``.
    while base < n:
        p = u32(base + u32(cuda.threadIdx.x // LANES))
        g = 0.0
        h = 0.0
        if p < n:
            query = u32(of_row[p])
            first = u32(begin[query])
            end = u32(begin[u32(query + u32(1))])
            softened = 0.0
            if ranked[0, first] != ranked[0, u32(end - u32(1))]:
                softened = normalise
            rank = u32(p - first)
            # Each lane takes every so many documents below, as the lanes of the CPU do.
            j = u32(p + u32(1) + lane)
            while rank < truncation and j < end:
                gap = ranked[0, p] - ranked[0, j]
                gain_gap = ranked[1, p] - ranked[1, j]
                discount_gap = discount[rank] - discount[u32(j - first)]
                weight = pair_weight(gain_gap, discount_gap, inverse_ideal[query], by_gain)
                distance = pair_distance(gap, softened)
                slope, curvature = pair_gradient(gap, gain_gap, weight, sigma, distance)
                if gain_gap > 0.0:
                    g -= slope
                else:
                    g += slope
                h += curvature
                j = u32(j + u32(LANES))
        # All lanes have their sums; the first one adds them to what was received.
        g = sum_of_lanes(shared, g)
        h = sum_of_lanes(shared, h)
        if p < n and lane == u32(0):
            sums[G, p] += g
            sums[H, p] += h
        base = u32(base + u32(cuda.gridDim.x * GROUPS))


@kernel
def spread(sums, begin, order, normalise, out):
    """Scale the sums of each query and write them to its rows; a group of threads a query."""
    shared = cuda.shared.array(BLOCK, np.float64)
    n_queries = u32(begin.shape[0] - 1)
    lane = u32(cuda.threadIdx.x % LANES)
    base = u32(cuda.blockIdx.x * GROUPS)
    while base < n_queries:
        query = u32(base + u32(cuda.threadIdx.x // LANES))
        first = u32(0)
        end = u32(0)
        if query < n_queries:
            first = u32(begin[query])
            end = u32(begin[u32(query + u32(1))])
        # The size of a query: how much all of its documents have received.
        size = 0.0
        p = u32(first + lane)
        while p < end:
            size += sums[SIZE, p]
            p = u32(p + u32(LANES))
        # Every lane gets the sum, and scales its own documents.
        factor = query_factor(2.0 * sum_of_lanes(shared, size))
        p = u32(first + lane)
        while p < end:
            g = sums[G, p]
            h = sums[H, p]
            if normalise > 0.0:
                g = mul(factor, g)
                h = mul(factor, h)
            row = u32(order[p])
            out[0, row] = g
            out[1, row] = h
            p = u32(p + u32(LANES))
        base = u32(base + u32(cuda.gridDim.x * GROUPS))


def pair_gradients(
    score: Array,
    gain: Array,
    order: Array,
    inverse_ideal: Array,
    discount: Array,
    queries: Queries,
    settings: PairSettings,
) -> Array:
    n, n_queries = int(score.shape[0]), int(queries.begin.shape[0]) - 1
    ranked, sums = empty((2, n), np.float64), empty((3, n), np.float64)
    out = empty((2, n), np.float64)
    by_row = blocks_for_rows(n, BLOCK)
    launch(gather, by_row, BLOCK, score, gain, order, ranked)
    truncation = u32(min(settings.truncation, queries.longest))
    normalise = float(settings.normalise)
    for add_pairs, blocks in ((receive, by_row), (compare, blocks_for(-(-n // GROUPS)))):
        launch(
            add_pairs, blocks, BLOCK,
            ranked, queries.begin, queries.of_row, inverse_ideal, discount,
            settings.sigma, truncation, normalise, float(settings.by_gain), sums,
        )  # fmt: skip
    launch(
        spread, blocks_for(-(-n_queries // GROUPS)), BLOCK,
        sums, queries.begin, order, normalise, out,
    )  # fmt: skip
    return out
