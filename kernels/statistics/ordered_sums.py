"""Sums of the rows of lines in an order that is the same on every device."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..runtime.arrays import Array
from ..runtime.dispatch import implementation


def ordered_sums(values: Array, n_rows: Sequence[int]) -> Callable[[], np.ndarray]:
    """Start to sum lines: the upper half of a line is added to its lower half, with zeros up to a
    power of two of values, at least ``SUM_CHUNK``, until one value is left.

    Parameters
    ----------
    values : float64, shape (n_lines, n)
    n_rows : sequence of int
        Of each line, at most n, and 2**24; what is behind them is not read.

    Returns
    -------
    callable
        Waits for float64 of shape (n_lines, 2), NumPy: the sum of each line, and its largest value
        or 0, if that is more. Where the sum is NaN, the largest value is undefined.
    """
    return implementation(__name__, values).ordered_sums(values, n_rows)
