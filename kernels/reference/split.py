"""Reference twin of ``kernels.split``."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from ..dtypes import MAX_BINS, MISSING, Splits
from ..scalars import gain
from ..scalars.primitives import vectorise
from . import beside

newton_score = vectorise(gain.newton_score)

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
) -> Splits:
    """Node after node; a node's candidates have the shape (features, bins, 2), the last axis
    for missing values on the right and on the left: the order in which ties are decided."""
    xp = array_namespace(histograms)
    n_bins, allowed = beside(n_bins, histograms), beside(allowed, histograms)
    bins = xp.arange(MAX_BINS, dtype=xp.int32, device=device(histograms))
    within = (bins < n_bins[:, None])[:, :, None]
    found = []
    for node in range(histograms.shape[0]):
        may = within & (allowed[node, :] != 0)[:, None, None]
        if counts.shape[0]:
            n_left, n_right = _children(counts[node, ...], xp.sum(counts[node, 0, :]))
            may = may & (n_left >= min_samples_leaf) & (n_right >= min_samples_leaf)
        sums, total, least = histograms[node, ...], totals[node], int(least_h[node])
        found.append(_best(sums, int(total[0]), int(total[1]), least, float(l2[node]), may))
    columns = zip(*found, strict=True) if found else [()] * len(FIELDS)
    return Splits(*(np.array(c, dtype) for c, dtype in zip(columns, FIELDS, strict=True)))


def _best(
    sums: Any, total_g: int, total_h: int, least_h: int, l2: float, may: Any
) -> tuple[Any, ...]:
    """The fields of ``Splits`` for one node."""
    xp = array_namespace(sums)
    left_g, right_g = _children(sums[0, ...], total_g)
    left_h, right_h = _children(sums[1, ...], total_h)
    may = may & (left_h >= least_h) & (right_h >= least_h) & _missing_tried(sums, left_h, right_h)
    if not bool(xp.any(may)):
        return NO_SPLIT
    score = _score(left_g, xp.where(may, left_h, 1), l2)
    score = score + _score(right_g, xp.where(may, right_h, 1), l2)
    score = xp.reshape(xp.where(may, score, -xp.inf), (-1,))
    best = int(xp.argmax(score))
    feature, bin_and_side = divmod(best, 2 * MAX_BINS)
    left_g, left_h = (int(xp.reshape(left, (-1,))[best]) for left in (left_g, left_h))
    return float(score[best]), feature, bin_and_side // 2, bin_and_side % 2, left_g, left_h


def _children(sums: Any, total: Any) -> tuple[Any, Any]:
    """Sums (features, 256) of the rows on the left and on the right of every candidate."""
    xp = array_namespace(sums)
    values = xp.cumulative_sum(sums[:, :MAX_BINS], axis=1, dtype=xp.int64)
    missing = xp.astype(sums[:, MISSING], xp.int64)[:, None]
    left = xp.stack([values, values + missing], axis=-1)
    return left, total - left


def _missing_tried(sums: Any, left_h: Any, right_h: Any) -> Any:
    """Both sides where there is something to learn, else the heavier child's alone."""
    xp = array_namespace(sums)
    learnable = xp.any(sums[:, :, MISSING] != 0, axis=0)[:, None, None]
    to_left = (left_h > right_h)[:, :, 0]
    return learnable | xp.stack([~to_left, to_left], axis=-1)


def _score(g: Any, h: Any, l2: float) -> Any:
    xp = array_namespace(g)
    return newton_score(xp.astype(g, xp.float64), xp.astype(h, xp.float64), l2)
