"""Losses of positive targets, half deviances of Tweedie's family but for terms without f.

The prediction is eᶠ. The variance of the target is taken to grow with a power of its mean:
1 Poisson, 2 gamma, between them the compound Poisson-gamma distribution, which has a mass at
zero (Jørgensen 1987, "Exponential dispersion models").
"""

from __future__ import annotations

from typing import NamedTuple

from .elementary import exp
from .primitives import formula, mul


class Poisson(NamedTuple):
    """eᶠ - y f, y ≥ 0.

    ``parameter`` is a factor on the hessian that keeps steps short, 1 for none.
    """

    parameter: float = 1.0


class Gamma(NamedTuple):
    """f + y e⁻ᶠ, y > 0."""

    parameter: float = 0.0


class Tweedie(NamedTuple):
    """e⁽²⁻ᵖ⁾ᶠ / (2 - p) - y e⁽¹⁻ᵖ⁾ᶠ / (1 - p), y ≥ 0, 1 < p < 2.

    ``parameter`` is p.
    """

    parameter: float = 1.5


@formula
def poisson_value(y, f, parameter):
    return exp(f) - mul(y, f)


@formula
def poisson_gradient(y, f, parameter):
    mean = exp(f)
    return mean - y, mul(parameter, mean)


@formula
def gamma_value(y, f, parameter):
    return f + mul(y, exp(-f))


@formula
def gamma_gradient(y, f, parameter):
    ratio = mul(y, exp(-f))
    return 1.0 - ratio, ratio


@formula
def tweedie_value(y, f, parameter):
    a = exp(mul(2.0 - parameter, f))
    b = mul(y, exp(mul(1.0 - parameter, f)))
    return a / (2.0 - parameter) - b / (1.0 - parameter)


@formula
def tweedie_gradient(y, f, parameter):
    a = exp(mul(2.0 - parameter, f))
    b = mul(y, exp(mul(1.0 - parameter, f)))
    return a - b, mul(2.0 - parameter, a) + mul(parameter - 1.0, b)
