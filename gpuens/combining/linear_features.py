"""The features of linear models: standardised columns, and what is computed from them.

Everything here has the same bits on every device: sums over rows are in fixed point, sums over
features add whole arrays one after another.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..devices.placement import Device, to_numpy
from ..inputs.arrays import read_table
from ..kernels.scalars.elementary import log
from ..kernels.scalars.primitives import vectorise
from ..numerics.fixed_point import inner

_log = vectorise(log)

LEAST_PROBABILITY = 1e-3
"""Log-odds are of probabilities that are no closer to 0 and 1: a forest of 100 trees says 0 where
it means a few in 1000. Between 1e-6 and 3e-3 the choice hardly matters to the loss of stacks."""
BLOCK = 2**14
"""Values whose logarithms are taken at once: what the formula needs stays in the cache."""
CONSTANT = 1e-12
"""A column whose deviation is less than this part of its largest value does not vary."""


class Features(NamedTuple):
    """Columns with mean 0 and standard deviation 1, by the weights; 0 where they do not vary.

    columns : float64, shape (n_features, n_rows), on the device
    gram : float64 ndarray, shape (n_features, n_features)
        Sums over the rows of the weighted products of columns.
    mean, scale : float64 ndarrays, shape (n_features,)
        The scale is infinite where a column does not vary.
    total : float
        Sum of the weights.
    """

    columns: Any
    gram: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    total: float

    def original(self, coef: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (n_outputs, n_features) and intercepts of the columns as they were."""
        coef = coef / self.scale
        shift = [math.fsum(products) for products in (coef * self.mean).tolist()]
        return coef, intercept - np.array(shift)


def read_columns(X: Any, device: Device, *, estimator: Any, reset: bool) -> Any:
    """The features as finite float64 columns, shape (n_features, n_rows), on the device.

    Raises
    ------
    ValueError
        X is no table of numbers, or holds NaN or infinity; says in which columns.
    """
    table = read_table(X, device, estimator=estimator, reset=reset).values
    columns = device.asarray(table.T, np.float64, order="C")
    largest = to_numpy(abs(columns).max(axis=1))
    if not (largest < np.inf).all():
        wrong = np.flatnonzero(~(largest < np.inf)).tolist()
        raise ValueError(
            f"Input X contains NaN or infinity in the column(s) {wrong}, which a linear model "
            "cannot take. Fill them in, or choose a model that takes missing values."
        )
    return columns


def log_odds_of(probabilities: Any, device: Device) -> Any:
    """``log(p / (1 - p))`` of clipped probabilities: float64, of the same shape."""
    xp = device.xp
    clipped = xp.clip(probabilities, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)
    odds = (clipped / (1.0 - clipped)).ravel()
    parts = [_log(odds[first : first + BLOCK]) for first in range(0, odds.size, BLOCK)]
    return xp.concatenate(parts).reshape(probabilities.shape)


def standardise(columns: Any, weight: Any, device: Device) -> Features:
    """Standardise columns.

    Parameters
    ----------
    columns : float64, shape (n_features, n_rows)
    weight : float64, shape (n_rows,)
    device : Device
        Of both.
    """
    total = float(weight_sum(weight, device))
    mean = to_numpy(inner(columns, weight[None, :]))[:, 0] / total
    centred = columns - device.asarray(mean)[:, None]
    gram = to_numpy(inner(centred, centred * weight))
    largest = to_numpy(abs(columns).max(axis=1))
    scale = np.sqrt(np.maximum(np.diag(gram), 0.0) / total)
    scale[scale <= CONSTANT * largest] = np.inf
    standard = centred / device.asarray(scale)[:, None]
    return Features(standard, gram / scale[:, None] / scale[None, :], mean, scale, total)


def weight_sum(weight: Any, device: Device) -> float:
    """The sum of the weights."""
    return float(inner(weight[None, :], device.xp.ones((1, weight.size)))[0, 0])


def forward(columns: Any, coef: np.ndarray, intercept: np.ndarray, device: Device) -> Any:
    """``coef @ columns + intercept[:, None]``.

    Parameters
    ----------
    columns : float64, shape (n_features, n_rows), on the device
    coef : float64 ndarray, shape (n_outputs, n_features)
    intercept : float64 ndarray, shape (n_outputs,)

    Returns
    -------
    float64, shape (n_outputs, n_rows), on the device
    """
    coef, intercept = device.asarray(coef), device.asarray(intercept)
    result = device.xp.zeros((coef.shape[0], columns.shape[1])) + intercept[:, None]
    for j in range(columns.shape[0]):
        result += coef[:, j, None] * columns[j]
    return result
