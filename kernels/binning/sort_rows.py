"""Sorting: the values of every feature in ascending order."""

from __future__ import annotations

from ..runtime.arrays import Array
from ..runtime.dispatch import implementation


def sort_rows(table: Array) -> Array:
    """Return a table whose rows are ascending, NaN last.

    Parameters
    ----------
    table : float32 or float64, shape (n_features, n_rows), in C order
        Its memory may become that of the result.

    Returns
    -------
    array like ``table``
        The sign of zeros and of NaN is any.
    """
    return implementation(__name__, table).sort_rows(table)
