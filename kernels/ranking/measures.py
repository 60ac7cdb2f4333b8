"""Measures of a ranking, query by query."""

from __future__ import annotations

from ..runtime.arrays import Array
from ..runtime.dispatch import implementation
from .queries import Queries


def discounted_gains(
    gain: Array, order: Array, queries: Queries, discount: Array, depth: int
) -> Array:
    """Compute the discounted cumulative gain of each query: ``gain * discount[rank]``, added up
    from the first rank to the last one.

    Parameters
    ----------
    gain : float64, shape (n_rows,)
    order : int32, shape (n_rows,)
        See ``order_queries``.
    queries : Queries
    discount : float64, shape (min(depth, queries.longest),) or longer
    depth : int
        Ranks that count, from the first, > 0.

    Returns
    -------
    float64, shape (n_queries,), on the device
    """
    op = implementation(__name__, gain)
    return op.discounted_gains(gain, order, queries, discount, depth)


def average_precisions(relevance: Array, order: Array, queries: Queries, depth: int) -> Array:
    """Compute the average precision of each query.

    It is the mean, over the relevant documents among the first ``depth`` ranks, of the share of
    relevant ones up to each; the divisor is the number of all relevant documents, at most
    ``depth``. 1 for a query without any.

    Parameters
    ----------
    relevance : float64, shape (n_rows,)
        Documents above 0 are relevant.
    order : int32, shape (n_rows,)
        See ``order_queries``.
    queries : Queries
    depth : int
        > 0.

    Returns
    -------
    float64, shape (n_queries,), on the device
    """
    return implementation(__name__, relevance).average_precisions(relevance, order, queries, depth)
