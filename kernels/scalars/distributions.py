"""Formulas of losses that fit a whole distribution: log-likelihoods of two parameters.

Location and scale families take the residual in units of the scale at the start, r, and the
logarithm of the scale in these units, f. ``parameter`` is 1/ν of Student's t distribution, 0 for
the normal one. The negative binomial distribution has the logarithm of its size r as f: the
variance is m + m²/r with the mean m.
"""

from __future__ import annotations

from typing import NamedTuple

from .elementary import exp, log, softplus
from .primitives import formula, mul, select

HALF_LOG_TWO_PI = 0.9189385332046727
SMALLEST_LOG_SCALE = -16.0
"""Where scales stop to shrink: rows that a tree fits exactly have no smallest scale."""
SMALLEST_EXPONENT = -100.0
"""Keeps squares finite, far below any scale."""
SERIES_BELOW = 1e-3


class LocationScale(NamedTuple):
    """-ln of the density, as a function of the logarithm of the scale, except for the constant of
    the family. The hessian is 1: sums of gradients and hessians then say by which factor the mean
    of the squared residuals, in units of the scale, differs from 1."""

    parameter: float = 0.0


class LocationWeight(NamedTuple):
    """Only a value: the weight of a row's squared error. Weighted least squares with these are
    the steps of the location that never lower the likelihood (Lange, Little and Taylor 1989,
    "Robust statistical modeling using the t distribution", section 3)."""

    parameter: float = 0.0


@formula
def _square(r, f):
    """z², the squared residual in units of the scale."""
    return mul(mul(r, r), exp(-2.0 * select(f < SMALLEST_EXPONENT, SMALLEST_EXPONENT, f)))


@formula
def location_scale_value(y, f, parameter):
    """With u = z²/ν, the logarithm is ½ (ν + 1) ln(1 + u) = ½ (1 + 1/ν) z² ln(1 + u) / u."""
    z2 = _square(y, f)
    u = mul(parameter, z2)
    large = select(u > SERIES_BELOW, u, 1.0)
    series = 1.0 - mul(u, 0.5 - mul(u, 1.0 / 3.0 - mul(u, 0.25)))
    ratio = select(u > SERIES_BELOW, log(1.0 + large) / large, series)
    return f + mul(mul(0.5 + 0.5 * parameter, z2), ratio)


@formula
def location_scale_gradient(y, f, parameter):
    z2 = _square(y, f)
    ratio = mul(1.0 + parameter, z2) / (1.0 + mul(parameter, z2))
    slope = 1.0 - ratio
    at_end = select(f < SMALLEST_LOG_SCALE, slope, 0.0)
    return select(at_end > 0.0, 0.0, slope), 1.0


@formula
def location_weight_value(y, f, parameter):
    precision = exp(-2.0 * f)
    return mul(1.0 + parameter, precision) / (1.0 + mul(parameter, _square(y, f)))


class SoftplusLink(NamedTuple):
    """Only a value: ln(1 + eᶠ)."""

    parameter: float = 0.0


@formula
def softplus_link_value(y, f, parameter):
    return softplus(f)


class SizeEntropy(NamedTuple):
    """Only a value: ln B(r, y + 1) + ln(r + y), the part of the negative binomial log-likelihood
    with gamma functions: ln Γ(r) + ln Γ(y + 1) - ln Γ(r + y)."""

    parameter: float = 0.0


class SizeSlope(NamedTuple):
    """Only a value: r (ψ(r + y) - ψ(r)), the derivative of -``SizeEntropy`` by ln r."""

    parameter: float = 0.0


class SizeInformation(NamedTuple):
    """Only a value: r² (ψ'(r) - ψ'(r + y) - 1/r + 1/(r + y)), with the mean as y: Fisher's
    information of ln r with the mean of ψ' replaced by ψ' at the mean, which is never less."""

    parameter: float = 0.0


# Gamma functions of x > 0 by their asymptotic series at x + 8, where it has the last bits, and
# recurrences back to x (Abramowitz and Stegun 1964, 6.1.40, 6.3.18, 6.4.12).


@formula
def log_gamma(x):
    """ln Γ(x)."""
    y = x + 8.0
    lower = mul(mul(x, x + 1.0), mul(x + 2.0, x + 3.0))
    upper = mul(mul(x + 4.0, x + 5.0), mul(x + 6.0, x + 7.0))
    u = 1.0 / mul(y, y)
    series = mul(u, 1.0 / 1188.0) - 1.0 / 1680.0
    series = mul(u, series) + 1.0 / 1260.0
    series = mul(u, series) - 1.0 / 360.0
    series = (mul(u, series) + 1.0 / 12.0) / y
    large = mul(y - 0.5, log(y)) - y + HALF_LOG_TWO_PI + series
    return large - log(lower) - log(upper)


@formula
def digamma(x):
    """ψ(x) = Γ'(x) / Γ(x)."""
    y = x + 8.0
    u = 1.0 / mul(y, y)
    series = mul(u, -1.0 / 132.0) + 1.0 / 240.0
    series = mul(u, series) - 1.0 / 252.0
    series = mul(u, series) + 1.0 / 120.0
    series = mul(u, mul(u, series) - 1.0 / 12.0)
    near = 1.0 / x + 1.0 / (x + 1.0) + 1.0 / (x + 2.0) + 1.0 / (x + 3.0)
    far = 1.0 / (x + 4.0) + 1.0 / (x + 5.0) + 1.0 / (x + 6.0) + 1.0 / (x + 7.0)
    return log(y) - 0.5 / y + series - near - far


@formula
def _step_of_trigamma(x):
    return 1.0 / mul(mul(x, x), x + 1.0)


@formula
def trigamma_excess(x):
    """ψ'(x) - 1/x."""
    y = x + 8.0
    u = 1.0 / mul(y, y)
    series = mul(u, -1.0 / 30.0) + 1.0 / 42.0
    series = mul(u, series) - 1.0 / 30.0
    series = (mul(u, series) + 1.0 / 6.0) / y
    total = mul(u, series + 0.5)
    total = total + _step_of_trigamma(x + 7.0)
    total = total + _step_of_trigamma(x + 6.0)
    total = total + _step_of_trigamma(x + 5.0)
    total = total + _step_of_trigamma(x + 4.0)
    total = total + _step_of_trigamma(x + 3.0)
    total = total + _step_of_trigamma(x + 2.0)
    total = total + _step_of_trigamma(x + 1.0)
    return total + _step_of_trigamma(x)


@formula
def size_entropy_value(y, f, parameter):
    r = exp(f)
    return log_gamma(r) + log_gamma(y + 1.0) - log_gamma(r + y)


@formula
def size_slope_value(y, f, parameter):
    r = exp(f)
    return mul(r, digamma(r + y) - digamma(r))


@formula
def size_information_value(y, f, parameter):
    r = exp(f)
    return mul(r, mul(r, trigamma_excess(r) - trigamma_excess(r + y)))
