"""Best split (contract: ``kernels.split``).

Inside these kernels the sums of g and h are packed in one int64, ``g << 32 | h``: h is not
negative and neither sum leaves 32 bits, so one addition serves both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import (
    ALONE,
    MISSING,
    N_SLOTS,
    NUMERIC,
    ORDERED,
    CategorySplits,
    NodeBounds,
    Splits,
)
from ..scalars.bounds import bounded_score, bounded_value, keeps_order
from ..scalars.gain import newton_score
from .blocks import NOWHERE, best_to_front, inclusive_scan
from .category_arrangement import arrange, left_codes_of
from .target import (
    block_size,
    blocks_for,
    cuda,
    device_function,
    download,
    empty,
    kernel,
    launch,
    upload,
)

i32, i64, f64 = np.int32, np.int64, np.float64

BLOCK = block_size(64)
OWN = N_SLOTS // BLOCK
"""Neighbouring bins of one thread."""
NO_SPLIT = -np.inf
LOW = i64(0xFFFFFFFF)
S32 = i64(32)
N_FIELDS = 6


@device_function
def packed_sum(histograms, node, feature, b):
    """g and h of one bin."""
    return (i64(histograms[node, 0, feature, b]) << S32) + i64(histograms[node, 1, feature, b])


@device_function
def score_of(left, total, least_h, l2):
    """Score of a split by its packed sums; ``NO_SPLIT`` if a child is too light."""
    right = total - left
    left_h = i32(left & LOW)
    right_h = i32(right & LOW)
    if left_h < least_h or right_h < least_h:
        return NO_SPLIT
    return newton_score(f64(i32(left >> S32)), f64(left_h), l2) + newton_score(
        f64(i32(right >> S32)), f64(right_h), l2
    )


@device_function
def bounded_score_of(left, total, least_h, l2, ends, direction):
    """The same where the children's values lie between ``ends`` and are ordered."""
    low, high = ends
    right = total - left
    left_h = i32(left & LOW)
    right_h = i32(right & LOW)
    if left_h < least_h or right_h < least_h:
        return NO_SPLIT
    left_g = f64(i32(left >> S32))
    right_g = f64(i32(right >> S32))
    left_value = bounded_value(left_g, f64(left_h), l2, low, high)
    right_value = bounded_value(right_g, f64(right_h), l2, low, high)
    if not keeps_order(left_value, right_value, direction):
        return NO_SPLIT
    return bounded_score(left_g, f64(left_h), l2, low, high) + bounded_score(
        right_g, f64(right_h), l2, low, high
    )


@kernel
def best_of_features(
    histograms,
    n_bins,
    totals,
    least_h,
    l2,
    allowed,
    monotone,
    low,
    high,
    kind,
    category_l2,
    counts,
    least_rows,
    score,
    number,
    left_sums,
):
    """One (node, feature) a block at a time: its best split, in the last three arrays.

    A thread owns ``OWN`` neighbouring bins. It adds them up, the threads scan their sums, and
    it walks through its bins again with the sums of all bins below them. The candidate with
    bin b and missing values on the right has number 2 b, on the left 2 b + 1. Where a category
    is cut off alone, nothing below it counts.
    """
    below = cuda.shared.array(BLOCK, np.int64)
    rows_below = cuda.shared.array(BLOCK, np.int64)
    scores = cuda.shared.array(BLOCK, np.float64)
    numbers = cuda.shared.array(BLOCK, np.int32)
    t = cuda.threadIdx.x
    n_features = allowed.shape[1]
    counted = counts.shape[0] > 0
    bounded = monotone.shape[0] > 0
    item = cuda.blockIdx.x
    while item < score.shape[0]:
        node = item // n_features
        f = item - node * n_features
        best = NO_SPLIT
        best_number = NOWHERE
        best_left = i64(0)
        alone = False
        regularisation = l2[node]
        if kind.shape[0] > 0:
            alone = kind[f] == ALONE
            if kind[f] == ORDERED:
                regularisation = category_l2[node]
        if allowed[node, f] != 0:
            own = i64(0)
            own_rows = i64(0)
            for b in range(t * OWN, min((t + 1) * OWN, MISSING)):
                own += packed_sum(histograms, node, f, b)
                if counted:
                    own_rows += i64(counts[node, f, b])
            below[t] = own
            inclusive_scan(below, t)
            left = below[t] - own
            missing = packed_sum(histograms, node, f, MISSING)
            total = (totals[node, 0] << S32) + totals[node, 1]
            rows_left = i64(0)
            rows_missing = i64(0)
            rows_total = i64(0)
            if counted:
                rows_below[t] = own_rows
                inclusive_scan(rows_below, t)
                rows_left = rows_below[t] - own_rows
                rows_missing = i64(counts[node, f, MISSING])
                rows_total = rows_below[BLOCK - 1] + rows_missing
            for b in range(t * OWN, min((t + 1) * OWN, n_bins[node, f])):
                if alone:
                    left = i64(0)
                    rows_left = i64(0)
                left += packed_sum(histograms, node, f, b)
                if counted:
                    rows_left += i64(counts[node, f, b])
                first_side = 0
                n_sides = 2
                if missing == 0:  # the heavier child's side alone
                    first_side = 1 if 2 * (left & LOW) > (total & LOW) else 0
                    n_sides = first_side + 1
                for side in range(first_side, n_sides):
                    candidate = left + side * missing
                    rows = rows_left + side * rows_missing
                    if bounded:
                        ends = (low[node], high[node])
                        value = bounded_score_of(
                            candidate, total, least_h[node], regularisation, ends, monotone[f]
                        )
                    else:
                        value = score_of(candidate, total, least_h[node], regularisation)
                    enough = min(rows, rows_total - rows) >= least_rows
                    if value > best and (enough or not counted):
                        best = value
                        best_number = i32(2 * b + side)
                        best_left = candidate
        scores[t] = best
        numbers[t] = best_number
        best_to_front(scores, numbers, t)
        if numbers[0] == best_number and best_number != NOWHERE:
            number[item] = best_number
            left_sums[item] = best_left
        if t == 0:
            score[item] = scores[0]
        cuda.syncthreads()
        item += cuda.gridDim.x


