"""The cuts of a numeric feature, scored together (contract: ``kernels.cart.grow_cart``).

This serves one output by the two criteria whose scores are fractions of the weight: squared error
and Gini, as far as the sums of squares are exact. The sums on both sides of a cut follow from those
of the cut before; a vector at a time is divided.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...runtime.compilation import inlined
from ...runtime.cpu.lanes import LANES, largest_score
from ..problem import GINI, SQUARED_ERROR
from .scores import EXACT_WEIGHT, MASK, NO_CANDIDATE, heavy_enough, take_if_better

i64 = np.int64


class SortedCuts(NamedTuple):
    """The cuts in ascending order. Lines have room for a multiple of ``LANES``.

    code : int64
        The last one on the left.
    left, right : float64
        The sides' scores times their weights.
    packed_left : int64
        Rows and weight on the left.
    """

    code: np.ndarray
    left: np.ndarray
    right: np.ndarray
    packed_left: np.ndarray


@inlined
def suits_cuts(packed, params, n_outputs):
    """Return whether the candidates of numeric features can be scored in this way at a node."""
    if params.bounded or n_outputs > 1:
        return False
    if params.criterion == SQUARED_ERROR:
        return True
    # Gini scores add squares in another order here than in the contract, which must not matter.
    return params.criterion == GINI and packed & MASK <= EXACT_WEIGHT


@inlined
def squares_moved(weight, on_left, total):
    """Return how much the squares on the left grow, and those on the right shrink, as ``weight``
    of a class moves to the left."""
    on_right = total - on_left
    return weight * (2 * on_left + weight), weight * (2 * on_right - weight)


@inlined
def note_cut(k, above_left, above_right, packed_left, cuts):
    """Note cut k by the sides' scores times their weights."""
    cuts.left[k] = above_left
    cuts.right[k] = above_right
    cuts.packed_left[k] = packed_left


@inlined
def take_best(n, packed, feature, limits, cuts, found):
    """Note the best of n cuts in ``found[1]`` if it is better; the code behind the last cut is in
    its place, too."""
    if limits.least_rows > 1 or limits.least_weight > 0.0:
        for k in range(n):
            if not heavy_enough(cuts.packed_left[k], packed - cuts.packed_left[k], limits):
                # Divided by any weight this stays -inf, so that the cut never wins.
                cuts.left[k] = NO_CANDIDATE
    best = best_score(n, packed & MASK, cuts)
    if best > found[1].score:
        # The vectors return a score without its place: the first cut with it is found by the same
        # operations, which give the same bits.
        k = i64(0)
        while score_of_cut(k, packed & MASK, cuts) != best:
            k += 1
        take_if_better(found, best, feature, cuts.code[k], cuts.code[k + 1], i64(-1))


@inlined
def score_of_cut(k, weight, cuts):
    weight_left = cuts.packed_left[k] & MASK
    return cuts.left[k] / float(weight_left) + cuts.right[k] / float(weight - weight_left)


@inlined
def best_score(n, weight, cuts):
    """Return the largest score of n cuts of a node of this weight."""
    end = (n + LANES - 1) // LANES * LANES
    # Fill the last vector with cuts that cannot win: -inf / 0 is -inf, and 0 is added to it.
    for k in range(n, end):
        cuts.left[k] = NO_CANDIDATE
        cuts.right[k] = 0.0
        cuts.packed_left[k] = 0
    return largest_score(cuts.left, cuts.right, cuts.packed_left, MASK, float(weight), end)
