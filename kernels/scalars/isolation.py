"""Depth of rows in isolation trees, and the anomaly score that follows from it (Liu, Ting and Zhou,
"Isolation Forest", ICDM 2008)."""

from .elementary import exp, log
from .primitives import floor, formula, mul, select

EULER_GAMMA = 0.5772156649015329
LN_2 = 0.6931471805599453
LENGTH_UNIT = 2.0**-32
"""Path lengths are multiples of this: their sums are exact up to 2**14 trees, whatever the order
of addition, and rows at the average length of every tree score exactly one half."""


@formula
def average_path_length(n):
    """Return the average number of splits that part a row from n - 1 others, as a multiple of
    ``LENGTH_UNIT``: the length of an unsuccessful search in a binary search tree (equation 1)."""
    harmonic = log(select(n > 2.0, n - 1.0, 1.0)) + EULER_GAMMA
    length = 2.0 * harmonic - 2.0 * (n - 1.0) / n
    length = select(n > 2.0, length, select(n > 1.0, 1.0, 0.0))
    return mul(floor(length / LENGTH_UNIT + 0.5), LENGTH_UNIT)


@formula
def anomaly_score(length, average):
    """2 to the power of ``-length / average`` (equation 2); one half where both are zero."""
    ratio = select(average > 0.0, length / select(average > 0.0, average, 1.0), 1.0)
    return exp(mul(ratio, -LN_2))
