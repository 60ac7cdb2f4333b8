"""The splits of levels on the histograms of dense tables."""

from __future__ import annotations

import numpy as np

from ....runtime.compilation import fused, inlined, inner
from ....runtime.cpu.team import atomic_add
from ....runtime.dtypes import N_SLOTS
from ... import frontier as fr
from ..histogram import STRIDE, add_used, expand, subtract_used
from ..search import settle_nodes
from ..tables import EVALUATE
from .search import searching

i64 = np.int64


@inner
def _complete(thread, n_threads, table, frontier, work):
    """Complete the histograms of the new nodes, in tasks of a pair and a word of features."""
    slots = table.layout.column_slots
    n_words = work.best.shape[1]
    while True:
        task = atomic_add(work.counts, EVALUATE, 1)
        if task >= frontier.state[fr.N_PAIRS] * n_words:
            break
        p = task // n_words
        first = 8 * (task - p * n_words)
        last = min(first + 8, slots.size)
        pair = frontier.pairs[p]
        built = work.histograms[frontier.nodes[pair.build].slot]
        for q in range(work.partial_range[p, 0], work.partial_range[p, 1]):
            add_used(slots, first, last, built, work.partials[q])
        if pair.sibling >= 0:
            rest = work.histograms[frontier.nodes[pair.sibling].slot]
            subtract_used(slots, first, last, rest, built)


@inlined
def _bins_of(thread, table, frontier, work, x, f):
    node, feature = frontier.nodes[x], table.layout.features[f]
    o = feature.column * STRIDE
    bins = work.histograms[node.slot][o : o + N_SLOTS]
    if feature.stride != 0:
        expand(bins, feature, (node.g << i64(32)) + node.h, work.expanded[thread])
        bins = work.expanded[thread]
    return bins


@inner
def _n_bins_of(table, f):
    return table.layout.features[f].n_bins


find_levels, _settle_levels = searching(_complete, _bins_of, _n_bins_of)


@fused
def settle(table, frontier, params, work):
    """Settle the nodes of symmetric trees, or single nodes, on the splits that were found."""
    if params.is_symmetric == 1:
        _settle_levels(table, frontier, params, work)
    else:
        settle_nodes(frontier, params, work)
