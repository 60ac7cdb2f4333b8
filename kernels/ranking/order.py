"""The order of documents by their scores, query by query."""

from __future__ import annotations

from ..runtime.arrays import Array
from ..runtime.dispatch import implementation
from .queries import Queries


def order_queries(score: Array, queries: Queries) -> Array:
    """Sort the rows of each query by descending score; equal scores keep the order of the rows.

    Parameters
    ----------
    score : float64, shape (n_rows,), contiguous
        Finite.
    queries : Queries

    Returns
    -------
    int32, shape (n_rows,), on the device
        Rows: entry ``begin[q] + k`` is the row of query q that has rank k.
    """
    return implementation(__name__, score).order_queries(score, queries)
