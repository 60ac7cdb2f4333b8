"""The losses: value, gradient and hessian of one row.

A loss is a named tuple of its parameters (compiled code specialises on the class) and two
formulas with the signature ``(y, f, parameter)``: ``y`` the target, ``f`` the raw
prediction, ``parameter`` the tuple's one number. ``LOSSES`` ties them together; adding a
loss means adding a class and its two formulas here, and a class in ``gpuens.losses``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import types
from numba.core.dispatcher import Dispatcher
from numba.extending import overload

from .elementary import exp, sigmoid, softplus
from .primitives import formula, mul


class SquaredError(NamedTuple):
    """½ (y - f)²."""

    parameter: float = 0.0


class BinomialLogLoss(NamedTuple):
    """-ln P(y), P(1) = 1/(1 + e⁻ᶠ), y in {0, 1}."""

    parameter: float = 0.0


class MultinomialLogLoss(NamedTuple):
    """-ln P(k) of one class k against the rest, f = raw score minus log-sum-exp of all.

    ``parameter`` is K/(K - 1), the factor on the hessian that makes the one-class Newton step
    that of Friedman (2001), eq. 38.
    """

    parameter: float = 1.0


@formula
def squared_error_value(y, f, parameter):
    r = f - y
    return mul(0.5, mul(r, r))


@formula
def squared_error_gradient(y, f, parameter):
    return f - y, 1.0


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


class Formulas(NamedTuple):
    """The compiled formulas of a loss."""

    value: Dispatcher
    gradient: Dispatcher


LOSSES: dict[type, Formulas] = {
    SquaredError: Formulas(squared_error_value, squared_error_gradient),
    BinomialLogLoss: Formulas(binomial_value, binomial_gradient),
    MultinomialLogLoss: Formulas(multinomial_value, multinomial_gradient),
}


def value(loss: Any, y: Any, f: Any) -> Any:
    """Loss of one row; compiled code resolves the formula from the class of ``loss``."""
    return LOSSES[type(loss)].value(y, f, loss.parameter)


def gradient(loss: Any, y: Any, f: Any) -> Any:
    """(gradient, hessian) of one row with respect to f."""
    return LOSSES[type(loss)].gradient(y, f, loss.parameter)


@overload(value)
def _value(loss, y, f):
    if isinstance(loss, types.BaseNamedTuple):
        function = LOSSES[loss.instance_class].value
        return lambda loss, y, f: function(y, f, loss.parameter)
    return None


@overload(gradient)
def _gradient(loss, y, f):
    if isinstance(loss, types.BaseNamedTuple):
        function = LOSSES[loss.instance_class].gradient
        return lambda loss, y, f: function(y, f, loss.parameter)
    return None
