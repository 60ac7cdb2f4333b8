"""Minimum of a function of one number, from its slope: line search and best constants."""

from __future__ import annotations

import math
from collections.abc import Callable

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
