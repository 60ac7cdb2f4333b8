"""Minimisation of a smooth convex function by Newton's method, the same on every machine."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .cholesky import Cholesky
from .lbfgs import Function, Minimum, search

DAMPING = 1e-10
"""Part of the mean of the Hessian's diagonal that is added to it if it is singular, then ten
times as much, and so on (Levenberg 1944)."""


def minimise(
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
