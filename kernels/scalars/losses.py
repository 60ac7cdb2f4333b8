"""The losses: value, gradient and hessian of one row.

A loss is a named tuple of its parameters (compiled code specialises on the class) and two
formulas with the signature ``(y, f, parameter)``: ``y`` the target, ``f`` the raw
prediction, ``parameter`` the tuple's one number. ``LOSSES`` ties them together; adding a
loss means adding a class and its two formulas to one of the files that this one imports, a line
to ``LOSSES``, and a class in ``gpuens``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import types
from numba.extending import overload

from . import loss_classes, loss_location, loss_positive
from .elementary import exp, sigmoid
from .loss_classes import BinomialLogLoss, Exponential, Focal, MultinomialLogLoss
from .loss_location import AbsoluteError, Huber, Quantile, SquaredError
from .loss_positive import Gamma, Poisson, Tweedie
from .primitives import formula

__all__ = [
    "LINKS",
    "LOSSES",
    "AbsoluteError",
    "BinomialLogLoss",
    "Exponential",
    "Focal",
    "Formulas",
    "Gamma",
    "Given",
    "Huber",
    "LogLink",
    "LogisticLink",
    "MultinomialLogLoss",
    "Poisson",
    "Quantile",
    "SquaredError",
    "Tweedie",
    "custom",
    "formulas_of",
    "gradient",
    "is_custom",
    "value",
]


class Given(NamedTuple):
    """Gradients and hessians that are at hand already: in the places of y and f."""

    parameter: float = 0.0


class LogLink(NamedTuple):
    """Only a value: the prediction eᶠ."""

    parameter: float = 0.0


class LogisticLink(NamedTuple):
    """Only a value: the probability 1/(1 + e⁻ᶠ)."""

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


class Formulas(NamedTuple):
    """The compiled formulas of a loss; ``gradient`` gives (gradient, hessian)."""

    value: Any
    gradient: Any


LOSSES: dict[type, Formulas] = {
    SquaredError: Formulas(loss_location.squared_error_value, loss_location.squared_error_gradient),
    AbsoluteError: Formulas(
        loss_location.absolute_error_value, loss_location.absolute_error_gradient
    ),
    Huber: Formulas(loss_location.huber_value, loss_location.huber_gradient),
    Quantile: Formulas(loss_location.quantile_value, loss_location.quantile_gradient),
    Poisson: Formulas(loss_positive.poisson_value, loss_positive.poisson_gradient),
    Gamma: Formulas(loss_positive.gamma_value, loss_positive.gamma_gradient),
    Tweedie: Formulas(loss_positive.tweedie_value, loss_positive.tweedie_gradient),
    BinomialLogLoss: Formulas(loss_classes.binomial_value, loss_classes.binomial_gradient),
    MultinomialLogLoss: Formulas(loss_classes.multinomial_value, loss_classes.multinomial_gradient),
    Exponential: Formulas(loss_classes.exponential_value, loss_classes.exponential_gradient),
    Focal: Formulas(loss_classes.focal_value, loss_classes.focal_gradient),
    Given: Formulas(given_value, given_gradient),
}
LINKS: dict[type, Formulas] = {
    LogLink: Formulas(log_link_value, None),
    LogisticLink: Formulas(logistic_link_value, None),
}


def custom(value: Any, gradient: Any) -> type:
    """A class of losses with compiled formulas of their own, which stand in no table."""

    class Custom(NamedTuple):
        parameter: float = 0.0

    Custom.formulas = Formulas(value, gradient)  # type: ignore[attr-defined]
    return Custom


def is_custom(cls: type) -> bool:
    """Whether a class is from ``custom``: its formulas need not be branch-free, and what is
    compiled for it cannot be kept on disk."""
    return hasattr(cls, "formulas")


def formulas_of(cls: type) -> Formulas:
    """The formulas of any class of losses or links."""
    if is_custom(cls):
        return cls.formulas  # type: ignore[attr-defined]
    return LINKS[cls] if cls in LINKS else LOSSES[cls]


def value(loss: Any, y: Any, f: Any) -> Any:
    """Loss of one row; compiled code resolves the formula from the class of ``loss``."""
    return formulas_of(type(loss)).value(y, f, loss.parameter)


def gradient(loss: Any, y: Any, f: Any) -> Any:
    """(gradient, hessian) of one row with respect to f."""
    return formulas_of(type(loss)).gradient(y, f, loss.parameter)


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
