"""Three losses of weighted averages of models, each prepared for many weights.

A loss is computed from the predictions of M models for the same rows. All of them give the same
bits on every device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ..devices.placement import Device, to_numpy
from ..kernels.runtime.arrays import Array
from ..kernels.scalars.elementary import log
from ..kernels.scalars.primitives import vectorise
from ..numerics.fixed_point import inner, slices, weighted_sum
from ..numerics.minimise import Cholesky, dot

SMALLEST = float(np.finfo(np.float64).eps)
"""Probabilities below are raised to this, as in scikit-learn's ``log_loss``."""
FACTORS = 16
"""Probabilities that are multiplied before a logarithm is taken: ``SMALLEST**16`` is a float."""
BLOCK = 2**14
"""Values whose logarithms are taken at once: what the formula needs stays in the cache."""

_log = vectorise(log)


class ModelLoss(Protocol):
    """A loss as a function of the weights of M models, which are positive and sum to one."""

    n_models: int
    empty: Any
    """The sum of no models, to which ``added`` adds."""

    def value(self, weights: np.ndarray) -> float:
        """Return the mean loss over the rows."""
        ...

    def minimum(self) -> np.ndarray:
        """Return the best weights."""
        ...

    def added(self, total: Any, model: int) -> Any:
        """Return a sum with one more model."""
        ...

    def of_sum(self, total: Any, n_added: int) -> float:
        """Return the loss of the average of a sum of so many models."""
        ...


class MeanSquaredError:
    """Mean squared error, summed over the outputs, of averaged values: predictions of shape
    (n_models, n_outputs, n_rows), y of (n_outputs, n_rows), and weights that sum to one."""

    def __init__(self, predictions: Array, y: Array, weight: Array, device: Device) -> None:
        self.n_models = predictions.shape[0]
        errors = predictions - y[None]  # of any average too, as its weights sum to one
        self.products = np.zeros((self.n_models, self.n_models))
        self.empty = 0.0, np.zeros(self.n_models)
        for output in range(y.shape[0]):
            of_output = errors[:, output]
            self.products += to_numpy(inner(of_output, of_output * weight))

    def value(self, weights: np.ndarray) -> float:
        """Return the mean loss over the rows."""
        return dot(np.array([dot(row, weights) for row in self.products]), weights)

    def minimum(self) -> np.ndarray:
        """Return the best weights."""
        return quadratic_minimum(2.0 * self.products, np.zeros(self.n_models))

    def added(self, total: tuple[float, np.ndarray], model: int) -> tuple[float, np.ndarray]:
        """Return the product of a sum with itself, and those with each model, after one more."""
        own, with_each = total
        own = own + 2.0 * with_each[model] + self.products[model, model]
        return own, with_each + self.products[model]

    def of_sum(self, total: tuple[float, np.ndarray], n_added: int) -> float:
        """Return the loss of the average of a sum of so many models."""
        return float(total[0] / n_added**2)