@kernel
def best_of_nodes(score, number, left_sums, out):
    """One node a block at a time: the best of its features.

    Column k of ``out`` has the fields of ``Splits`` for node k, all as float64, which holds
    every one of them exactly, so that a single transfer brings them to the host.
    """
    scores = cuda.shared.array(BLOCK, np.float64)
    features = cuda.shared.array(BLOCK, np.int32)
    t = cuda.threadIdx.x
    n_nodes = out.shape[1]
    n_features = score.shape[0] // n_nodes
    node = cuda.blockIdx.x
    while node < n_nodes:
        best = NO_SPLIT
        best_feature = NOWHERE
        for f in range(t, n_features, BLOCK):
            if score[node * n_features + f] > best:
                best = score[node * n_features + f]
                best_feature = i32(f)
        scores[t] = best
        features[t] = best_feature
        best_to_front(scores, features, t)
        if t == 0:
            out[0, node] = scores[0]
            out[1, node] = -1.0
            out[2, node] = -1.0
            for field in range(3, N_FIELDS):
                out[field, node] = 0.0
            if scores[0] > NO_SPLIT:
                item = node * n_features + features[0]
                out[1, node] = f64(features[0])
                out[2, node] = f64(number[item] >> 1)
                out[3, node] = f64(number[item] & 1)
                out[4, node] = f64(left_sums[item] >> S32)
                out[5, node] = f64(left_sums[item] & LOW)
        cuda.syncthreads()
        node += cuda.gridDim.x


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
    n_nodes, n_features = allowed.shape
    n_items = n_nodes * n_features
    score = empty(n_items, np.float64)
    number = empty(n_items, np.int32)
    left_sums = empty(n_items, np.int64)
    out = empty((N_FIELDS, n_nodes), np.float64)
    bounds = NodeBounds(np.empty(0, np.int8), *np.empty((2, 0))) if bounds is None else bounds
    kind, category_l2 = np.empty(0, np.int32), np.empty(0)
    if categories is None:
        (n_used,) = upload(np.broadcast_to(n_bins, allowed.shape))
    else:
        kind, category_l2 = categories.kind, categories.l2
        histograms, counts, n_used, places = arrange(histograms, counts, n_bins, categories)
    small = upload(totals, least_h, l2, allowed, *bounds, kind, category_l2)
    args = (histograms, n_used, *small, counts, min_samples_leaf, score, number, left_sums)
    launch(best_of_features, blocks_for(n_items, 32), BLOCK, *args)
    launch(best_of_nodes, blocks_for(n_nodes), BLOCK, score, number, left_sums, out)
    fields = download(out)
    kinds = (np.float64, np.int32, np.int32, np.uint8, np.int64, np.int64)
    splits = Splits(*(field.astype(kind) for field, kind in zip(fields, kinds, strict=True)))
    if categories is None:
        return splits
    left_codes = download(left_codes_of(out, n_bins, categories.kind, places))
    by_categories = (splits.feature >= 0) & (categories.kind[splits.feature] != NUMERIC)
    bin_ = np.where(by_categories, np.int32(-1), splits.bin)
    return splits._replace(bin=bin_, left_codes=left_codes)
