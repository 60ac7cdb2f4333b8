"""Formulas of learning to rank: pairs of documents, lists of documents, discounts."""

from __future__ import annotations

import numpy as np

from .elementary import exp, log
from .primitives import formula, mul, select
from .rounding import larger

LN2 = 0.6931471805599453
SOFTENING = 0.01
"""Least distance that the gradient of a pair is divided by."""
MOST_EXPONENT = 500.0
"""Keeps products with e to this from overflowing; its logistic function is next to 0."""
LEAST_REST = 1e-15
"""Least share of the other documents of a list."""
PURPOSE_LISTS = np.uint64(32)
"""The purpose of the random draws of lists, in addition to those of ``rng``."""
UNIT_32 = 1.0 / 4294967296.0


@formula
def discount(rank):
    """1 / log₂(2 + rank), rank from 0 (Järvelin and Kekäläinen 2002)."""
    return LN2 / log(rank + 2.0)


@formula
def pair_weight(gain_gap, discount_gap, inverse_ideal, by_gain):
    """Return the change of NDCG if the two documents changed places, or 1 where ``by_gain`` is 0.

    0 for documents of the same gain.
    """
    size = select(gain_gap < 0.0, -gain_gap, gain_gap)
    moved = select(discount_gap < 0.0, -discount_gap, discount_gap)
    change = mul(mul(size, moved), inverse_ideal)
    return select(by_gain > 0.0, change, select(size > 0.0, 1.0, size))


@formula
def pair_distance(gap, softened):
    """Return the divisor of the gradient of a pair: 0.01 + \\|gap\\|, or 1 where ``softened`` is
    0."""
    size = select(gap < 0.0, -gap, gap)
    return select(softened > 0.0, SOFTENING + size, 1.0)


@formula
def pair_gradient(gap, gain_gap, weight, sigma, distance):
    """Return the size of the gradient, and the hessian, of weight ln(1 + e^(-sigma x)) / distance.

    x is the score of the better document minus that of the other one (Burges 2010, "From RankNet
    to LambdaRank to LambdaMART", section 4). The better one's gradient is negative.
    """
    x = mul(sigma, select(gain_gap > 0.0, gap, -gap))
    e = exp(select(x > MOST_EXPONENT, MOST_EXPONENT, x))
    q = 1.0 / mul(1.0 + e, distance)
    slope = mul(mul(sigma, weight), q)
    return slope, mul(mul(sigma, slope), mul(mul(e, q), distance))


@formula
def query_factor(total):
    """log₂(1 + total) / total, 1 for 0: keeps queries with many pairs from prevailing."""
    positive = select(total > 0.0, total, 1.0)
    return select(total > 0.0, log(1.0 + positive) / mul(LN2, positive), 1.0)


@formula
def list_target(gain, bits):
    """2ʸ - u for a gain 2ʸ - 1 and u uniform in [0, 1) from 32 random bits (as a float)
    (Bruch 2021, "An alternative cross entropy loss for learning-to-rank", section 4.2)."""
    return gain + 1.0 - mul(bits, UNIT_32)


@formula
def list_gradient(share, target, total):
    """First order: the derivative of the cross entropy."""
    return share - target / total


@formula
def list_ratio(term, share):
    """Return the term of an order, divided by the share of the other documents."""
    return term / larger(1.0 - share, LEAST_REST)


@formula
def list_correction(share, total, own):
    """Return the next order: the other documents' ratios, weighted by the share."""
    return mul(share, total - own)
