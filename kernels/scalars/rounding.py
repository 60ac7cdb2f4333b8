"""From real statistics to integers."""

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
    """The larger of two numbers (neither NaN)."""
    return select(x > y, x, y)
