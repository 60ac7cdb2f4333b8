"""Gauss-Legendre quadrature on [0, 1], with the same bits everywhere."""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import cache
from math import cos, pi

import numpy as np

DIGITS = 40


def rules_up_to(most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the points and weights of the rules with 1, 2, ... ``most`` points, one rule after the
    other: that with n points begins at ``n * (n - 1) // 2``. It is exact up to the degree 2n - 1.
    """
    rules = [_rule(n) for n in range(1, most + 1)]
    return np.concatenate([p for p, _ in rules]), np.concatenate([w for _, w in rules])


@cache
def _rule(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the points and weights of the Gauss-Legendre quadrature on [0, 1], correctly rounded.
    (NumPy's depend on the linear algebra library in the last bit.)"""
    points, weights = np.empty(n), np.empty(n)
    with localcontext() as context:
        context.prec = DIGITS
        for k in range(n):
            x = Decimal(-cos(pi * (k + 0.75) / (n + 0.5)))
            for _ in range(8):  # Newton doubles the digits, from at least three
                value, derivative = _legendre(n, x)
                x -= value / derivative
            derivative = _legendre(n, x)[1]
            points[k] = float((1 + x) / 2)
            weights[k] = float(1 / ((1 - x * x) * derivative * derivative))
    return points, weights


def _legendre(n: int, x: Decimal) -> tuple[Decimal, Decimal]:
    """Return the Legendre polynomial of degree n and its derivative at x."""
    before, value = Decimal(1), x
    for k in range(2, n + 1):
        before, value = value, ((2 * k - 1) * x * value - (k - 1) * before) / k
    return value, n * (x * value - before) / (x * x - 1)
