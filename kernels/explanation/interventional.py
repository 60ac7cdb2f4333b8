"""Shapley values of trees against background rows, where an unknown feature has the value of a
background row.

A leaf is reached by a mixture of a row and a background row if every feature of its path comes from
one that passes all splits by the feature. So a row and a leaf are a pattern A, one bit for each of
the d different features of the path: whether the row passes. Background rows with the same pattern
B count alike. Where A and B cover all features, u of them belong to the row alone and v to the
background alone::

    phi_i += value * count * (u-1)! v! / (u+v)!    i of the row alone
    phi_i -= value * count * u! (v-1)! / (u+v)!    i of the background alone

The result is the sum over all background rows; its mean is the Shapley value (Lundberg et al. 2020,
"independent TreeSHAP"). The same bits everywhere:

- For each leaf and feature ``count * weight`` is added up over the patterns B, ascending, from 0.0;
  the value times this sum goes to the feature's sum of the group of trees.
- Leaves follow in the order of the splits above them, left before right; groups as in
  ``contributions``.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import factorial

import numpy as np

from ..runtime.arrays import Array
from ..runtime.dispatch import implementation
from .program import Program, Size

MOST_SLOTS = 63
"""Different features on a path: bits of a pattern."""


def add_interventional(
    program: Program, size: Size, X: Array, background: Array, phi: Array
) -> None:
    """Add the sums over background rows of Shapley values to ``phi``.

    Parameters
    ----------
    program : Program
        On the device of X; ``size.n_slots`` is at most ``MOST_SLOTS``.
    size : Size
    X : float32 or float64, shape (n_rows, n_features), any strides
    background : of the same type, shape (n_background, n_features), any strides
    phi : float64, shape (n_outputs, n_features, n_rows), contiguous
    """
    implementation(__name__, X).add_interventional(program, size, X, background, phi)


@cache
def pattern_weights(n: int) -> np.ndarray:
    """Return ``(k-1)! m! / (k+m)!``, correctly rounded, in line k and column m, both up to n; 0 in
    line 0."""
    weights = np.zeros((n + 1, n + 1))
    for k in range(1, n + 1):
        for m in range(n + 1):
            exact = Fraction(factorial(k - 1) * factorial(m), factorial(k + m))
            weights[k, m] = float(exact)
    return weights
