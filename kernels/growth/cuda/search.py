"""The search of a round for the best splits of its nodes, on the histograms that growth keeps."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...runtime.cuda.blocks import NOWHERE
from ...runtime.cuda.loops import rolled
from ...runtime.cuda.target import cuda, device_function, kernel
from ...runtime.dtypes import ALONE, CODE_WORDS, N_SLOTS, NUMERIC, ORDERED
from ...scalars.gain import category_least_h
from ...scalars.primitives import mul
from .. import frontier as fr
from .candidates import (
    BLOCK,
    LOW,
    NO_SPLIT,
    S32,
    arrange,
    best_of_bins,
    packed,
    word_of_codes,
)

i32, i64 = np.int32, np.int64

ROW = i64(0xFFFFFFFF)
SUM_G, SUM_H, COUNTS = range(3)
"""The passes of ``count_bins``."""


@device_function
def load_bins(histograms, slot, f, bins, t):
    """Load the histogram of a slot by a feature into ``bins``."""
    # Entries t, t + BLOCK, …: those that this thread subtracts and stores later.
    for b in range(t, N_SLOTS, BLOCK):
        bins[b] = packed(histograms[slot, 0, f, b], histograms[slot, 1, f, b])


@device_function
def subtract_bins(histograms, slot, f, bins, t):
    """Subtract ``bins`` from the histogram of a slot, there and in ``bins``."""
    for b in range(t, N_SLOTS, BLOCK):
        g = histograms[slot, 0, f, b] - i32(bins[b] >> S32)
        h = histograms[slot, 1, f, b] - i32(bins[b] & LOW)
        histograms[slot, 0, f, b] = g
        histograms[slot, 1, f, b] = h
        bins[b] = packed(g, h)


@device_function
def load_counts(histograms, slot, f, rows, t):
    """Load the numbers of rows by a feature that a histogram holds."""
    for b in range(t, N_SLOTS, BLOCK):
        rows[b] = histograms[slot, 0, f, b]


@device_function
def count_bins(column, source, node, bins, rows, t):
    """Count the rows of a small node by code, and add up its sums as well if its histogram is
    not kept.

    Shared memory adds 32 bits natively, 64 only in a loop, so that the two halves of ``bins`` are
    added up in ``rows`` before the rows are: g, h and then the counts, a pass over the rows each.
    None of the sums exceeds 32 bits.
    """
    for plane in rolled(range(i64(0) if node.slot < 0 else COUNTS, COUNTS + 1)):
        for b in rolled(range(t, N_SLOTS, BLOCK)):
            rows[b] = 0
        cuda.syncthreads()  # all entries are zero
        i = node.begin + t
        while i < node.end:
            record = i64(source[i])
            own = i32(1)
            if plane == SUM_G:
                own = i32(record >> i64(48))
            elif plane == SUM_H:
                own = i32((record >> i64(32)) & i64(0xFFFF))
            cuda.atomic.add(rows, column[record & ROW], own)
            i += BLOCK
        cuda.syncthreads()  # all rows are added
        for b in rolled(range(t, N_SLOTS, BLOCK)):  # entries that this thread clears again
            if plane == SUM_G:
                bins[b] = packed(rows[b], i32(0))
            elif plane == SUM_H:
                bins[b] += i64(rows[b])


@functools.cache
def search_kernel(with_rules: bool) -> Any:
    """Return the kernel for tables with or without monotone constraints and categories."""
    # Shared memory decides how many blocks a multiprocessor runs: without categories none is
    # needed for their order.
    n_arranged = N_SLOTS if with_rules else 1

    @kernel
    def best_of_features(
        columns,
        records,
        spare,
        n_bins,
        histograms,
        nodes,
        pairs,
        rules,
        state,
        looked,
        limits,
        allowed,
        score,
        number,
        left_sums,
        left_codes,
    ):
        """Find the best splits of one pair of nodes, or of one node to recheck, by one feature, a
        block at a time; the last four arrays are the result.

        The histogram of a pair's second node is the parent's, whose slot it has, less the first
        node's.
        """
        bins = cuda.shared.array(N_SLOTS, np.int64)
        rows = cuda.shared.array(N_SLOTS, np.int32)
        keys = cuda.shared.array(n_arranged, np.float64)
        places = cuda.shared.array(n_arranged, np.int32)
        arranged = cuda.shared.array(n_arranged, np.int64)
        arranged_rows = cuda.shared.array(n_arranged, np.int32)
        below = cuda.shared.array(BLOCK, np.int64)
        rows_below = cuda.shared.array(BLOCK, np.int64)
        scores = cuda.shared.array(BLOCK, np.float64)
        numbers = cuda.shared.array(BLOCK, np.int32)
        lefts = cuda.shared.array(1, np.int64)
        scratch = (below, rows_below, scores, numbers, lefts)
        t = cuda.threadIdx.x
        n_features = n_bins.shape[0]
        n_pairs = state[fr.N_PAIRS]
        n_items = (n_pairs + state[fr.N_RECHECK]) * n_features
        item = i64(cuda.blockIdx.x)
        while item < n_items:
            group = item // n_features
            f = item - group * n_features
            first = 2 * group
            n_own = 2
            needed = i64(0)
            if group >= n_pairs:
                first = n_pairs + group
                n_own = 1
                needed = i64(limits[first].least_rows)
            # Entries of ``looked``: both nodes of a pair, or one to recheck, with numbers of rows.
            kind = i32(NUMERIC)
            direction = i32(0)
            if with_rules:
                kind = i32(rules[f].kind)
                direction = i32(rules[f].monotone)
            # The first node of a pair leaves its sums in ``bins``, for the second one's.
            for k in range(first, first + n_own):
                x = looked[k]
                at = k * n_features + f
                best = NO_SPLIT
                best_number = NOWHERE
                best_left = i64(0)
                if x >= 0:
                    node = nodes[x]
                    limit = limits[k]
                    # Load the sums, and the numbers of rows where children need so many. A large
                    # node to recheck was counted by ``add_tiles``, into histograms of its own.
                    slot = node.slot
                    if needed > 0 and slot < 0:
                        slot = limit.counted
                    if k == first and slot >= 0:
                        load_bins(histograms, slot, f, bins, t)
                    if k > first:
                        subtract_bins(histograms, slot, f, bins, t)
                    if needed > 0 and limit.counted >= 0:
                        load_counts(histograms, limit.counted + 1, f, rows, t)
                    elif needed > 0:
                        source = records if node.depth & 1 == 0 else spare
                        count_bins(columns[f], source, node, bins, rows, t)
                    cuda.syncthreads()  # bins and rows are complete
                    # Compare the candidates. Sums are loaded in any case, for the sibling.
                    wanted = limit.wanted != 0
                    if allowed.shape[0] > 0:
                        wanted = wanted and allowed[k, f] != 0
                    if wanted:
                        total = packed(node.g, node.h)
                        l2 = limit.category_l2 if kind == ORDERED else limit.l2
                        ends = (node.low, node.high)
                        bounds = (limit.least_h, l2, with_rules, *ends, direction)
                        if with_rules and kind != NUMERIC:
                            alone = kind == ALONE
                            tables = (keys, places, arranged, arranged_rows)
                            smooth = rules[f].cat_smooth
                            least = category_least_h(smooth, limit.row_h)
                            n_used = arrange(
                                bins, rows, needed > 0, n_bins[f], alone, least,
                                mul(smooth, limit.scale_h), tables, t,
                            )  # fmt: skip
                            best_of_bins(
                                arranged, arranged_rows, needed, n_used, alone, total, bounds,
                                scratch, t,
                            )  # fmt: skip
                            for w in range(t, CODE_WORDS, BLOCK):
                                word = word_of_codes(places, n_bins[f], numbers[0], alone, w)
                                left_codes[at, w] = word
                        else:
                            best_of_bins(
                                bins, rows, needed, n_bins[f], False, total, bounds, scratch, t
                            )
                        best = scores[0]
                        best_number = numbers[0]
                        best_left = lefts[0]
                # Nodes without a split are written, too: nothing clears the results before.
                if t == 0:
                    # One store an entry: no default first, because of a fault of the compiler.
                    # After ``t[i] = default; for j ...: t[j] = default; if found: t[i] = best``
                    # libNVVM 13.5.37 (of numba-cuda 0.30.4) stores ``best`` at the last j, on every
                    # architecture; 12.9 to 13.5 do so for sm_100 and sm_120.
                    score[at] = best
                    number[at] = best_number
                    left_sums[at] = best_left
                cuda.syncthreads()  # all have read what the next node overwrites
            item += cuda.gridDim.x

    return best_of_features
