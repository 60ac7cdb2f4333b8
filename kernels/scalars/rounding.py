"""From real numbers to integers: rounding, the powers of two that scale statistics, the shares of a
weight that define a quantile, and keys in the order of floats."""

from __future__ import annotations

import math

import numpy as np

from .primitives import INT_IN_MANTISSA, bits_of, floor, formula, mul, select

u64 = np.uint64
LOW_16 = u64(0xFFFF)
S16 = u64(16)
UNIT_16 = 1.0 / 65536.0
ONE = u64(1)


@formula
def stochastic_round(x, bits):
    """⌊x + u⌋ with u uniform in (0, 1) from 16 random bits (as a float): unbiased however
    coarse the scale, and exact where x is an integer."""
    return floor(x + (bits + 0.5) * UNIT_16)


@formula
def nearest(x):
    """⌊x + ½⌋: the 64-bit fixed point of leaf sums. ``x`` is a product with a power of two,
    which is exact, so a fused multiply-add changes nothing."""
    return floor(x + 0.5)


@formula
def larger(x, y):
    """Return the larger of two numbers (neither NaN)."""
    return select(x > y, x, y)


MAX_QUANTISED = 2**15 - 1
MAX_ROWS = 2**31 - 1
LARGEST_EXPONENT = 1000
FIXED_POINT_BITS = 62
"""Bits of a sum in fixed point."""


@formula
def quantising_scale(largest, total, n):
    """Return the finest scale for which n values, their sizes at most ``largest`` and ``total`` in
    all, are integers of 16 bits, any of which sum to 32 bits, roundings included.

    ``min(32767 / largest, (2**31 - 1 - n) / total)``, rounded down to a power of two so that the
    way back to real numbers is exact. 1 where all values are 0.
    """
    if largest == 0.0:
        return 1.0
    exact = min(MAX_QUANTISED / largest, (MAX_ROWS - n) / total, 2.0**LARGEST_EXPONENT)
    return math.ldexp(1.0, max(-LARGEST_EXPONENT, math.frexp(exact)[1] - 1))


@formula
def fixed_point_scale(largest, n_bits):
    """Return the scale under which a value of size ``largest`` has ``n_bits`` bits; 1 if it is
    0."""
    if largest == 0.0:
        return 1.0
    exponent = n_bits - math.frexp(largest)[1]
    return math.ldexp(1.0, max(-LARGEST_EXPONENT, min(LARGEST_EXPONENT, exponent)))


def fixed_point_bits(n):
    """Bits of a value, of which n have a sum of 62 bits; never more than 50."""
    return FIXED_POINT_BITS - max(12, (n - 1).bit_length())


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


@formula
def lower_share(quantile, total):
    """⌈q total⌉, from 1 to total (a whole float64).

    A quantile is the mean of two values: the least up to which the weights sum to at least q of the
    whole, and the least up to which they sum to more ("averaged inverted distribution function",
    Hyndman and Fan 1996, definition 2). Both minimise the quantile loss; weights are whole numbers,
    so both values are exact.
    """
    share = -floor(-mul(quantile, total))
    return select(share < 1.0, 1.0, select(share > total, total, share))


@formula
def upper_share(quantile, total):
    """⌊q total⌋ + 1, at most total."""
    share = floor(mul(quantile, total)) + 1.0
    return select(share > total, total, share)


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
