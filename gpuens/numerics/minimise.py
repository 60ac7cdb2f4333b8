"""Minima of smooth functions, found in steps that are the same on every machine."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

TOLERANCE = 1e-9
"""Relative error of a scalar minimum that is good enough."""
MOST_STEPS = 200
SUFFICIENT = 1e-4
"""Share of the decrease that the gradient promises which a step must reach (Armijo 1966)."""
HALVINGS = 40
ROUNDING = 1e-12
"""Relative rise of the value that is taken for rounding: near the minimum, the gradient still has
significant digits where the value has none."""
DAMPING = 1e-10
"""Part of the mean of the Hessian's diagonal that is added to it if it is singular, then ten
times as much, and so on (Levenberg 1944)."""
FORCING = 0.1
"""Length of the residual, as a part of the gradient's, at which conjugate gradients end."""
MOST_PRODUCTS = 1000
"""Products with a Hessian in one step of Newton's method."""

Slope = Callable[[float], tuple[float, float]]
"""First and (if available, else 0) second derivative at a point."""
Function = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""The value and the gradient at a point."""


def minimise(slope: Slope, limit: float) -> float:
    """Find the minimum of a function of one number, downhill from 0, at most ``limit`` away.

    Newton's method inside a bracket: a step that leaves it, or is not half as long as the one
    before, is replaced by bisection, or by doubling while there is no upper end yet. A slope
    that is not finite counts as beyond the minimum. Only the slope's sign decides where the
    minimum is, so it may jump.

    Parameters
    ----------
    slope : callable

    Returns
    -------
    float
        0 where the slope at 0 is zero; ``±limit`` where the function falls up to there.
    """
    first, curvature = slope(0.0)
    if not (first < 0.0 or first > 0.0):
        return 0.0
    side = -1.0 if first > 0.0 else 1.0
    low, high = 0.0, math.inf
    x = min(limit, _newton(0.0, abs(first), curvature))
    x = x if math.isfinite(x) and curvature > 0.0 else min(1.0, limit)
    step = x
    for _ in range(MOST_STEPS):
        value, curvature = slope(side * x)
        value = side * value
        if value == 0.0:
            break
        low, high = (x, high) if value < 0.0 else (low, x)
        guess = _newton(x, -value, curvature)
        if low >= limit or min(high - low, abs(guess - x)) <= TOLERANCE * x:
            break
        if high < math.inf and abs(guess - x) > 0.5 * step:  # Newton's method is too slow
            guess = math.inf
        before, x = x, _next(x, guess, low, high, limit)
        step = abs(x - before)
    return side * x


def _newton(x: float, downhill: float, curvature: float) -> float:
    """Return Newton's point, infinity if there is none."""
    step = downhill / curvature if curvature > 0.0 else math.inf
    return x + step if math.isfinite(step) else math.inf


def _next(x: float, guess: float, low: float, high: float, limit: float) -> float:
    """Return the guess if it lies inside the bracket, else the middle, or double ``x``."""
    if high == math.inf:
        return min(limit, 10.0 * x, guess if x < guess < math.inf else 2.0 * x)
    return guess if low < guess < high else low + 0.5 * (high - low)


class Minimum(NamedTuple):
    """The result of a search.

    x : float64 ndarray, shape (n,)
    value : float
    n_iter : int
    converged : bool
    """

    x: np.ndarray
    value: float
    n_iter: int
    converged: bool


class Operator(NamedTuple):
    """A positive definite matrix that is too large to write down.

    times : callable
        Multiplies it by a vector; a few bits of accuracy are enough.
    diagonal : float64 ndarray, shape (n,)
    """

    times: Callable[[np.ndarray], np.ndarray]
    diagonal: np.ndarray


def newton(
    function: Function,
    hessian: Callable[[np.ndarray], np.ndarray | Operator],
    start: np.ndarray,
    tol: float,
    max_iter: int,
) -> Minimum:
    """Minimise a smooth convex function by Newton's method.

    Parameters
    ----------
    function : callable
        The value and the gradient at a point.
    hessian : callable
        The second derivatives there: a matrix of shape (n, n), whose lower triangle is read, or
        an ``Operator``, with which steps are found by conjugate gradients.
    start : float64 ndarray, shape (n,)
    tol : float
        Largest entry of the gradient to end at.
    """
    x = start
    value, gradient = function(x)
    for n in range(max_iter):
        if np.abs(gradient).max() <= tol:
            return Minimum(x, value, n, True)
        found = _search(function, x, value, gradient, -_solve(hessian(x), gradient))
        if found is None:
            return Minimum(x, value, n, False)
        x, value, gradient = found
    return Minimum(x, value, max_iter, bool(np.abs(gradient).max() <= tol))


