"""Best split (contract: ``kernels.growth.split``).

The op takes the limits of its nodes as arrays; growth on the device has a kernel of its own around
the same functions (``growth_splits``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime.cuda.blocks import NOWHERE
from ...runtime.cuda.target import blocks_for, cuda, download, empty, kernel, launch, upload
from ...runtime.dtypes import (
    ALONE,
    CODE_WORDS,
    N_SLOTS,
    NUMERIC,
    ORDERED,
    CategorySplits,
    NodeBounds,
    Splits,
)
from .candidates import BLOCK, LOW, NO_SPLIT, S32, best_feature, best_of_bins, packed
from .category_arrangement import arrange, word_of_codes

i32, i64, u32, f64 = np.int32, np.int64, np.uint32, np.float64

N_FIELDS = 6


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
    category_least_h,
    smoothing,
    category_l2,
    counts,
    least_rows,
    score,
    number,
    left_sums,
    left_codes,
):
    """One (node, feature) a block at a time: its best split, in the last four arrays."""
    bins = cuda.shared.array(N_SLOTS, np.int64)
    rows = cuda.shared.array(N_SLOTS, np.int32)
    keys = cuda.shared.array(N_SLOTS, np.float64)
    places = cuda.shared.array(N_SLOTS, np.int32)
    arranged = cuda.shared.array(N_SLOTS, np.int64)
    arranged_rows = cuda.shared.array(N_SLOTS, np.int32)
    below = cuda.shared.array(BLOCK, np.int64)
    rows_below = cuda.shared.array(BLOCK, np.int64)
    scores = cuda.shared.array(BLOCK, np.float64)
    numbers = cuda.shared.array(BLOCK, np.int32)
    lefts = cuda.shared.array(1, np.int64)
    t = cuda.threadIdx.x
    n_features = allowed.shape[1]
    needed = least_rows if counts.shape[0] > 0 else i64(0)
    scratch = (below, rows_below, scores, numbers, lefts)
    item = cuda.blockIdx.x
    while item < score.shape[0]:
        node = item // n_features
        f = item - node * n_features
        kind_of = i32(NUMERIC)
        if kind.shape[0] > 0:
            kind_of = kind[f]
        if t == 0:
            score[item] = NO_SPLIT
            number[item] = NOWHERE
        if allowed[node, f] != 0:
            for b in range(t, N_SLOTS, BLOCK):
                bins[b] = packed(histograms[node, 0, f, b], histograms[node, 1, f, b])
                if needed > 0:
                    rows[b] = counts[node, f, b]
            cuda.syncthreads()
            total = packed(totals[node, 0], totals[node, 1])
            alone = kind_of == ALONE
            regularisation = category_l2[node] if kind_of == ORDERED else l2[node]
            bounded = monotone.shape[0] > 0
            limits = (least_h[node], regularisation, bounded, -np.inf, np.inf, i32(0))
            if bounded:
                limits = (
                    least_h[node], regularisation, bounded, low[node], high[node], i32(monotone[f])
                )  # fmt: skip
            if kind_of == NUMERIC:
                best_of_bins(bins, rows, needed, n_bins[f], False, total, limits, scratch, t)
            else:
                tables = (keys, places, arranged, arranged_rows)
                n_used = arrange(
                    bins, rows, needed > 0, n_bins[f], alone, category_least_h[node],
                    smoothing[node], tables, t,
                )  # fmt: skip
                best_of_bins(
                    arranged, arranged_rows, needed, n_used, alone, total, limits, scratch, t
                )
                if numbers[0] != NOWHERE:
                    for w in range(t, CODE_WORDS, BLOCK):
                        left_codes[item, w] = word_of_codes(places, n_bins[f], numbers[0], alone, w)
            if t == 0:
                score[item] = scores[0]
                number[item] = numbers[0]
                left_sums[item] = lefts[0]
        cuda.syncthreads()
        item += cuda.gridDim.x


@kernel
def best_of_nodes(score, number, left_sums, left_codes, kind, out, codes_out):
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
        first = node * n_features
        best_feature(score, first, n_features, scores, features, t)
        f = features[0]
        by_categories = False
        if f != NOWHERE and kind.shape[0] > 0:
            by_categories = kind[f] != NUMERIC
        for w in range(t, codes_out.shape[1], BLOCK):
            codes_out[node, w] = left_codes[first + f, w] if by_categories else u32(0)
        if t == 0:
            out[0, node] = scores[0]
            out[1, node] = -1.0
            out[2, node] = -1.0
            for field in range(3, N_FIELDS):
                out[field, node] = 0.0
            if f != NOWHERE:
                item = first + f
                out[1, node] = f64(f)
                if not by_categories:
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
    width = 0 if categories is None else CODE_WORDS
    left_codes = empty((n_items if width else 0, width), np.uint32)
    out = empty((N_FIELDS, n_nodes), np.float64)
    codes_out = empty((n_nodes, width), np.uint32)
    no_bounds = NodeBounds(np.empty(0, np.int8), *np.empty((2, 0)))
    no_categories = CategorySplits(np.empty(0, np.int32), np.empty(0, np.int64), *np.empty((2, 0)))
    kind, *of_categories = categories or no_categories
    host = (n_bins, totals, least_h, l2, allowed, *(bounds or no_bounds), kind, *of_categories)
    small = upload(*host)
    results = (score, number, left_sums, left_codes)
    args = (histograms, *small, counts, min_samples_leaf, *results)
    launch(best_of_features, blocks_for(n_items, 32), BLOCK, *args)
    launch(best_of_nodes, blocks_for(n_nodes), BLOCK, *results, small[8], out, codes_out)
    fields = download(out)
    kinds = (np.float64, np.int32, np.int32, np.uint8, np.int64, np.int64)
    splits = Splits(*(field.astype(kind) for field, kind in zip(fields, kinds, strict=True)))
    return splits._replace(left_codes=download(codes_out)) if width else splits
