"""Unsigned integers in the order of floats."""

import numpy as np

from .primitives import formula

u64 = np.uint64
ONE = u64(1)


@formula
def number_key(bits, most, infinity):
    """Return the rank of a float among all others of its type, from its bits: both zeros have the
    same one, all NaN the largest. ``most`` is the largest integer with as many bits, ``infinity``
    are the bits of +inf."""
    sign = (most >> ONE) + ONE
    magnitude = u64(bits) & (sign - ONE)
    key = sign - magnitude if u64(bits) >= sign else sign + magnitude
    return most if magnitude > infinity else key


@formula
def bits_of_key(key, most):
    """Return the bits of the float with this rank, those of zero and NaN with no sign."""
    sign = (most >> ONE) + ONE
    return u64(key) - sign if u64(key) >= sign else most - u64(key) + ONE