class MeanLogLoss:
    """Mean negative logarithm of the averaged probability of the true class, of (n_models, n_rows).
    Weights sum to one; None for equal ones is faster."""

    def __init__(self, probabilities: Array, weight: Array | None, device: Device) -> None:
        xp = device.xp
        self.probabilities = xp.maximum(probabilities, SMALLEST)
        self.n_models = probabilities.shape[0]
        self.device, self.weight = device, weight
        n_rows = probabilities.shape[1]
        self.shares = xp.full(n_rows, 1.0 / n_rows) if weight is None else weight
        self.empty = xp.zeros(n_rows)

    def value(self, weights: np.ndarray) -> float:
        """Return the mean loss over the rows."""
        return -mean_log(self._average(weights), self.weight, self.device)

    def minimum(self) -> np.ndarray:
        """Return the best weights."""
        start = np.full(self.n_models, 1.0 / self.n_models)
        return convex_minimum(self.value, self._derivatives, start)

    def added(self, total: Array, model: int) -> Array:
        """Return sums of probabilities with those of one more model."""
        return total + self.probabilities[model]

    def of_sum(self, total: Array, n_added: int) -> float:
        """Return the loss of the average of a sum of so many models."""
        return math.log(n_added) - mean_log(total, self.weight, self.device)

    def _average(self, weights: np.ndarray) -> Array:
        total: Any = 0.0
        for probability, weight in zip(self.probabilities, weights.tolist(), strict=True):
            total = total + weight * probability
        return total

    def _derivatives(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ratio = self.probabilities / self._average(weights)
        cut = slices(ratio)
        gradient = -to_numpy(inner(cut, self.shares[None, :]))[:, 0]
        return gradient, to_numpy(inner(cut, ratio * self.shares))


def mean_log(values: Array, weight: Array | None, device: Device) -> float:
    """Return the mean of the logarithms of positive numbers up to 1e18, by weights that sum to one,
    or None."""
    xp, n_rows = device.xp, values.size
    if weight is None:
        padded = xp.ones(-(-n_rows // FACTORS) * FACTORS)
        padded[:n_rows] = values
        factors = padded.reshape(FACTORS, -1)
        values = factors[0]
        for factor in factors[1:]:
            values = values * factor
        weight = xp.full(values.size, 1.0 / n_rows)
    parts = [_log(values[first : first + BLOCK]) for first in range(0, values.size, BLOCK)]
    return weighted_sum(xp.concat(parts), weight)


class ZeroOne:
    """Share of the rows that a weighted vote gets wrong; ties fall to the lowest class. Votes are
    class numbers (n_models, n_rows), and the weights of the rows sum to one."""

    empty = 0.0

    def __init__(
        self, votes: Array, y: Array, weight: Array, n_classes: int, device: Device
    ) -> None:
        self.votes, self.y, self.weight, self.device = votes, y, weight, device
        self.n_models = votes.shape[0]
        self.classes = device.xp.arange(n_classes)[:, None]

    def value(self, weights: np.ndarray) -> float:
        """Return the mean loss over the rows."""
        total: Any = 0.0
        for vote, weight in zip(self.votes, weights.tolist(), strict=True):
            total = total + weight * (vote[None, :] == self.classes)
        return self.of_sum(total, self.n_models)

    def added(self, total: Any, model: int) -> Array:
        """Return numbers of votes, shape (n_classes, n_rows), with those of one more model."""
        return total + 1.0 * (self.votes[model][None, :] == self.classes)

    def of_sum(self, total: Array, n_added: int) -> float:
        """Return the loss of weighted numbers of votes, shape (n_classes, n_rows)."""
        wrong = (total.argmax(axis=0) != self.y).astype(np.float64)
        return weighted_sum(wrong, self.weight)

    def minimum(self) -> np.ndarray:
        """Raise: the share of wrong rows is not a smooth function of the weights."""
        raise ValueError(
            "weights='optimal' needs probabilities or values, but these are votes: use "
            "voting='soft', or weights='greedy' or 'accuracy'."
        )


RIDGE = 1e-11
"""Part of the mean of the diagonal that is added to it: among equal models, equal weights."""
GAP = 1e-10
"""Distance from the minimum at which the search may end, relative to the value."""
MAX_STEPS = 200
HALVINGS = 50
SUFFICIENT = 1e-4

Derivatives = tuple[np.ndarray, np.ndarray]
"""The gradient, shape (n,), and the Hessian, shape (n, n)."""


def quadratic_minimum(hessian: np.ndarray, linear: np.ndarray) -> np.ndarray:
    """Minimise ``w @ hessian @ w / 2 + linear @ w`` over the simplex, by active sets.

    The method of Lawson and Hanson, "Solving least squares problems", 1974, chapter 23, with the
    sum of the weights as a further equation. Each step lowers the value, and a set of weights above
    zero occurs at most once, so it ends."""
    n = len(linear)
    size = float(np.mean(np.diag(hessian)))
    hessian = hessian + RIDGE * (size if size > 0 else 1.0) * np.eye(n)
    weights = np.zeros(n)
    weights[np.argmin(np.diag(hessian) / 2.0 + linear)] = 1.0
    above = weights > 0
    slack = 1e-13 * (np.abs(hessian).max() + np.abs(linear).max())
    for _ in range(10 * n + 10):
        gradient = _times(hessian, weights) + linear
        level = dot(gradient, weights)  # that of the weights above zero
        falls = np.where(above, np.inf, gradient - level)
        best = int(np.argmin(falls))
        if not falls[best] < -slack:
            break
        above[best] = True
        weights = _solve_above(hessian, linear, weights, above)
        above = weights > 0
    return weights / weights.sum()


def _solve_above(
    hessian: np.ndarray, linear: np.ndarray, weights: np.ndarray, above: np.ndarray
) -> np.ndarray:
    """Minimise with some weights above zero, dropping those that would fall below on the way."""
    above = above.copy()
    while True:
        solved = np.zeros_like(weights)
        solved[above] = _equality_minimum(hessian[np.ix_(above, above)], linear[above])
        below = above & (solved <= 0)
        if not below.any():
            return solved
        shares = np.full(len(weights), np.inf)
        shares[below] = weights[below] / (weights[below] - solved[below])
        first = int(np.argmin(shares))
        weights = np.maximum(weights + shares[first] * (solved - weights), 0.0)
        weights[first] = 0.0
        above[first] = False


def _equality_minimum(hessian: np.ndarray, linear: np.ndarray) -> np.ndarray:
    """Find the minimum among weights of any sign that sum to one."""
    factor = Cholesky(hessian)
    ones, shift = factor.solve(np.ones(len(linear))), factor.solve(linear)
    return ones * ((1.0 + shift.sum()) / ones.sum()) - shift


def _times(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return np.array([dot(row, vector) for row in matrix])


def convex_minimum(
    value: Callable[[np.ndarray], float],
    derivatives: Callable[[np.ndarray], Derivatives],
    start: np.ndarray,
) -> np.ndarray:
    """Minimise a smooth convex function over the simplex, by sequential quadratic programming.

    Kim, Carbonetto, Stephens and Anitescu, "A fast algorithm for maximum likelihood estimation of
    mixture proportions using sequential quadratic programming", Journal of Computational and
    Graphical Statistics 29, 2020. A convex function lies above its tangents: it cannot be lower
    anywhere than here by more than ``gradient @ weights - min(gradient)``."""
    weights = start
    here = value(weights)
    for _ in range(MAX_STEPS):
        gradient, hessian = derivatives(weights)
        if dot(gradient, weights) - gradient.min() <= GAP * max(abs(here), GAP):
            break
        target = quadratic_minimum(hessian, gradient - _times(hessian, weights))
        step = target - weights
        slope = dot(gradient, step)
        size = 1.0
        for _ in range(HALVINGS):
            moved = weights + size * step
            there = value(moved)
            if there <= here + SUFFICIENT * size * slope:
                break
            size *= 0.5
        else:
            break
        weights, here = moved, there
    return weights
