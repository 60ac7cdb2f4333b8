"""From real statistics to integers: rounding, and the powers of two that scale them."""

from __future__ import annotations

import math

import numpy as np

from .primitives import floor, formula, select

u64 = np.uint64
LOW_16 = u64(0xFFFF)
S16 = u64(16)
UNIT_16 = 1.0 / 65536.0


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
