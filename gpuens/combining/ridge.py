"""Linear regression with an L2 penalty, the default meta-model of ``StackingRegressor``."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from ..devices.placement import to_numpy
from ..inputs.arrays import resolve_device, to_input_library
from ..inputs.targets import read_sample_weight
from ..members.fitting import read_outputs
from ..numerics.cholesky import Cholesky
from ..numerics.fixed_point import inner
from .linear_features import forward, read_columns, standardise, weight_sum


class RidgeRegression(RegressorMixin, BaseEstimator):
    """Least squares with an L2 penalty (Hoerl and Kennard 1970) on standardised features.

    Minimises ``sum_i w_i (y_i - f(x_i))**2 + alpha * sum_j (coef_j * deviation_j)**2``. The
    penalty does not depend on the units of features and target, unlike scikit-learn's ``Ridge``.
    The model is the same, bit for bit, on every device.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty; a row more of noise-free zeros for each feature.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where to work. "auto" follows the arrays; host arrays go to a usable GPU, else stay.

    Attributes
    ----------
    coef_ : float64 ndarray, shape (n_features,) or (n_outputs, n_features)
        Of the features as they are, not standardised.
    intercept_ : float or float64 ndarray, shape (n_outputs,)
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X had column names.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuens.combining.ridge import RidgeRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> round(RidgeRegression().fit(X, y).score(X, y), 3)
    0.518
    """

    def __init__(self, alpha: float = 1.0, *, device: str = "auto") -> None:
        self.alpha = alpha
        self.device = device

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> RidgeRegression:
        """Fit the coefficients.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)
        y : array, shape (n_rows,) or (n_rows, n_outputs)
        sample_weight : array of shape (n_rows,), default=None

        Returns
        -------
        self
        """
        check_penalty("alpha", self.alpha, zero=True)
        device = resolve_device(self.device, X, y=y, sample_weight=sample_weight)
        with device.active():
            columns = read_columns(X, device, estimator=self, reset=True)
            n_rows = columns.shape[1]
            target = read_outputs(y, n_rows, device, estimator=self)
            weight = read_sample_weight(sample_weight, n_rows, device, estimator=self)
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

    def predict(self, X: Any) -> Any:
        """Predict the target.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)

        Returns
        -------
        float64, shape (n_rows,) or (n_rows, n_outputs)
            In the array library and on the device of X.
        """
        check_is_fitted(self)
        device = resolve_device(self.device, X)
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


def check_penalty(name: str, value: Any, *, zero: bool) -> None:
    """Raise a ValueError unless a parameter is a finite number > 0 (or >= 0)."""
    number = isinstance(value, Real) and not isinstance(value, (bool, np.bool_))
    if not (number and float(value) < math.inf and (value > 0 or (zero and value == 0))):
        raise ValueError(f"{name} must be a finite number {'>=' if zero else '>'} 0, got {value!r}")
