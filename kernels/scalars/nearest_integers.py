"""The integers next to real numbers."""

from __future__ import annotations

import numpy as np

from .primitives import INT_IN_MANTISSA, bits_of, formula

BITS_OF_ZERO = np.int64(np.float64(INT_IN_MANTISSA).view(np.int64))


@formula
def nearest_even(x):
    """Return the integer next to x, of two the even one, as a float; abs(x) < 2⁵¹."""
    return (x + INT_IN_MANTISSA) - INT_IN_MANTISSA


@formula
def to_integer(x):
    """Return the integer next to x as an int64, for loops of the CPU: the sum with a large number
    has it in its low bits."""
    return bits_of(x + INT_IN_MANTISSA) - BITS_OF_ZERO
