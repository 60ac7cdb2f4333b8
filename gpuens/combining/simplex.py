"""Minima over the simplex: weights that are not negative and sum to one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..numerics.cholesky import Cholesky
from ..numerics.lbfgs import dot

RIDGE = 1e-11
"""Part of the mean of the diagonal that is added to it: among equal models, equal weights."""
GAP = 1e-10
"""How far above the minimum the search may end, as a part of the size of the value."""
MAX_STEPS = 200
HALVINGS = 50
SUFFICIENT = 1e-4

Derivatives = tuple[np.ndarray, np.ndarray]
"""The gradient, shape (n,), and the Hessian, shape (n, n)."""


def quadratic_minimum(hessian: np.ndarray, linear: np.ndarray) -> np.ndarray:
    """Minimise ``w @ hessian @ w / 2 + linear @ w`` over the simplex, by active sets.

    Parameters
    ----------
    hessian : float64 ndarray, shape (n, n)
        Symmetric, positive semidefinite.
    linear : float64 ndarray, shape (n,)

    Returns
    -------
    float64 ndarray, shape (n,)

    Notes
    -----
    The method of Lawson and Hanson, "Solving least squares problems", 1974, chapter 23, with
    the sum of the weights as a further equation. Each step lowers the value, and a set of
    weights above zero occurs at most once, so it ends.
    """
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
    """The minimum with some weights above zero, those that would fall below dropped on the way."""
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
    """The minimum among weights that sum to one, whatever their signs."""
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

    Parameters
    ----------
    value, derivatives : callables
        Of weights, shape (n,).
    start : float64 ndarray, shape (n,)

    Returns
    -------
    float64 ndarray, shape (n,)

    Notes
    -----
    Kim, Carbonetto, Stephens and Anitescu, "A fast algorithm for maximum likelihood estimation
    of mixture proportions using sequential quadratic programming", Journal of Computational
    and Graphical Statistics 29, 2020. A convex function lies above its tangents: it cannot be
    lower anywhere than here by more than ``gradient @ weights - min(gradient)``.
    """
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
