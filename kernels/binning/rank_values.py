"""Ranks: a bin for every distinct value of a feature."""

from __future__ import annotations

from ..runtime.arrays import Array
from ..runtime.dispatch import implementation


def rank_values(column: Array) -> tuple[Array, Array]:
    """Return the ranks of values among the distinct ones, and these.

    Parameters
    ----------
    column : float32 or float64, shape (n_rows,)
        NaN is missing; both zeros are one value.

    Returns
    -------
    ranks : uint32, shape (n_rows,)
        From 0; the number of distinct values for missing ones.
    values : array like ``column``, shape (n_distinct,)
        Ascending; the sign of zero is any.
    """
    return implementation(__name__, column).rank_values(column)
