"""Cut points: the values of every feature are sorted, and parted into bins."""

from __future__ import annotations

import numpy as np

from ..runtime.arrays import Array
from ..runtime.dispatch import implementation

BINS_OF_A_GAP = 16
"""Bins of a feature for each cut that its gaps may ask for: at most 15 of 254 cuts."""


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


def cut_points(ordered: Array, weight: Array, max_bins: int) -> list[np.ndarray]:
    """Choose the cut points between the bins of features.

    A feature of at most ``max_bins`` distinct values is cut between all of them. Otherwise values
    that outweigh an average bin have one each, and the others share the rest evenly, each where
    the middle of its weight is. Then the wide gaps between outer values are cut too: those in the
    outer quarters of the bins that are wider than the distance from their inner side to the middle
    of the bins. Of more than ``max_bins // BINS_OF_A_GAP`` the widest count, of equal ones the
    lower. Cuts lie half-way between two values.

    All sums are of whole numbers that float64 holds, so that no implementation rounds them.

    Parameters
    ----------
    ordered : float32 or float64, shape (n_features, n_rows)
        Ascending, NaN last.
    weight : float64, shape (n_features, n_rows) or (0, 0)
        Positive whole numbers, not more than 2**52 together; empty where every value counts once.
        Those of NaN have no effect.
    max_bins : int
        2 … 255.

    Returns
    -------
    list of float64 arrays, NumPy
        Ascending, less than ``max_bins`` each: ``low <= cut < high`` between the values ``low`` and
        ``high`` beside it.
    """
    return implementation(__name__, ordered).cut_points(ordered, weight, max_bins)
