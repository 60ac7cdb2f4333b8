"""The splits of levels on the histograms of sparse tables."""

from __future__ import annotations

import numpy as np

from ....runtime.compilation import inlined, inner
from ....runtime.cpu.sums import WORDS_AT_ONCE
from ....runtime.dtypes import MISSING, N_SLOTS
from ... import frontier as fr
from ..search import settle_nodes
from .search import searching

i64 = np.int64


@inner
def fill_bins(sums, row_counts, n_bins, zero, total, n_rows, bins, counts):
    """Fill in the bins of a feature, those of its zeros with the rest of the node."""
    # What no entry has belongs to the bin of zeros.
    rest, rest_rows = total - sums[n_bins], n_rows - i64(row_counts[n_bins])
    for b in range(n_bins):
        bins[b] = sums[b]
        counts[b] = i64(row_counts[b])
        rest -= sums[b]
        rest_rows -= i64(row_counts[b])
    bins[zero] += rest
    counts[zero] += rest_rows
    # ``best_of_plain`` reads on to a multiple of WORDS_AT_ONCE.
    for b in range(n_bins, min(n_bins + WORDS_AT_ONCE, N_SLOTS)):
        bins[b] = 0
    bins[MISSING] = sums[n_bins]
    counts[MISSING] = i64(row_counts[n_bins])


@inner
def _subtract_siblings(thread, n_threads, table, frontier, work):
    for p in range(thread, frontier.state[fr.N_PAIRS], n_threads):
        pair = frontier.pairs[p]
        if pair.sibling >= 0:
            built, rest = frontier.nodes[pair.build].slot, frontier.nodes[pair.sibling].slot
            for k in range(work.sums.shape[1]):
                work.sums[rest, k] -= work.sums[built, k]
                work.row_counts[rest, k] -= work.row_counts[built, k]


@inlined
def _bins_of(thread, table, frontier, work, x, f):
    node, n_bins = frontier.nodes[x], i64(table.n_bins[f])
    own = slice(table.codes.place_begin[f], table.codes.place_begin[f + 1])
    total, n_rows = (node.g << i64(32)) + node.h, node.end - node.begin
    sums, row_counts = work.sums[node.slot][own], work.row_counts[node.slot][own]
    bins, counts = work.bins[thread], work.bin_counts[thread]
    zero = i64(table.codes.zeros[f])
    fill_bins(sums, row_counts, n_bins, zero, total, n_rows, bins, counts)
    return bins


@inner
def _n_bins_of(table, f):
    return i64(table.n_bins[f])


find_levels, _settle_levels = searching(_subtract_siblings, _bins_of, _n_bins_of)


@inner
def settle(table, frontier, params, work):
    """Settle the nodes of symmetric trees, or single nodes, on the splits that were found."""
    if params.is_symmetric == 1:
        _settle_levels(table, frontier, params, work)
    else:
        settle_nodes(frontier, params, work)
