"""Reference twin of ``kernels.ranking.measures``."""

from __future__ import annotations

from collections.abc import Iterator

from array_api_compat import array_namespace

from ...runtime.arrays import Array
from ..queries import Queries


def discounted_gains(
    gain: Array, order: Array, queries: Queries, discount: Array, depth: int
) -> Array:
    """Rank by rank, all queries at once."""
    xp = array_namespace(gain)
    total = xp.zeros_like(gain[: queries.begin.shape[0] - 1])
    for rank, there, row in _ranks(order, queries, depth):
        total = total + xp.where(there, xp.take(gain, row) * discount[rank], 0.0)
    return total


def average_precisions(relevance: Array, order: Array, queries: Queries, depth: int) -> Array:
    """Rank by rank, all queries at once."""
    xp = array_namespace(relevance)
    hits = xp.zeros_like(relevance[: queries.begin.shape[0] - 1])
    total, n_relevant = hits, hits
    for rank, there, row in _ranks(order, queries, queries.longest):
        hit = there & (xp.take(relevance, row) > 0.0)
        n_relevant = xp.where(hit, n_relevant + 1.0, n_relevant)
        if rank < depth:
            hits = xp.where(hit, hits + 1.0, hits)
            total = xp.where(hit, total + hits / (rank + 1.0), total)
    most = xp.where(n_relevant < depth, n_relevant, xp.ones_like(hits) * depth)
    return xp.where(most > 0.0, total / xp.where(most > 0.0, most, 1.0), 1.0)


def _ranks(order: Array, queries: Queries, depth: int) -> Iterator[tuple[int, Array, Array]]:
    """Yield each rank, whether the queries have it, and their rows of this rank."""
    xp = array_namespace(order)
    begin, end = queries.begin[:-1], queries.begin[1:]
    for rank in range(min(depth, queries.longest)):
        there = begin + rank < end
        yield rank, there, xp.take(order, xp.where(there, begin + rank, begin))
