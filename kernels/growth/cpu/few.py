"""The best splits of nodes of few rows, straight from their rows.

Such a node has no histogram in its slot: clearing it, subtracting it from its parent's and
walking over its empty bins would take longer than adding up the rows of both children. One word
of eight features is added up at a time, in a scratch that stays in the first-level cache and is
cleared as it is read.
"""

from __future__ import annotations

import numpy as np

from ...runtime.compilation import inner
from ...runtime.dtypes import N_SLOTS
from .. import frontier as fr
from ..features import allow_features
from ..limits import can_split, l2_of, least_h
from .bundles import expand
from .histogram import STRIDE, add_partial_word, add_word
from .split_few import best_of_few, counted

u32, u64, i64 = np.uint32, np.uint64, np.int64


@inner
def _add_rows(words, n_columns, word, records, begin, end, sums):
    """Add one word of the rows to packed sums with numbers of rows."""
    n_words = u64((n_columns + 7) >> 3)
    n = n_columns - 8 * word
    at = u64(word)
    if n >= 8:
        for i in range(begin, end):
            record = records[i]
            add_word(sums, u64(0), words[u64(u32(record)) * n_words + at], counted(record))
    else:
        for i in range(begin, end):
            record = records[i]
            codes = words[u64(u32(record)) * n_words + at]
            add_partial_word(sums, u64(0), codes, counted(record), n)


@inner
def best_of_few_rows(thread, table, frontier, params, work, x, word, best):
    """Make the best split by eight features that leaves both children enough rows ``best``, if it
    is better."""
    if not can_split(frontier, params, x):
        return
    allowed = work.allowed[thread]
    allow_features(frontier, params, x, work.features[thread], work.hashes[thread], allowed)
    least, l2 = least_h(frontier, params, x), l2_of(frontier, params, x)
    node = frontier.nodes[x]
    total = (node.g << i64(40)) + (node.h << i64(16)) + (node.end - node.begin)
    layout = table.layout
    n_columns = layout.column_slots.size
    sums = work.few[thread]
    records = table.records[node.depth & 1]
    _add_rows(layout.words, n_columns, word, records, node.begin, node.end, sums)
    for column in range(8 * word, min(8 * word + 8, n_columns)):
        o = (column - 8 * word) * STRIDE
        bins = sums[o : o + N_SLOTS]
        for k in range(layout.column_begin[column], layout.column_begin[column + 1]):
            f = layout.column_features[k]
            if allowed[f] == 0:
                continue
            feature = layout.features[f]
            bins_of_feature = bins
            if feature.stride != 0:
                expand(bins, feature, work.expanded[thread])
                bins_of_feature = work.expanded[thread]
            score, bin_, missing_left, left = best_of_few(
                bins_of_feature, feature.n_bins, total, least, params.min_samples_leaf, l2,
                best.score, work.prefix[thread], work.bin_of[thread], work.approximate[thread],
            )  # fmt: skip
            if score > best.score or (
                score == best.score and score > fr.NO_GAIN and f < best.feature
            ):
                best.score = score
                best.feature = f
                best.bin = bin_
                best.missing_left = missing_left
                best.left = left
        is_shared = layout.column_begin[column + 1] - layout.column_begin[column] > 1
        if is_shared or allowed[layout.column_features[layout.column_begin[column]]] == 0:
            bins[:] = 0
