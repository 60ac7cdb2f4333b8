"""The child that a row goes to."""

import numpy as np

from .primitives import floor, formula, mul, select

MISSING_CODE = np.uint8(255)
UNIT_32 = 1.0 / 4294967296.0


@formula
def code_goes_left(code, bin_, missing_left):
    """Training: ``code <= bin``; the missing code goes where the node learned it to."""
    return missing_left if code == MISSING_CODE else code <= bin_


@formula
def value_goes_left(x, threshold, missing_left):
    """Prediction: ``x <= threshold``; NaN goes where the node learned it to."""
    return missing_left if x != x else x <= threshold


@formula
def midpoint(low, high):
    """Return a threshold that parts two values, ``low < high``: half-way, or ``low`` where no
    number in between is below ``high``."""
    middle = mul(low, 0.5) + mul(high, 0.5)
    return select(middle < high, select(middle >= low, middle, low), low)


@formula
def random_cut(low, high, bits):
    """Return a uniform draw between two values, from 32 random bits (as a float)."""
    share = (bits + 0.5) * UNIT_32
    return low + mul(share, high - low)


@formula
def names_category(x, n_categories):
    """Return whether a value is a category: one of the numbers 0, 1, ... n_categories - 1. Anything
    else in a feature that is split by categories counts as missing."""
    return (x >= 0.0) & (x < n_categories) & (floor(x) == x)


@formula
def is_left_category(word, category):
    """Return whether a category's bit in its word of the set of a split is set."""
    return ((word >> (category & 31)) & 1) != 0
