"""exp, log and what follows from them, equal to the last bit on every target."""

from __future__ import annotations

import math

from .primitives import exponent, floor, formula, mul, select, two_to

LOG2_E = 1.4426950408889634
LN2_HIGH = 6.93147180369123816490e-01
LN2_LOW = 1.90821492927058770002e-10
EXP_MIN = -708.0
EXP_MAX = 709.0

FAR, LARGEST_SCORE = 2.0**20, 1e300
"""Beside larger scores the logarithm of a sum is lost; larger differences are NaN or infinite."""

(C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13) = (
    1.0 / math.factorial(k) for k in range(2, 14)
)


@formula
def exp(x):
    """eˣ for x clipped to [-708, 709]; within one unit in the last place.

    x = k ln 2 + r with -½ ln 2 ≤ r ≤ ½ ln 2; eʳ is its Taylor polynomial of degree 13.
    """
    x = select(x < EXP_MIN, EXP_MIN, select(x > EXP_MAX, EXP_MAX, x))
    k = floor(mul(x, LOG2_E) + 0.5)
    r = (x - mul(k, LN2_HIGH)) - mul(k, LN2_LOW)
    p = mul(r, C13) + C12
    p = mul(r, p) + C11
    p = mul(r, p) + C10
    p = mul(r, p) + C9
    p = mul(r, p) + C8
    p = mul(r, p) + C7
    p = mul(r, p) + C6
    p = mul(r, p) + C5
    p = mul(r, p) + C4
    p = mul(r, p) + C3
    p = mul(r, p) + C2
    p = mul(mul(r, r), p) + r + 1.0
    return mul(p, two_to(k))


@formula
def log(x):
    """ln x for a normal x > 0 below 2¹⁰²³.

    x = m 2ᵏ with m in [√½, √2); ln m = 2 artanh t with t = (m - 1)/(m + 1), as a series.
    """
    k = exponent(x)
    m = mul(x, two_to(-k))
    upper = m > 1.4142135623730951
    m = select(upper, mul(m, 0.5), m)
    k = select(upper, k + 1.0, k)
    t = (m - 1.0) / (m + 1.0)
    z = mul(t, t)
    s = mul(z, 1.0 / 21.0) + 1.0 / 19.0
    s = mul(z, s) + 1.0 / 17.0
    s = mul(z, s) + 1.0 / 15.0
    s = mul(z, s) + 1.0 / 13.0
    s = mul(z, s) + 1.0 / 11.0
    s = mul(z, s) + 1.0 / 9.0
    s = mul(z, s) + 1.0 / 7.0
    s = mul(z, s) + 1.0 / 5.0
    s = mul(z, s) + 1.0 / 3.0
    tail = mul(mul(z, s), t)
    return mul(k, LN2_HIGH) + (mul(k, LN2_LOW) + 2.0 * tail + 2.0 * t)


@formula
def sigmoid(x):
    """1 / (1 + e⁻ˣ)."""
    return 1.0 / (1.0 + exp(-x))


@formula
def is_far(x):
    """Return whether the logarithm of a sum is lost beside x, or x is NaN."""
    return (x != x) | (x > FAR) | (x < -FAR)


@formula
def within(x):
    """x clipped to [-1e300, 1e300]."""
    return select(x < -LARGEST_SCORE, -LARGEST_SCORE, select(x > LARGEST_SCORE, LARGEST_SCORE, x))


@formula
def softplus(x):
    """ln(1 + eˣ), without overflow."""
    magnitude = select(x < 0.0, -x, x)
    return select(x < 0.0, 0.0, x) + log(1.0 + exp(-magnitude))
