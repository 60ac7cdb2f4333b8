"""The queries that rows belong to."""

from __future__ import annotations

from typing import NamedTuple

from ..runtime.arrays import Array

LANES = 32
"""Sums over the documents of a query are taken in so many lanes: value k is added to lane
``k % LANES``, in the order of k, and the lanes, which start at 0, are halved by adding the upper
half to the lower one until one is left."""


class Queries(NamedTuple):
    """Queries of neighbouring rows.

    begin : int32, shape (n_queries + 1,), on the device
        Query q has the rows ``begin[q] … begin[q + 1] - 1``, at least one.
    of_row : int32, shape (n_rows,), on the device
        The query of each row.
    longest : int
        Rows of the longest one.
    """

    begin: Array
    of_row: Array
    longest: int
