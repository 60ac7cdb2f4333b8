"""Losses of classes; the target is 0 or 1, also where there are more than two classes."""

from __future__ import annotations

from typing import NamedTuple

from .elementary import exp, sigmoid, softplus
from .primitives import formula, mul, select


class BinomialLogLoss(NamedTuple):
    """-ln P(y), P(1) = 1/(1 + e⁻ᶠ), y in {0, 1}."""

    parameter: float = 0.0


class MultinomialLogLoss(NamedTuple):
    """-ln P(k) of one class k against the rest, f = raw score minus log-sum-exp of all.

    ``parameter`` is K/(K - 1), the factor on the hessian that makes the one-class Newton step
    that of Friedman (2001), eq. 38.
    """

    parameter: float = 1.0


class Exponential(NamedTuple):
    """e⁻ᶠ for y = 1, eᶠ for y = 0: the loss of AdaBoost (Friedman, Hastie and Tibshirani 2000,
    "Additive logistic regression"); P(1) = 1/(1 + e⁻²ᶠ)."""

    parameter: float = 0.0


class Focal(NamedTuple):
    """-(1 - p)ᵞ ln p of the true class's probability p (Lin et al. 2017, "Focal loss for dense
    object detection", eq. 4), P(1) = 1/(1 + e⁻ᶠ).

    ``parameter`` is γ; 0 is the log loss.
    """

    parameter: float = 2.0


@formula
def binomial_value(y, f, parameter):
    return softplus(f) - mul(y, f)


@formula
def binomial_gradient(y, f, parameter):
    p = sigmoid(f)
    return p - y, mul(p, 1.0 - p)


@formula
def multinomial_value(y, f, parameter):
    return -mul(y, f)


@formula
def multinomial_gradient(y, f, parameter):
    p = exp(f)
    return p - y, mul(parameter, mul(p, 1.0 - p))


@formula
def exponential_value(y, f, parameter):
    return exp(select(y > 0.5, -f, f))


@formula
def exponential_gradient(y, f, parameter):
    e = exp(select(y > 0.5, -f, f))
    return select(y > 0.5, -e, e), e


@formula
def focal_value(y, f, parameter):
    z = select(y > 0.5, f, -f)
    return mul(exp(mul(-parameter, softplus(z))), softplus(-z))


@formula
def focal_gradient(y, f, parameter):
    """With z = ±f and q = 1 - p: qᵞ (γ p ln p - q), with the sign of z.

    The second derivative, p qᵞ ((1 + 2γ) q + γ (q - γ p) ln p), is negative where p is small.
    The hessian leaves its one negative term out, which never makes it smaller.
    """
    z = select(y > 0.5, f, -f)
    p = sigmoid(z)
    q = sigmoid(-z)
    power = exp(mul(-parameter, softplus(z)))
    entropy = mul(parameter, mul(p, softplus(-z)))
    slope = mul(power, -entropy - q)
    curvature = mul(1.0 + 2.0 * parameter, q) + mul(parameter, entropy)
    return select(y > 0.5, slope, -slope), mul(mul(p, power), curvature)
