"""Counting the values below a bound among the first entries of a sequence, for many pairs of both
at once."""

from __future__ import annotations

from typing import Any

import numpy as np


def count_below(
    values: np.ndarray, weight: np.ndarray, until: np.ndarray, bound: np.ndarray
) -> Any:
    """Return for each query the weight of the first ``until`` values that are below ``bound``.

    A wavelet matrix (Claude, Navarro and Ordóñez 2015): bit by bit, from the highest one, the
    sequence is sorted stably by that bit, and each query follows the bit of its bound. Takes
    O((n + q) log n).

    Parameters
    ----------
    values : int64 ndarray, shape (n,)
        In [0, n).
    weight : int64 or float64 ndarray, shape (n,)
    until, bound : int64 ndarray, shape (q,)
        In [0, n].

    Returns
    -------
    ndarray, shape (q,), of the dtype of ``weight``
        Weights that are integers are added up exactly.
    """
    n = values.size
    begin, end = np.zeros_like(until), until.copy()
    total = np.zeros(until.size, weight.dtype)
    for bit in reversed(range(int(n).bit_length())):
        is_high = (values >> bit & 1).astype(bool)
        high_before = np.concatenate([[0], np.cumsum(is_high)])
        low_weight = np.concatenate(
            [[weight.dtype.type(0)], np.cumsum(np.where(is_high, 0, weight))]
        )
        goes_high = (bound >> bit & 1).astype(bool)
        total += np.where(goes_high, low_weight[end] - low_weight[begin], 0)
        n_low = n - int(high_before[-1])
        begin, end = (
            np.where(goes_high, n_low + high_before[at], at - high_before[at])
            for at in (begin, end)
        )
        order = np.concatenate([np.flatnonzero(~is_high), np.flatnonzero(is_high)])
        values, weight = values[order], weight[order]
    return total
