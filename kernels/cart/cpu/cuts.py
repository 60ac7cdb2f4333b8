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


class Cuts(NamedTuple):
    """The cuts in ascending order. Lines have room for a multiple of ``LANES``.

    code : int64
        The last one on the left.
    left, right, weight_left : float64
        The sides' scores times their weights, and the weight on the left.
    """

    code: np.ndarray
    left: np.ndarray
    right: np.ndarray
    weight_left: np.ndarray


@inlined
def suits_cuts(packed, params, n_outputs):
    """Return whether the candidates of numeric features can be scored in this way at a node."""
    if params.bounded or n_outputs > 1:
        return False
    if params.criterion == SQUARED_ERROR:
        return True
    return params.criterion == GINI and packed & MASK <= EXACT_WEIGHT


@inlined
def squares_moved(weight, on_left, total):
    """Return how much the squares on the left grow, and those on the right shrink, as ``weight``
    of a class moves to the left."""
    on_right = total - on_left
    return weight * (2 * on_left + weight), weight * (2 * on_right - weight)


@inlined
def note_cut(k, above_left, above_right, packed_left, packed, is_cut, limits, cuts):
    """Note cut k, with a score of -inf where it is none or a child would be too small."""
    is_cut = is_cut and heavy_enough(packed_left, packed - packed_left, limits)
    cuts.left[k] = above_left if is_cut else NO_CANDIDATE
    cuts.right[k] = above_right
    cuts.weight_left[k] = float(packed_left & MASK)


@inlined
def take_best(n, packed, feature, cuts, found):
    """Note the best of n cuts in ``found[1]`` if it is better; the code behind the last cut is in
    its place, too."""
    left, right, weight_left = cuts.left, cuts.right, cuts.weight_left
    weight = float(packed & MASK)
    end = (n + LANES - 1) // LANES * LANES
    for k in range(n, end):
        left[k] = NO_CANDIDATE
        right[k] = 0.0
        weight_left[k] = 0.5
    best = largest_score(left, right, weight_left, weight, end)
    if best > found[1].score:
        k = 0
        while left[k] / weight_left[k] + right[k] / (weight - weight_left[k]) != best:
            k += 1
        take_if_better(found, best, feature, cuts.code[k], cuts.code[k + 1], i64(-1))
