"""The losses: value, gradient and hessian of one row.

A loss is a named tuple of its parameters (compiled code specialises on the class) and two formulas
with the signature ``(y, f, parameter)``: ``y`` the target, ``f`` the raw prediction, ``parameter``
the tuple's one number. ``LOSSES`` ties them together; adding a loss means adding a class, its two
formulas and a line of ``LOSSES`` here, and a class in ``gpuens``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from . import distributions as dist
from .elementary import exp, log, sigmoid, softplus
from .lazy_jit import declaration
from .primitives import formula, mul, select


class SquaredError(NamedTuple):
    """½ (y - f)²."""

    parameter: float = 0.0


class AbsoluteError(NamedTuple):
    """\\|y - f\\|."""

    parameter: float = 0.0


class Huber(NamedTuple):
    """½ r² for \\|r\\| ≤ δ, else δ (\\|r\\| - ½ δ), with r = y - f (Huber 1964).

    ``parameter`` is δ.
    """

    parameter: float = 1.0


class Quantile(NamedTuple):
    """q r for r ≥ 0, else (q - 1) r, with r = y - f (Koenker and Bassett 1978).

    ``parameter`` is q.
    """

    parameter: float = 0.5


class Expectile(NamedTuple):
    """τ r² for r ≥ 0, else (1 - τ) r², with r = y - f (Newey and Powell 1987, eq. 2.2); τ = 0.5 is
    the squared error.

    ``parameter`` is τ.
    """

    parameter: float = 0.5


LEAST_HESSIAN = 0.05
"""The hessian of a row for the expectile loss, at least, as a part of what it is on the other side
of the target: the longest steps stay safe at a learning rate of 0.1 (see ``losses.Expectile``)."""


@formula
def squared_error_value(y, f, parameter):
    r = f - y
    return mul(0.5, mul(r, r))


@formula
def squared_error_gradient(y, f, parameter):
    return f - y, 1.0


@formula
def absolute_error_value(y, f, parameter):
    r = f - y
    return select(r < 0.0, -r, r)


@formula
def absolute_error_gradient(y, f, parameter):
    r = f - y
    return select(r > 0.0, 1.0, select(r < 0.0, -1.0, r)), 1.0


@formula
def huber_value(y, f, parameter):
    r = f - y
    r = select(r < 0.0, -r, r)
    inside = mul(0.5, mul(r, r))
    outside = mul(parameter, r - mul(0.5, parameter))
    return select(r <= parameter, inside, outside)


@formula
def huber_gradient(y, f, parameter):
    r = f - y
    return select(r > parameter, parameter, select(r < -parameter, -parameter, r)), 1.0


@formula
def quantile_value(y, f, parameter):
    r = y - f
    return select(r >= 0.0, mul(parameter, r), mul(parameter - 1.0, r))


@formula
def quantile_gradient(y, f, parameter):
    r = f - y
    return select(r < 0.0, -parameter, select(r > 0.0, 1.0 - parameter, r)), 1.0


@formula
def expectile_value(y, f, parameter):
    r = y - f
    square = mul(r, r)
    return select(r >= 0.0, mul(parameter, square), mul(1.0 - parameter, square))


@formula
def expectile_gradient(y, f, parameter):
    r = f - y
    below = select(r <= 0.0, mul(2.0, parameter), r)  # NaN stays
    curvature = select(r > 0.0, mul(2.0, 1.0 - parameter), below)
    least = mul(LEAST_HESSIAN, 2.0 - curvature)
    return mul(curvature, r), select(curvature < least, least, curvature)


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


class Given(NamedTuple):
    """Gradients and hessians that are known already, in the places of y and f."""

    parameter: float = 0.0


class LogLink(NamedTuple):
    """Only a value: the prediction eᶠ."""

    parameter: float = 0.0


class LogisticLink(NamedTuple):
    """Only a value: the probability 1/(1 + e⁻ᶠ)."""

    parameter: float = 0.0


class Logarithm(NamedTuple):
    """Only a value: ln f."""

    parameter: float = 0.0


@formula
def given_value(y, f, parameter):
    return y


@formula
def given_gradient(y, f, parameter):
    return y, f


@formula
def log_link_value(y, f, parameter):
    return exp(f)


@formula
def logistic_link_value(y, f, parameter):
    return sigmoid(f)


@formula
def logarithm_value(y, f, parameter):
    return log(f)


class Formulas(NamedTuple):
    """The compiled formulas of a loss; ``gradient`` gives (gradient, hessian)."""

    value: Any
    gradient: Any


LOSSES: dict[type, Formulas] = {
    SquaredError: Formulas(squared_error_value, squared_error_gradient),
    AbsoluteError: Formulas(absolute_error_value, absolute_error_gradient),
    Huber: Formulas(huber_value, huber_gradient),
    Quantile: Formulas(quantile_value, quantile_gradient),
    Expectile: Formulas(expectile_value, expectile_gradient),
    Poisson: Formulas(poisson_value, poisson_gradient),
    Gamma: Formulas(gamma_value, gamma_gradient),
    Tweedie: Formulas(tweedie_value, tweedie_gradient),
    BinomialLogLoss: Formulas(binomial_value, binomial_gradient),
    MultinomialLogLoss: Formulas(multinomial_value, multinomial_gradient),
    Exponential: Formulas(exponential_value, exponential_gradient),
    Focal: Formulas(focal_value, focal_gradient),
    Given: Formulas(given_value, given_gradient),
    dist.LocationScale: Formulas(dist.location_scale_value, dist.location_scale_gradient),
}
LINKS: dict[type, Formulas] = {
    LogLink: Formulas(log_link_value, None),
    LogisticLink: Formulas(logistic_link_value, None),
    Logarithm: Formulas(logarithm_value, None),
    dist.LocationWeight: Formulas(dist.location_weight_value, None),
    dist.SoftplusLink: Formulas(dist.softplus_link_value, None),
    dist.SizeEntropy: Formulas(dist.size_entropy_value, None),
    dist.SizeSlope: Formulas(dist.size_slope_value, None),
    dist.SizeInformation: Formulas(dist.size_information_value, None),
}


def custom(value: Any, gradient: Any) -> type:
    """Make a class of losses with compiled formulas of its own, which are in no table."""

    class Custom(NamedTuple):
        parameter: float = 0.0

    Custom.formulas = Formulas(value, gradient)  # type: ignore[attr-defined]
    return Custom


def is_custom(cls: type) -> bool:
    """Return whether a class is from ``custom``: its formulas need not be branch-free, and what is
    compiled for it cannot be kept on disk."""
    return hasattr(cls, "formulas")


def formulas_of(cls: type) -> Formulas:
    """Return the formulas of any class of losses or links."""
    if is_custom(cls):
        return cls.formulas  # type: ignore[attr-defined]
    return LINKS[cls] if cls in LINKS else LOSSES[cls]


def value(loss: Any, y: Any, f: Any) -> Any:
    """Return the loss of one row; compiled code resolves the formula from the class of ``loss``."""
    return formulas_of(type(loss)).value(y, f, loss.parameter)


def gradient(loss: Any, y: Any, f: Any) -> Any:
    """Return (gradient, hessian) of one row with respect to f."""
    return formulas_of(type(loss)).gradient(y, f, loss.parameter)


@declaration
def _of_compiled_code() -> None:
    from numba import types
    from numba.extending import overload

    @overload(value)
    def _value(loss, y, f):
        if isinstance(loss, types.BaseNamedTuple):
            function = formulas_of(loss.instance_class).value
            return lambda loss, y, f: function(y, f, loss.parameter)
        return None

    @overload(gradient)
    def _gradient(loss, y, f):
        if isinstance(loss, types.BaseNamedTuple):
            function = formulas_of(loss.instance_class).gradient
            return lambda loss, y, f: function(y, f, loss.parameter)
        return None
