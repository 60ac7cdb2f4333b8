"""Ensemble selection: models are added one by one, with replacement, while that helps.

Caruana, Niculescu-Mizil, Crew and Ksikes, "Ensemble selection from libraries of models",
International Conference on Machine Learning, 2004.
"""

from __future__ import annotations

import math

import numpy as np

from ..devices.placement import CPU
from ..numerics.bootstrap import subset
from .losses import ModelLoss


def bagged_selection(
    loss: ModelLoss, n_rounds: int, n_initial: int, n_bags: int, bag_share: float, seed: int
) -> np.ndarray:
    """Select from random parts of the models, and average (Caruana et al. 2004, section 2.3).

    Parameters
    ----------
    loss : ModelLoss
    n_rounds, n_initial : int
        As for ``select``.
    n_bags : int
        One bag holds all models.
    bag_share : float
        Share of the models in each of several bags, rounded up.
    seed : int

    Returns
    -------
    float64 ndarray, shape (n_models,)
        Sums to one.
    """
    everything = np.arange(loss.n_models)
    singly = np.array([loss.tally().trial(model) for model in everything.tolist()])
    if n_bags == 1:
        counts = select(loss, everything, singly, n_rounds, n_initial)
        return counts / counts.sum()
    n_models = math.ceil(bag_share * loss.n_models)
    weights = np.zeros(loss.n_models)
    for bag in range(n_bags):
        models = subset(loss.n_models, n_models, seed, bag, CPU)
        counts = select(loss, models, singly, n_rounds, n_initial)
        weights += counts / counts.sum()
    return weights / n_bags


def select(
    loss: ModelLoss, models: np.ndarray, singly: np.ndarray, n_rounds: int, n_initial: int
) -> np.ndarray:
    """Select from some models.

    Parameters
    ----------
    loss : ModelLoss
    models : int64 ndarray, shape (n,)
        Their numbers, ascending.
    singly : float64 ndarray, shape (n_models,)
        The loss of each of all models alone.
    n_rounds : int
        Most models in the ensemble, repetitions counted.
    n_initial : int
        The ensemble starts with the best, the two best, ..., or the ``n_initial`` best models,
        whichever is the best ensemble.

    Returns
    -------
    float64 ndarray, shape (n_models,)
        How often each model was taken, up to the round with the lowest loss. Among equally good
        models the first is taken.
    """
    best_first = models[np.argsort(singly[models], kind="stable")][:n_initial]
    chosen, losses = _add_all(loss, best_first)
    chosen = chosen[: int(np.argmin(losses)) + 1]
    tally = loss.tally()
    for model in chosen:
        tally.add(model)
    path = [min(losses)]
    for _ in range(n_rounds - len(chosen)):
        trials = [tally.trial(model) for model in models.tolist()]
        best = int(np.argmin(trials))
        tally.add(int(models[best]))
        chosen.append(int(models[best]))
        path.append(trials[best])
    n_kept = len(chosen) - len(path) + 1 + int(np.argmin(path))
    return np.bincount(chosen[:n_kept], minlength=loss.n_models).astype(np.float64)


def _add_all(loss: ModelLoss, models: np.ndarray) -> tuple[list[int], list[float]]:
    """Add models in their order; their numbers, and the loss after each."""
    tally, losses = loss.tally(), []
    for model in models.tolist():
        losses.append(tally.trial(model))
        tally.add(model)
    return models.tolist(), losses
