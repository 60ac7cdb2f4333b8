"""Diversity of regressors: the ambiguity decomposition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from ..devices.placement import to_numpy
from .inputs import read_predictions, real_numbers, real_target


@dataclass(frozen=True)
class Ambiguity:
    """The squared error of a weighted mean of models, and what it is made of.

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
    of_models: Any
    of_rows: Any


def ambiguity_decomposition(
    predictions: Any, y: Any, *, weights: Any = None, X: Any = None
) -> Ambiguity:
    """The error of an ensemble is that of its models minus their ambiguity.

    Parameters
    ----------
    predictions : array, shape (n_rows, n_models), or fitted ensemble
        What each model predicts.
    y : array, shape (n_rows,)
        The target.
    weights : array, shape (n_models,), default=None
        Of the models in the ensemble; not negative, divided by their sum. None: equal.
    X : array or data frame, shape (n_rows, n_features), default=None
        The rows that an ensemble shall predict.

    Returns
    -------
    Ambiguity
        Arrays in the library and on the device of the predictions.

    Raises
    ------
    ValueError
        The predictions are no matrix of finite numbers, of fewer than two models, or do not fit
        y; weights are negative, all zero, or not one for each model.

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
    """Weights that sum up to one, NumPy."""
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
