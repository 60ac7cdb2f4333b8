"""Categories as bins: the codes of the nodes in the order in which they are cut (the twin of
``kernels.reference.category_arrangement``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import ALONE, CODE_WORDS, MISSING, N_SLOTS, NUMERIC, CategorySplits
from ..scalars.category_order import category_key
from .target import block_size, blocks_for, cuda, empty, kernel, launch, upload

i32, i64, u32, f64 = np.int32, np.int64, np.uint32, np.float64

BLOCK = block_size(64)
NO_KEY = np.inf


@kernel
def arrange_codes(
    histograms, counts, n_bins, kind, least_h, smoothing, sums, row_counts, n_used, places
):
    """One (node, feature) a block at a time: its sums and counts of rows, by place.

    A thread looks at every BLOCK-th code. Its place is the number of codes that come before, by
    their keys and then by their numbers; -1 where it goes with the missing values, which are
    what the others leave of the totals.
    """
    keys = cuda.shared.array(N_SLOTS, np.float64)
    t = cuda.threadIdx.x
    n_features = kind.shape[0]
    counted = counts.shape[0] > 0
    item = cuda.blockIdx.x
    while item < sums.shape[0] * n_features:
        node = item // n_features
        f = item - node * n_features
        for b in range(t, N_SLOTS, BLOCK):
            keys[b] = NO_KEY
            if kind[f] == NUMERIC:
                sums[node, 0, f, b] = histograms[node, 0, f, b]
                sums[node, 1, f, b] = histograms[node, 1, f, b]
                if counted:
                    row_counts[node, f, b] = counts[node, f, b]
            else:
                h = histograms[node, 1, f, b]
                if b < n_bins[f] and h >= least_h[node]:
                    keys[b] = f64(b)
                    if kind[f] != ALONE:
                        g = f64(histograms[node, 0, f, b])
                        keys[b] = category_key(g, f64(h), smoothing[node])
                sums[node, 0, f, b] = 0
                sums[node, 1, f, b] = 0
                if counted:
                    row_counts[node, f, b] = 0
        cuda.syncthreads()
        if kind[f] == NUMERIC:
            if t == 0:
                n_used[node, f] = n_bins[f]
        else:
            for b in range(t, MISSING, BLOCK):
                place = i32(-1)
                if keys[b] < NO_KEY:
                    place = i32(0)
                    for other in range(n_bins[f]):
                        ties = keys[other] == keys[b] and other < b
                        if keys[other] < keys[b] or ties:
                            place += i32(1)
                    sums[node, 0, f, place] = histograms[node, 0, f, b]
                    sums[node, 1, f, place] = histograms[node, 1, f, b]
                    if counted:
                        row_counts[node, f, place] = counts[node, f, b]
                places[node, f, b] = place
            if t == 0:
                rest_g = i32(0)
                rest_h = i32(0)
                rest_rows = i32(0)
                used = i32(0)
                for b in range(N_SLOTS):
                    if keys[b] < NO_KEY:
                        used += i32(1)
                    else:
                        rest_g += histograms[node, 0, f, b]
                        rest_h += histograms[node, 1, f, b]
                        if counted:
                            rest_rows += counts[node, f, b]
                n_used[node, f] = used
                sums[node, 0, f, MISSING] = rest_g
                sums[node, 1, f, MISSING] = rest_h
                if counted:
                    row_counts[node, f, MISSING] = rest_rows
        cuda.syncthreads()
        item += cuda.gridDim.x


@kernel
def collect_left_codes(splits, kind, n_bins, places, left_codes):
    """One word of a node's set a thread; ``splits`` is what ``best_of_nodes`` writes, whose bin is
    the place of the last category on the left."""
    i = cuda.grid(1)
    while i < splits.shape[1] * CODE_WORDS:
        node = i // CODE_WORDS
        w = i - node * CODE_WORDS
        word = u32(0)
        f = i32(splits[1, node])
        if f >= 0 and kind[f] != NUMERIC:
            cut = i32(splits[2, node])
            missing_left = splits[3, node] != 0.0
            for bit in range(32):
                code = w * 32 + bit
                in_left = missing_left
                if code < n_bins[f] and places[node, f, code] >= 0:
                    place = places[node, f, code]
                    in_left = place == cut if kind[f] == ALONE else place <= cut
                if in_left:
                    word |= u32(1) << u32(bit)
        left_codes[node, w] = word
        i += cuda.gridsize(1)


def arrange(
    histograms: Any, counts: Any, n_bins: Any, categories: CategorySplits
) -> tuple[Any, Any, Any, Any]:
    """Sums and counts by place, the number of places (n_nodes, n_features), and the place of
    every code (n_nodes, n_features, 256)."""
    n_nodes, _, n_features, _ = histograms.shape
    small = upload(n_bins, categories.kind, categories.least_h, categories.smoothing)
    sums = empty(histograms.shape, np.int32)
    row_counts = empty(counts.shape, np.int32)
    n_used = empty((n_nodes, n_features), np.int32)
    places = empty((n_nodes, n_features, N_SLOTS), np.int32)
    blocks = blocks_for(n_nodes * n_features, 32)
    results = (sums, row_counts, n_used, places)
    launch(arrange_codes, blocks, BLOCK, histograms, counts, *small, *results)
    return results


def left_codes_of(splits: Any, n_bins: Any, kind: Any, places: Any) -> Any:
    """The codes on the left, uint32 of shape (n_nodes, CODE_WORDS)."""
    n_nodes = splits.shape[1]
    left_codes = empty((n_nodes, CODE_WORDS), np.uint32)
    small = upload(kind, n_bins)
    blocks = blocks_for(-(-n_nodes * CODE_WORDS // BLOCK))
    launch(collect_left_codes, blocks, BLOCK, splits, *small, places, left_codes)
    return left_codes
