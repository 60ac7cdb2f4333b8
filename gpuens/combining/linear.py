"""Linear models: standardised features, and ridge regression, the default meta-model of
``StackingRegressor``.

All results have the same bits on every device: sums over rows are in fixed point, sums over
features add whole arrays one after another.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from ..devices.placement import Device, to_numpy
from ..estimators.parameters import NOT_NEGATIVE
from ..inputs.arrays import read_table, to_input_library
from ..inputs.targets import found_in, read_sample_weight
from ..kernels.runtime.arrays import Array
from ..kernels.scalars.elementary import log
from ..kernels.scalars.primitives import vectorise
from ..members.fitting import read_outputs
from ..members.rows import home_of
from ..numerics.fixed_point import inner
from ..numerics.minimise import Cholesky

_log = vectorise(log)

LEAST_PROBABILITY = 1e-3
"""Probabilities are clipped to this distance from 0 and 1 before their log-odds are taken: a
forest of 100 trees predicts 0 where it means a few in 1000. Between 1e-6 and 3e-3 the choice hardly
matters to the loss of stacks."""
BLOCK = 2**14
"""Values whose logarithms are taken at once: what the formula needs stays in the cache."""
CONSTANT = 1e-12
"""A column whose deviation is less than this part of its largest value does not vary."""


class StandardisedColumns(NamedTuple):
    """Columns (n_features, n_rows) with mean 0 and standard deviation 1, by the weights, whose sum
    is ``total``; 0, and an infinite scale, where they do not vary. ``gram`` has the weighted sums
    of their products."""

    columns: Array
    gram: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    total: float

    def original(self, coef: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Convert coefficients (n_outputs, n_features) and intercepts to unstandardised columns."""
        coef = coef / self.scale
        shift = [math.fsum(products) for products in (coef * self.mean).tolist()]
        return coef, intercept - np.array(shift)


def read_columns(X: Any, device: Device, *, estimator: Any, reset: bool) -> Array:
    """Read the features as float64 columns, shape (n_features, n_rows), on the device. Raises a
    ValueError if X is not a table of numbers, or names the columns that hold NaN or infinity."""
    table = read_table(X, device, estimator=estimator, reset=reset)
    columns = device.asarray(table.T, np.float64, order="C")
    largest = to_numpy(abs(columns).max(axis=1))
    if not (largest < np.inf).all():
        wrong = np.flatnonzero(~(largest < np.inf)).tolist()
        raise ValueError(
            f"Input X contains NaN or infinity in the column(s) {wrong}: "
            f"{found_in(~device.xp.isfinite(columns.T))}. A linear model cannot take them: fill "
            "them in, or choose a model that takes missing values."
        )
    return columns


def log_odds_of(probabilities: Array, device: Device) -> Array:
    """``log(p / (1 - p))`` of clipped probabilities: float64, of the same shape."""
    xp = device.xp
    clipped = xp.clip(probabilities, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)
    odds = (clipped / (1.0 - clipped)).ravel()
    parts = [_log(odds[first : first + BLOCK]) for first in range(0, odds.size, BLOCK)]
    return xp.concat(parts).reshape(probabilities.shape)


def standardise(columns: Array, weight: Array, device: Device) -> StandardisedColumns:
    """Standardise columns (n_features, n_rows) by the weights of the rows."""
    total = float(weight_sum(weight, device))
    mean = to_numpy(inner(columns, weight[None, :]))[:, 0] / total
    centred = columns - device.asarray(mean)[:, None]
    gram = to_numpy(inner(centred, centred * weight))
    largest = to_numpy(abs(columns).max(axis=1))
    scale = np.sqrt(np.maximum(np.diag(gram), 0.0) / total)
    scale[scale <= CONSTANT * largest] = np.inf
    standard = centred / device.asarray(scale)[:, None]
    return StandardisedColumns(standard, gram / scale[:, None] / scale[None, :], mean, scale, total)


def weight_sum(weight: Array, device: Device) -> float:
    """Return the sum of the weights."""
    return float(inner(weight[None, :], device.xp.ones((1, weight.size)))[0, 0])


