"""Losses about where the target lies: squared, absolute, Huber, quantile.

The hessian of all of them is 1: splits compare the sums of gradients as least squares does
(Friedman 2001, "Greedy function approximation", algorithm 1), and for all but the squared error
the values of the leaves are found afterwards (``gpuens.losses.leaf_values``).
"""

from __future__ import annotations

from typing import NamedTuple

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
