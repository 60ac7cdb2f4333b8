"""Minimisation of a smooth convex function: L-BFGS, in steps that are the same everywhere.

Liu and Nocedal, "On the limited memory BFGS method for large scale optimization", Mathematical
Programming 45, 1989. SciPy's version adds vectors in an order that depends on the build.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

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


def minimise(
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
