"""The best split of a level of a symmetric tree: the oracle of the search of growth (see
``kernels.growth.levels``)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...runtime.dtypes import ALONE, MAX_BINS, MISSING, NO_SETS, ORDERED
from ...scalars import gain as formulas
from ...scalars.primitives import vectorise
from .split import Arrangement, CategorySplits, _children, _reordered, arrange, left_codes

bounded_score = vectorise(formulas.bounded_score)
bounded_value = vectorise(formulas.bounded_value)
keeps_order = vectorise(formulas.keeps_order)


class Level(NamedTuple):
    """The nodes of a level, in the order of their numbers (NumPy).

    histograms : int32, shape (n_nodes, 2, n_features, 256)
    totals : int64, shape (n_nodes, 2)
    least_h : int64, shape (n_nodes,)
        A child needs ``h >= least_h``.
    l2, category_l2 : float64, shape (n_nodes,)
        Regularisation in quantised units, the latter where ordered categories are cut.
    low, high : float64, shape (n_nodes,)
        Bounds of the values.
    """

    histograms: np.ndarray
    totals: np.ndarray
    least_h: np.ndarray
    l2: np.ndarray
    category_l2: np.ndarray
    low: np.ndarray
    high: np.ndarray


class LevelSplit(NamedTuple):
    """The best split of a level.

    score : float
        The gains of all nodes, in quantised units.
    feature, bin, missing_left, left_codes
        As in ``Splits``.
    gain : float64, shape (n_nodes,)
        Of each node; -inf where the split is not allowed.
    left : int64, shape (n_nodes, 2)
        Sums of the left children.
    """

    score: float
    feature: int
    bin: int
    missing_left: int
    left_codes: np.ndarray
    gain: np.ndarray
    left: np.ndarray


def split_level(
    level: Level,
    n_bins: np.ndarray,
    allowed: np.ndarray,
    monotone: np.ndarray,
    categories: CategorySplits | None,
) -> LevelSplit:
    """Add up the gains of all nodes for every split ``code <= bin`` and return the best.

    A node gains ``score(left) + score(right) - score(node)``, and nothing where a child would be
    too light or a constraint broken. The gains are added one node after the other. Ties go to the
    lowest feature, then the lowest bin, then missing values on the right; where no node has any
    with sums, they go to the side with the larger h of all nodes.

    Parameters
    ----------
    level : Level
    n_bins : int32, shape (n_features,)
    allowed : uint8, shape (n_features,)
    monotone : int8, shape (n_features,)
    categories : CategorySplits or None
        Of one line, for the sums of all nodes.
    """
    histograms, order = level.histograms.astype(np.int64), Arrangement(n_bins, {})
    is_alone = np.zeros(n_bins.size, bool)
    l2 = np.repeat(level.l2[:, None], n_bins.size, axis=1)
    if categories is not None:
        order, is_alone = _arrange(histograms, n_bins, categories)
        l2[:, categories.kind == ORDERED] = level.category_l2[:, None]
    gains, lefts = [], []
    total = np.zeros((n_bins.size, MAX_BINS, 2))
    for node in range(len(histograms)):
        gain, left = _of_node(level, node, histograms[node], l2[node], monotone, is_alone)
        total = total + np.where(gain > -np.inf, gain, 0.0)
        gains.append(gain)
        lefts.append(left)
    may = (np.arange(MAX_BINS) < order.n_used[:, None]) & (allowed != 0)[:, None]
    total[~may] = -np.inf
    feature, cut, side = np.unravel_index(np.argmax(total), total.shape)
    at = feature, cut, side
    left = np.array([own[:, *at] for own in lefts])
    to_left = int(side)
    if not histograms[:, :, feature, MISSING].any():
        to_left = int(2 * left[:, 1].sum() > level.totals[:, 1].sum())
    codes, bin_ = NO_SETS, int(cut)
    if int(feature) in order.place:
        place = order.place[int(feature)]
        codes, bin_ = left_codes(place, bin_, to_left, bool(is_alone[feature])), -1
    own_gains = np.array([own[at] for own in gains])
    return LevelSplit(float(total[at]), int(feature), bin_, to_left, codes, own_gains, left)


def _arrange(
    histograms: np.ndarray, n_bins: np.ndarray, categories: CategorySplits
) -> tuple[Arrangement, np.ndarray]:
    """Put the codes of all nodes into the order that their common sums give, in place."""
    pooled = histograms.sum(axis=0)
    _, _, order = arrange(pooled, None, n_bins, categories, 0)
    for feature, place in order.place.items():
        n_used = int(order.n_used[feature])
        by_place = np.argsort(np.where(place < 0, MAX_BINS, place), kind="stable")
        for own in histograms:
            own[:, feature] = _reordered(own[:, feature], by_place, n_used)
    return order, categories.kind == ALONE


def _of_node(
    level: Level, node: int, sums: np.ndarray, l2: np.ndarray, monotone: np.ndarray,
    is_alone: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Return the gains of a node by feature, cut and side, and the sums on the left."""
    low, high = level.low[node], level.high[node]
    total = level.totals[node]
    left, right = _children(sums, total[:, None], is_alone, True)
    may = np.minimum(left[1], right[1]) >= level.least_h[node]
    sides = [
        (
            side[0].astype(float),
            np.where(may, side[1], 1).astype(float),
            l2[:, None, None],
            low,
            high,
        )
        for side in (left, right)
    ]
    values = (bounded_value(*side) for side in sides)
    may &= keeps_order(*values, monotone.astype(float)[:, None, None])
    parent = bounded_score(float(total[0]), float(total[1]), level.l2[node], low, high)
    score = bounded_score(*sides[0]) + bounded_score(*sides[1])
    return np.where(may, score - parent, -np.inf), np.asarray(left)
