"""The largest Newton step that cannot raise the loss.

Rows that are almost certain have hessians next to zero, and one of them that is wrong has a
gradient of one: the Newton step -G/H of its leaf is then thousands of units long, where the
second-order model says nothing about the loss any more. A model that takes such steps diverges.

Most losses of this package are *self-concordant* in the sense of Bach (2010, "Self-concordant
analysis for logistic regression"): the third derivative is at most M times the second. Let a leaf
with the sums G and H move its rows by d. The second derivative grows by at most e^(M |d|), so

    loss(d) - loss(0)  <=  G d + H (e^(M |d|) - 1 - M |d|) / M²  =  G d + H d² psi(M |d|)

with psi(u) = (e^u - 1 - u) / u², which rises from 1/2. A Newton step that is shrunk by the learning
rate r is d = -r G / H, for which the right side is negative or zero if psi(M |d|) <= 1/r. A step
that is cut to a smaller d of the same sign has |G| >= H |d| / r, so that the same test holds. That
is all: leaves whose step is at most d move as Newton's method has it, the others move by d.

The classes of the multinomial log loss have their trees side by side, and the trees of a round move
a row at once. Its loss along the moves d_k of the classes has the second derivative
Var(d) <= 2 sum_k p_k (1 - p_k) d_k², and M is the range of the d_k, at most twice the largest. With
hessians c p (1 - p), c = K/(K - 1), the test is psi(2 |d|) <= c / (2 r). With many classes and a
learning rate next to one, only tiny moves pass it; ``largest_rate`` keeps the rate so low that
moves of one half do.

A larger hessian (``l2_regularization``, ``min_sum_hessian``) makes steps shorter and no test fail.
"""

from __future__ import annotations

import functools

import numpy as np

from ..kernels.scalars import elementary
from ..kernels.scalars.primitives import vectorise

exp = vectorise(elementary.exp)
LARGEST_EXPONENT = 40.0
PSI_OF_ONE = 0.7182818284590452
STEPS_OF_ONE = 2.0**10
"""Largest steps are multiples of 2**-10, the same on every machine."""


@functools.cache
def largest_step(
    learning_rate: float, growth: float = 1.0, factor: float = 1.0, outputs_together: bool = False
) -> float:
    """Return the largest Newton step, before shrinkage, that does not raise the loss.

    Parameters
    ----------
    learning_rate : float
        > 0. No step is safe for rates above one; they get the limit of one.
    growth : float
        M, the largest ratio of the third derivative to the second.
    factor : float
        Of the hessians that are used to those of the loss, >= 1.
    outputs_together : bool
        Whether the trees of all outputs move a row at once, as those of classes.

    Returns
    -------
    float
        > 0
    """
    rate = min(learning_rate, 1.0)
    share = 2.0 if outputs_together else 1.0
    exponent = _inverse_of_psi(factor / (rate * share))
    step = exponent / (growth * share * rate)
    return max(float(np.floor(step * STEPS_OF_ONE)), 1.0) / STEPS_OF_ONE


def largest_rate(factor: float) -> float:
    """Return the learning rate up to which the trees of classes move rows by at least one half.

    Parameters
    ----------
    factor : float
        Of the hessians that are used to those of the loss, >= 1.
    """
    return factor / (2.0 * PSI_OF_ONE)


def _inverse_of_psi(value: float) -> float:
    """Return the largest u, up to ``LARGEST_EXPONENT``, with (e^u - 1 - u) / u² <= value."""
    low, high = 0.0, LARGEST_EXPONENT
    for _ in range(60):
        middle = 0.5 * (low + high)
        below = float(exp(np.float64(middle))) - 1.0 - middle <= value * middle * middle
        low, high = (middle, high) if below else (low, middle)
    return low