def forward(columns: Array, coef: np.ndarray, intercept: np.ndarray, device: Device) -> Array:
    """Return ``coef @ columns + intercept[:, None]``, (n_outputs, n_rows) on the device."""
    coef, intercept = device.asarray(coef), device.asarray(intercept)
    result = device.xp.zeros((coef.shape[0], columns.shape[1])) + intercept[:, None]
    for j in range(columns.shape[0]):
        result += coef[:, j, None] * columns[j]
    return result


class RidgeRegression(RegressorMixin, BaseEstimator):
    """Least squares with an L2 penalty (Hoerl and Kennard 1970) on standardised features.

    Minimises ``sum_i w_i (y_i - f(x_i))**2 + alpha * sum_j (coef_j * deviation_j)**2``. The
    penalty does not depend on the units of features and target, unlike scikit-learn's ``Ridge``.
    The model is the same, bit for bit, on every device.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty: that of ``alpha`` rows with target 0 for each feature.
    device : {"auto", "cpu", "cuda", "array"}, default="auto"
        Where to work. "auto" follows the arrays: those on the host stay there.
        "array" works in the array library of X by functions of the Array API standard alone: the
        same model, many times slower.

    Attributes
    ----------
    coef_ : float64 ndarray, shape (n_features,) or (n_outputs, n_features)
        Of the features in their own units, not standardised.
    intercept_ : float or float64 ndarray, shape (n_outputs,)
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X had column names.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuens.combining.linear import RidgeRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> round(RidgeRegression().fit(X, y).score(X, y), 3)
    0.518
    """

    def __init__(self, alpha: float = 1.0, *, device: str = "auto") -> None:
        self.alpha = alpha
        self.device = device

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> RidgeRegression:
        """Fit the coefficients for y of shape (n_rows,) or (n_rows, n_outputs); return self."""
        NOT_NEGATIVE.check("alpha", self.alpha)
        device = home_of(self.device, X, y=y, sample_weight=sample_weight)
        with device.active():
            columns = read_columns(X, device, estimator=self, reset=True)
            n_rows = columns.shape[1]
            target = read_outputs(y, n_rows, device, estimator=self)
            weight = read_sample_weight(sample_weight, n_rows, device)
            if weight is None:
                weight = device.xp.ones(n_rows)
            features = standardise(columns, weight, device)
            outputs = target.reshape(n_rows, -1).T
            total = weight_sum(weight, device)
            mean = to_numpy(inner(outputs, weight[None, :]))[:, 0] / total
            centred = (outputs - device.asarray(mean)[:, None]) * weight
            products = to_numpy(inner(features.columns, centred))
        coef = _solve(features.gram, products, float(self.alpha), features.scale)
        coef, intercept = features.original(coef.T, mean)
        single = target.ndim == 1
        self.coef_: np.ndarray = coef[0] if single else coef
        self.intercept_: Any = float(intercept[0]) if single else intercept
        return self

    def predict(self, X: Any) -> Array:
        """Predict the target: float64, shape (n_rows,) or (n_rows, n_outputs), in the library of
        X."""
        check_is_fitted(self)
        device = home_of(self.device, X)
        with device.active():
            columns = read_columns(X, device, estimator=self, reset=False)
            coef, intercept = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)
            result = forward(columns, coef, intercept, device)
            return to_input_library(result[0] if self.coef_.ndim == 1 else result.T, X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions."""
        weight = None if sample_weight is None else to_numpy(sample_weight)
        return float(r2_score(to_numpy(y), to_numpy(self.predict(X)), sample_weight=weight))


def _solve(gram: np.ndarray, right: np.ndarray, alpha: float, scale: np.ndarray) -> np.ndarray:
    """Coefficients of standardised columns; 0 where a column does not vary."""
    system = gram + alpha * np.eye(len(gram))
    constant = ~np.isfinite(scale)
    system[constant, constant] = 1.0
    try:
        return Cholesky(system).solve(right)
    except np.linalg.LinAlgError:
        raise ValueError(
            f"alpha={alpha} leaves the coefficients undetermined: features are linear "
            "combinations of others. Use a larger alpha."
        ) from None
