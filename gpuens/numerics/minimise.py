"""Minima of smooth functions, found in steps that are the same on every machine."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .cholesky import Cholesky

TOLERANCE = 1e-9
"""Relative error of the minimum that is good enough."""
MOST_STEPS = 200

Slope = Callable[[float], tuple[float, float]]
"""First and (if it is at hand, else 0) second derivative at a point."""


def minimise(slope: Slope, limit: float) -> float:
    """The minimum, starting from 0 and going downhill, at most ``limit`` away.

    Newton's method inside a bracket: a step that leaves it, or is not half as long as the one
    before, is replaced by bisection, or by twice the way while there is no upper end yet. A slope
    that is not finite counts as beyond the minimum. Only the slope's sign decides where the
    minimum is, so it may jump.

    Parameters
    ----------
    slope : callable
    limit : float

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
    """Newton's point, infinity where there is none."""
    step = downhill / curvature if curvature > 0.0 else math.inf
    return x + step if math.isfinite(step) else math.inf


def _next(x: float, guess: float, low: float, high: float, limit: float) -> float:
    """The guess if it lies inside the bracket, else the middle or twice the way."""
    if high == math.inf:
        return min(limit, 10.0 * x, guess if x < guess < math.inf else 2.0 * x)
    return guess if low < guess < high else low + 0.5 * (high - low)


MEMORY = 10
"""Pairs of steps and changes of the gradient that are remembered."""
SUFFICIENT = 1e-4
"""Share of the decrease that the gradient promises which a step must reach (Armijo 1966)."""
HALVINGS = 40
ROUNDING = 1e-12
"""By so much of itself the value may rise: it has no more digits where the gradient still has."""


Function = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""The value and the gradient at a point."""


class Minimum(NamedTuple):
    """Where the search ended.

    x : float64 ndarray, shape (n,)
    value : float
    n_iter : int
    converged : bool
    """

    x: np.ndarray
    value: float
    n_iter: int
    converged: bool


def lbfgs(
    function: Function,
    start: np.ndarray,
    precondition: Callable[[np.ndarray], np.ndarray],
    tol: float,
    max_iter: int,
) -> Minimum:
    """Minimise a function.

    Parameters
    ----------
    function : callable
        The value and the gradient at a point.
    start : float64 ndarray, shape (n,)
    precondition : callable
        Multiplies a gradient by the inverse of an approximate Hessian.
    tol : float
        Largest entry of the gradient to end at.
    max_iter : int
    """
    x = start
    value, gradient = function(x)
    steps: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=MEMORY)
    for n in range(max_iter):
        if np.abs(gradient).max() <= tol:
            return Minimum(x, value, n, True)
        direction = -_times_inverse_hessian(gradient, steps, precondition)
        found = search(function, x, value, gradient, direction)
        if found is None:
            return Minimum(x, value, n, False)
        pair = found[0] - x, found[2] - gradient
        if dot(*pair) > 0:
            steps.append(pair)
        x, value, gradient = found
    return Minimum(x, value, max_iter, bool(np.abs(gradient).max() <= tol))


def search(
    function: Function, x: np.ndarray, value: float, gradient: np.ndarray, direction: np.ndarray
) -> tuple[np.ndarray, float, np.ndarray] | None:
    """The first of 1, 1/2, 1/4, ... steps that lowers the value enough: the point, the value and
    the gradient there; None if none does."""
    slope = dot(gradient, direction)
    size = 1.0
    for _ in range(HALVINGS):
        moved = x + size * direction
        there, slopes = function(moved)
        if there <= value + SUFFICIENT * size * slope + ROUNDING * abs(value):
            return moved, there, slopes
        size *= 0.5
    return None


def _times_inverse_hessian(
    gradient: np.ndarray,
    steps: deque[tuple[np.ndarray, np.ndarray]],
    precondition: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """The two loops over the remembered steps (Nocedal and Wright 2006, algorithm 7.4)."""
    result = gradient
    shares = []
    for step, change in reversed(steps):
        shares.append(dot(step, result) / dot(step, change))
        result = result - shares[-1] * change
    result = precondition(result)
    if steps:
        step, change = steps[-1]
        result = result * (dot(step, change) / dot(change, precondition(change)))
    for step, change in steps:
        result = result + step * (shares.pop() - dot(change, result) / dot(step, change))
    return result


def dot(a: np.ndarray, b: np.ndarray) -> float:
    """``sum(a * b)`` of the rounded products, rounded once."""
    return math.fsum((a * b).tolist())


DAMPING = 1e-10
"""Part of the mean of the Hessian's diagonal that is added to it if it is singular, then ten
times as much, and so on (Levenberg 1944)."""


def newton(
    function: Function,
    hessian: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    tol: float,
    max_iter: int,
) -> Minimum:
    """Minimise a function.

    Parameters
    ----------
    function : callable
        The value and the gradient at a point.
    hessian : callable
        The second derivatives there, shape (n, n).
    start : float64 ndarray, shape (n,)
    tol : float
        Largest entry of the gradient to end at.
    max_iter : int
    """
    x = start
    value, gradient = function(x)
    for n in range(max_iter):
        if np.abs(gradient).max() <= tol:
            return Minimum(x, value, n, True)
        found = search(function, x, value, gradient, -_solve(hessian(x), gradient))
        if found is None:
            return Minimum(x, value, n, False)
        x, value, gradient = found
    return Minimum(x, value, max_iter, bool(np.abs(gradient).max() <= tol))


def _solve(hessian: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    damping, size = 0.0, float(np.mean(np.diag(hessian)))
    while True:
        try:
            return Cholesky(hessian + damping * size * np.eye(len(gradient))).solve(gradient)
        except np.linalg.LinAlgError:
            damping = max(DAMPING, 10.0 * damping)
