"""Diversity of regressors: the ambiguity decomposition, and the variance of an average."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device

from ..devices.placement import to_numpy
from ..kernels.runtime.arrays import Array
from .inputs import on_its_gpu, read_predictions, real_numbers, real_target


@dataclass(frozen=True)
class Ambiguity:
    """The squared error of a weighted mean of models, and its parts.

    Attributes
    ----------
    error : float
        Mean squared error of the ensemble: ``mean_error - ambiguity``.
    mean_error : float
        Weighted mean of the models' mean squared errors.
    ambiguity : float
        Weighted mean of the models' mean squared differences from the ensemble; never negative.
    of_models : float64, shape (n_models,)
        Each model's mean squared difference from the ensemble.
    of_rows : float64, shape (n_rows,)
        Each row's ambiguity: the weighted variance of the models' predictions.
    """

    error: float
    mean_error: float
    ambiguity: float
    of_models: Array
    of_rows: Array


@on_its_gpu
def ambiguity_decomposition(
    predictions: Any, y: Any, *, weights: Any = None, X: Any = None
) -> Ambiguity:
    """Split the error of an ensemble into the error of its models minus their ambiguity.

    Parameters
    ----------
    predictions : array, shape (n_rows, n_models), or fitted ensemble
        What each model predicts.
    y : array, shape (n_rows,)
        The target.
    weights : array, shape (n_models,), default=None
        Of the models in the ensemble; not negative, divided by their sum. None: equal.
    X : array or data frame, shape (n_rows, n_features), default=None
        The rows that an ensemble predicts.

    Returns
    -------
    Ambiguity
        Arrays in the library and on the device of the predictions.

    Raises
    ------
    ValueError
        The predictions are not a matrix of finite numbers, are of fewer than two models, or do not
        fit y; weights are negative, all zero, or not one for each model.

    References
    ----------
    Krogh and Vedelsby, "Neural network ensembles, cross validation, and active learning", NIPS 7,
    1995.

    Examples
    --------
    >>> from gpuens import diversity
    >>> found = diversity.ambiguity_decomposition([[0.0, 2.0], [1.0, 3.0]], [1.0, 1.0])
    >>> found.error, found.mean_error, found.ambiguity
    (0.5, 1.5, 1.0)
    """
    values = real_numbers(read_predictions(predictions, X))
    truth = real_target(y, values)
    xp = array_namespace(values)
    weight = xp.asarray(_shares(weights, values.shape[1]), device=device(values))
    ensemble = xp.sum(values * weight, axis=1)
    squares = (values - ensemble[:, None]) ** 2
    errors = xp.mean((values - truth[:, None]) ** 2, axis=0)
    of_models = xp.mean(squares, axis=0)
    return Ambiguity(
        error=float(xp.mean((ensemble - truth) ** 2)),
        mean_error=float(xp.sum(errors * weight)),
        ambiguity=float(xp.sum(of_models * weight)),
        of_models=of_models,
        of_rows=xp.sum(squares * weight, axis=1),
    )


def _shares(weights: Any, n_models: int) -> np.ndarray:
    """Return weights that sum to one, NumPy."""
    if weights is None:
        return np.full(n_models, 1.0 / n_models)
    try:
        array = np.asarray(to_numpy(weights), np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.shape != (n_models,) or not bool((array >= 0).all() and 0 < array.sum() < np.inf):
        raise ValueError(
            f"weights must be {n_models} finite numbers >= 0, one for each model and not all zero, "
            f"got {weights!r}."
        )
    return array / array.sum()


def variance_of_average(variance: Any, correlation: Any, n_models: Any) -> Any:
    """Variance of the mean of M equally distributed models: ``rho s² + (1 - rho) / M s²``.

    What is left however many models are averaged is ``rho s²``: a random forest lowers rho.

    Parameters
    ----------
    variance : float or array
        s², of one model; not negative.
    correlation : float or array
        rho, between two models: from ``-1 / (M - 1)``, below which no M models can be, to 1.
    n_models : int or array of int
        M, at least 1.

    Returns
    -------
    float64 or array

    Raises
    ------
    ValueError
        A value outside of its range.

    References
    ----------
    Hastie, Tibshirani and Friedman, "The Elements of Statistical Learning", 2009, equation 15.1.

    Examples
    --------
    >>> from gpuens.diversity import variance_of_average
    >>> variance_of_average(4.0, 0.25, 10)
    1.3
    """
    s2, rho, m = (np.asarray(to_numpy(v)) for v in (variance, correlation, n_models))
    if not bool(np.all(np.isfinite(s2) & (s2 >= 0))):
        raise ValueError(f"variance must be finite and >= 0, got {variance!r}.")
    if m.dtype.kind not in "iu" or not bool(np.all(m >= 1)):
        raise ValueError(f"n_models must be an integer >= 1, got {n_models!r}.")
    lowest = np.where(m > 1, -1.0 / np.maximum(m - 1, 1), -1.0)
    if not bool(np.all((rho >= lowest - 1e-12) & (rho <= 1 + 1e-12))):
        raise ValueError(
            "correlation must be from -1 / (n_models - 1) to 1, as between any models, got "
            f"{correlation!r}."
        )
    if all(np.ndim(to_numpy(v)) == 0 for v in (variance, correlation, n_models)):
        return float(rho * s2 + (1.0 - rho) / m * s2)
    return correlation * variance + (1.0 - correlation) / n_models * variance


class Spread(NamedTuple):
    """Variance of a model and correlation between two, the arguments of
    ``variance_of_average``.

    Attributes
    ----------
    variance : float
        The mean variance of the models.
    correlation : float
        The mean covariance of two models, divided by it.
    n_models : int
        Models in the ensemble.
    """

    variance: float
    correlation: float
    n_models: int


@on_its_gpu
def correlation_of_models(predictions: Any, y: Any = None, *, X: Any = None) -> Spread:
    """Estimate the variance and the correlation of the models of an ensemble.

    The variance is the mean of the models' variances, and the correlation the mean covariance of
    two of them divided by it, so that ``variance_of_average(*found)`` is exactly the variance of
    the mean of these models. The correlation is 1 where the variance is zero.

    Parameters
    ----------
    predictions : array, or fitted ensemble
        Of shape (n_rows, n_models): models vary and go together over the rows. Of shape
        (n_sets, n_rows, n_models): of ensembles that were trained on different sets, where they
        vary over the sets, averaged over the rows; this is the correlation that counts for the
        error of bagging and random forests (Hastie et al. 2009, section 15.4.1).
    y : array, shape (n_rows,), default=None
        With the target, errors are looked at instead of predictions.
    X : array or data frame, shape (n_rows, n_features), default=None
        The rows that an ensemble of regressors predicts.

    Returns
    -------
    Spread

    Raises
    ------
    ValueError
        Predictions of another shape, of fewer than two models or rows (sets), or not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuens.diversity import correlation_of_models, variance_of_average
    >>> models = np.array([[1.0, 2.0, 0.0], [3.0, 3.0, 1.0], [2.0, 4.0, 5.0]])
    >>> found = correlation_of_models(models)
    >>> bool(abs(variance_of_average(*found) - models.mean(axis=1).var()) < 1e-12)
    True
    """
    shape = tuple(getattr(predictions, "shape", ()))
    of_sets = len(shape) == 3
    if of_sets:
        flat = array_namespace(predictions).reshape(predictions, (-1, shape[2]))
        values = real_numbers(read_predictions(flat, X))
        values = array_namespace(values).reshape(values, shape)
    else:
        values = real_numbers(read_predictions(predictions, X))[:, None, :]
    if values.shape[0] < 2:
        what = "sets of predictions" if of_sets else "rows"
        raise ValueError(f"Variance needs at least two {what}, got one: pass more.")
    xp = array_namespace(values)
    if y is not None:
        truth = real_target(y, values[0, :, :] if of_sets else values[:, 0, :])
        values = values - (truth[None, :, None] if of_sets else truth[:, None, None])
    n_models = int(values.shape[2])
    apart = values - xp.mean(values, axis=0, keepdims=True)
    variance = float(xp.mean(apart**2))
    of_average = float(xp.mean(xp.mean(apart, axis=2) ** 2))
    if variance == 0:
        return Spread(0.0, 1.0, n_models)
    # Of the mean of M: (variance + (M - 1) covariance) / M.
    covariance = (n_models * of_average - variance) / (n_models - 1)
    return Spread(variance, covariance / variance, n_models)
