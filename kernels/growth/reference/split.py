"""Reference twin of ``kernels.growth.split``."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from ...runtime.dtypes import (
    ALONE,
    CODE_WORDS,
    MAX_BINS,
    MISSING,
    NO_SETS,
    ORDERED,
    CategorySplits,
    NodeBounds,
    Splits,
)
from ...runtime.reference.arrays import beside
from ...scalars import bounds as formulas
from ...scalars.primitives import vectorise
from .category_arrangement import arrange, left_codes

bounded_score = vectorise(formulas.bounded_score)
bounded_value = vectorise(formulas.bounded_value)
keeps_order = vectorise(formulas.keeps_order)

FIELDS = (np.float64, np.int32, np.int32, np.uint8, np.int64, np.int64)
NO_SPLIT = (-np.inf, -1, -1, 0, 0, 0)


def split(
    histograms: Any,
    n_bins: Any,
    totals: Any,
    least_h: Any,
    l2: Any,
    allowed: Any,
    counts: Any,
    min_samples_leaf: int,
    bounds: NodeBounds | None = None,
    categories: CategorySplits | None = None,
) -> Splits:
    """Node after node; a node's candidates have the shape (features, bins, 2), the last axis
    for missing values on the right and on the left: the order in which ties are decided."""
    xp = array_namespace(histograms)
    allowed = beside(allowed, histograms)
    n_nodes, n_features = histograms.shape[0], histograms.shape[2]
    kind = np.zeros(n_features, np.int32) if categories is None else categories.kind
    is_alone = beside(kind == ALONE, histograms)
    bounds = _no_bounds(n_nodes, n_features) if bounds is None else bounds
    direction = beside(bounds.monotone.astype(np.float64), histograms)[:, None, None]
    bins = xp.arange(MAX_BINS, dtype=xp.int32, device=device(histograms))
    found, sets = [], np.zeros((0 if categories is None else n_nodes, CODE_WORDS), np.uint32)
    for node in range(n_nodes):
        sums, total, least = histograms[node, ...], totals[node], int(least_h[node])
        rows = counts[node : node + 1, ...] if counts.shape[0] else None
        n_used = np.asarray(n_bins, np.int32)
        of_node = np.full(n_features, l2[node])
        if categories is not None:
            sums, rows, order = arrange(sums, rows, n_used, categories, node)
            n_used = order.n_used
            of_node[kind == ORDERED] = categories.l2[node]
        within = (bins < beside(n_used, histograms)[:, None])[:, :, None]
        may = within & (allowed[node, :] != 0)[:, None, None]
        if rows is not None:
            n_left, n_right = _children(rows[0, ...], xp.sum(rows[0, 0, :]), is_alone)
            may = may & (n_left >= min_samples_leaf) & (n_right >= min_samples_leaf)
        limits = (float(bounds.low[node]), float(bounds.high[node]), direction)
        regularisation = beside(of_node, histograms)[:, None, None]
        totals_of_node = (int(total[0]), int(total[1]))
        best = _best(sums, totals_of_node, least, regularisation, may, limits, is_alone)
        feature, cut, missing_left = best[1:4]
        if feature >= 0 and categories is not None and feature in order.place:
            alone = kind[feature] == ALONE
            sets[node] = left_codes(order.place[feature], cut, missing_left, alone)
            best = (*best[:2], -1, *best[3:])
        found.append(best)
    columns = zip(*found, strict=True) if found else [()] * len(FIELDS)
    arrays = (np.array(c, dtype) for c, dtype in zip(columns, FIELDS, strict=True))
    return Splits(*arrays)._replace(left_codes=NO_SETS if categories is None else sets)


def _no_bounds(n_nodes: int, n_features: int) -> NodeBounds:
    high = np.full(n_nodes, np.inf)
    return NodeBounds(np.zeros(n_features, np.int8), -high, high)


def _best(
    sums: Any,
    totals: tuple[int, int],
    least_h: int,
    l2: Any,
    may: Any,
    limits: tuple[float, float, Any],
    is_alone: Any,
) -> tuple[Any, ...]:
    """The fields of ``Splits`` for one node; ``limits`` are its bounds and the directions of
    the features."""
    xp = array_namespace(sums)
    left_g, right_g = _children(sums[0, ...], totals[0], is_alone)
    left_h, right_h = _children(sums[1, ...], totals[1], is_alone)
    may = may & (left_h >= least_h) & (right_h >= least_h) & _missing_tried(sums, left_h, right_h)
    low, high, direction = limits
    left, right = (
        (xp.astype(g, xp.float64), xp.astype(xp.where(may, h, 1), xp.float64), l2, low, high)
        for g, h in ((left_g, left_h), (right_g, right_h))
    )
    may = may & keeps_order(bounded_value(*left), bounded_value(*right), direction)
    if not bool(xp.any(may)):
        return NO_SPLIT
    score = bounded_score(*left) + bounded_score(*right)
    score = xp.reshape(xp.where(may, score, -xp.inf), (-1,))
    best = int(xp.argmax(score))
    feature, bin_and_side = divmod(best, 2 * MAX_BINS)
    left_g, left_h = (int(xp.reshape(left, (-1,))[best]) for left in (left_g, left_h))
    return float(score[best]), feature, bin_and_side // 2, bin_and_side % 2, left_g, left_h


def _children(sums: Any, total: Any, is_alone: Any) -> tuple[Any, Any]:
    """Sums (features, 256) of the rows on the left and on the right of every candidate: all bins
    up to one, or that one alone."""
    xp = array_namespace(sums)
    values = xp.cumulative_sum(sums[:, :MAX_BINS], axis=1, dtype=xp.int64)
    values = xp.where(is_alone[:, None], xp.astype(sums[:, :MAX_BINS], xp.int64), values)
    missing = xp.astype(sums[:, MISSING], xp.int64)[:, None]
    left = xp.stack([values, values + missing], axis=-1)
    return left, total - left


def _missing_tried(sums: Any, left_h: Any, right_h: Any) -> Any:
    """Both sides where there is something to learn, else the heavier child's alone."""
    xp = array_namespace(sums)
    learnable = xp.any(sums[:, :, MISSING] != 0, axis=0)[:, None, None]
    to_left = (left_h > right_h)[:, :, 0]
    return learnable | xp.stack([~to_left, to_left], axis=-1)
