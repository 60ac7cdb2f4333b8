"""The weighted median of what the learners of AdaBoost.R2 predict."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..devices.placement import Device

CELLS_AT_ONCE = 2**22
"""Predictions that are sorted together, which bounds the memory."""
WEIGHT_BITS = 40


def weighted_median(predicted: Any, weights: np.ndarray, device: Device) -> Any:
    """The smallest prediction of each row with half of the weight at or below it.

    Weights are rounded to 40 bits of the largest, so that their sums are sums of integers: the same
    on every device.

    Parameters
    ----------
    predicted : float64, shape (n_rows, n_learners), on the device
    weights : float64, shape (n_learners,), NumPy
        Not negative, not all zero.
    device : Device

    Returns
    -------
    float64, shape (n_rows,), on the device
    """
    xp = device.xp
    n_rows, n_learners = predicted.shape
    exponent = WEIGHT_BITS - math.frexp(float(weights.max()))[1]
    whole = device.asarray(np.rint(np.ldexp(weights, exponent)).astype(np.int64))
    total = int(whole.sum())
    median = xp.empty(n_rows, xp.float64)
    step = max(1, CELLS_AT_ONCE // n_learners)
    for first in range(0, n_rows, step):
        part = predicted[first : first + step]
        order = xp.argsort(part, axis=1)
        reaches = 2 * xp.cumsum(whole[order], axis=1) >= total
        at = xp.take_along_axis(order, reaches.argmax(axis=1)[:, None], axis=1)
        median[first : first + step] = xp.take_along_axis(part, at, axis=1)[:, 0]
    return median
