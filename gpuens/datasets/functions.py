"""sin and arctan of arrays, the same bits from every array library (see ``datasets_draws``)."""

from __future__ import annotations

import math
from typing import Any

from .draws import polynomial, sqrt_float64

_SINE = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(9, -1, -1))
_ARCTAN = tuple((-1.0) ** k / (2 * k + 1) for k in range(10, -1, -1))


def sin_pi(x: Any, xp: Any) -> Any:
    """sin(πx) for float64 x, within 1e-15: the Taylor series between -½ and ½."""
    nearest = xp.floor(x + 0.5)
    sign = 1.0 - (nearest - xp.floor(nearest * 0.5) * 2.0) * 2.0
    angle = (x - nearest) * math.pi
    return sign * angle * polynomial(_SINE, angle * angle)


def cos_pi(x: Any, xp: Any) -> Any:
    """cos(πx), as ``sin_pi``."""
    return sin_pi(x + 0.5, xp)


def arctan(x: Any, xp: Any) -> Any:
    """arctan x for float64 x, within 1e-15: an eighth of the angle by its Taylor series."""
    for _ in range(3):
        x = x / (sqrt_float64(x * x + 1.0, xp) + 1.0)  # the tangent of half the angle
    return x * polynomial(_ARCTAN, x * x) * 8.0