def _search(
    function: Function, x: np.ndarray, value: float, gradient: np.ndarray, direction: np.ndarray
) -> tuple[np.ndarray, float, np.ndarray] | None:
    """Take the first of the steps 1, 1/2, 1/4, ... that lowers the value enough.

    Returns the point, the value and the gradient there; None if no step does.
    """
    slope = dot(gradient, direction)
    size = 1.0
    for _ in range(HALVINGS):
        moved = x + size * direction
        there, slopes = function(moved)
        if there <= value + SUFFICIENT * size * slope + ROUNDING * abs(value):
            return moved, there, slopes
        size *= 0.5
    return None


def _solve(hessian: np.ndarray | Operator, gradient: np.ndarray) -> np.ndarray:
    if isinstance(hessian, Operator):
        return _conjugate_gradients(hessian, gradient)
    damping, size = 0.0, float(np.mean(np.diag(hessian)))
    while True:
        try:
            return Cholesky(hessian + damping * size * np.eye(len(gradient))).solve(gradient)
        except np.linalg.LinAlgError:
            damping = max(DAMPING, 10.0 * damping)


def _conjugate_gradients(matrix: Operator, right: np.ndarray) -> np.ndarray:
    """Solve roughly, preconditioned by the diagonal (Nocedal and Wright 2006, algorithm 5.3).

    Any number of steps gives a direction that leads downhill: Newton's method corrects the rest
    (Dembo, Eisenstat and Steihaug, "Inexact Newton methods", 1982).
    """
    x = np.zeros_like(right)
    residual = right
    enough = FORCING * FORCING * dot(right, right)
    direction = scaled = residual / matrix.diagonal
    size = dot(residual, scaled)
    for _ in range(MOST_PRODUCTS):
        product = matrix.times(direction)
        curvature = dot(direction, product)
        if not curvature > 0:  # only rounding error is left
            break
        step = size / curvature
        x = x + step * direction
        residual = residual - step * product
        if dot(residual, residual) <= enough:
            break
        scaled = residual / matrix.diagonal
        before, size = size, dot(residual, scaled)
        direction = scaled + (size / before) * direction
    return x if x.any() else right / matrix.diagonal


def dot(a: np.ndarray, b: np.ndarray) -> float:
    """Return ``sum(a * b)`` of the rounded products, rounded once."""
    return math.fsum((a * b).tolist())


class Cholesky:
    """The factor L of ``matrix = L @ L.T``.

    Parameters
    ----------
    matrix : float64 ndarray, shape (n, n)
        Symmetric and positive definite; only the lower triangle is read.

    Raises
    ------
    numpy.linalg.LinAlgError
        It is not positive definite.
    """

    def __init__(self, matrix: np.ndarray) -> None:
        lower = np.tril(matrix)
        for j in range(len(lower)):
            if not lower[j, j] > 0:
                raise np.linalg.LinAlgError(f"pivot {j} is {lower[j, j]}, not positive")
            lower[j:, j] /= np.sqrt(lower[j, j])
            below = lower[j + 1 :, j]
            lower[j + 1 :, j + 1 :] -= below[:, None] * below[None, :]
        self.lower = np.tril(lower)

    def solve(self, right: np.ndarray) -> np.ndarray:
        """x with ``matrix @ x = right``; both float64, shape (n,) or (n, k)."""
        x = np.array(right, np.float64)
        columns = x.reshape(len(x), -1)
        lower = self.lower
        for j in range(len(x)):
            columns[j] /= lower[j, j]
            columns[j + 1 :] -= lower[j + 1 :, j, None] * columns[j]
        for j in range(len(x) - 1, -1, -1):
            columns[j] /= lower[j, j]
            columns[:j] -= lower[j, :j, None] * columns[j]
        return x
