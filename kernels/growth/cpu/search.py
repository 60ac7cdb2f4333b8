"""The best splits of the nodes of a round, feature by feature."""

from __future__ import annotations

import numpy as np

from ...runtime.compilation import fused, inlined, inner
from ...runtime.cpu.team import atomic_add
from ...runtime.dtypes import ALONE, CODE_WORDS, N_SLOTS, NUMERIC, ORDERED
from ...scalars.gain import category_least_h
from ...scalars.primitives import mul
from .. import frontier as fr
from ..control import settle
from ..limits import (
    allow_features,
    can_split,
    category_l2,
    direction_of,
    kind_of,
    l2_of,
    least_h,
    row_h,
    scale_h,
)
from .few_rows import best_of_rows, load_rows
from .histogram import STRIDE, add_rows, add_used, clear_used, expand, subtract_used
from .quick_split import LARGEST_L2, best_of_plain
from .split import COUNTS, PLACES, SUMS, arrange, best_of_feature, fill_left_codes
from .tables import EVALUATE, RECHECK

u64, i64 = np.uint64, np.int64

NOTHING_KNOWN = np.zeros((0, 0), np.int64), np.zeros((0, 0, 0), np.int64)
"""The arguments of ``recheck_known`` where no node is to recheck."""

LOW = i64(0xFFFFFFFF)


@inner
def has_few_rows(table, frontier, params, x):
    """Return whether a node's split is found without a histogram."""
    node = frontier.nodes[x]
    is_plain = frontier.rules.size == 0 and l2_of(frontier, params, x) <= LARGEST_L2
    return is_plain and node.end - node.begin < table.few_rows


@inner
def needs_histograms(table, frontier, params, pair):
    """Return whether the search of a pair of nodes takes histograms: the larger one decides."""
    larger = pair.sibling if pair.sibling >= 0 else pair.build
    return not has_few_rows(table, frontier, params, larger)


@inner
def is_taken_from_sibling(table, frontier, params, pair):
    """Return whether the rows of a pair's first node, few enough for one piece, are subtracted from
    its sibling's histogram at once: nothing reads a histogram of its own."""
    if pair.sibling < 0:
        return False
    node = frontier.nodes[pair.build]
    is_small = node.end - node.begin < table.few_rows
    return is_small and (
        has_few_rows(table, frontier, params, pair.build)
        or not can_split(frontier, params, pair.build)
    )


@fused
def evaluate(thread, n_threads, table, frontier, params, work):
    """Find the best splits of the new nodes, in tasks of a pair of nodes and a word of features.

    A single thread carries the best split of a pair from word to word, which spares the exact
    scores of most later features; several threads leave one in every word.
    """
    slots = table.layout.column_slots
    n_words = work.best.shape[1]
    n_tasks = frontier.state[fr.N_PAIRS] * n_words
    while True:
        task = atomic_add(work.counts, EVALUATE, 1)
        if task >= n_tasks:
            break
        p = task // n_words
        word = task - p * n_words
        first = 8 * word
        last = min(first + 8, slots.size)
        pair = frontier.pairs[p]
        best = work.best[p, word]
        # Where a single thread carries the best split on, the other words stay without one.
        best[0].score = best[1].score = fr.NO_GAIN
        if n_threads == 1:
            best = work.best[p, 0]
        # The pieces of the node are joined column by column: no other task has these columns.
        built = work.histograms[frontier.nodes[pair.build].slot]
        for q in range(work.partial_range[p, 0], work.partial_range[p, 1]):
            add_used(slots, first, last, built, work.partials[q])
        for child in range(2):
            # First the node that was added up, then its sibling, whose slot holds the histogram of
            # the parent until the first one is subtracted: here, if its rows were not before.
            x, histogram = pair.build, built
            if child == 1:
                x = pair.sibling
                if x < 0:
                    break
                histogram = work.histograms[frontier.nodes[x].slot]
                if needs_histograms(table, frontier, params, pair) and not is_taken_from_sibling(
                    table, frontier, params, pair
                ):
                    subtract_used(slots, first, last, histogram, built)
            _best_of_word(thread, table, frontier, params, work, x, histogram, word, best[child])


@inlined
def _best_of_word(thread, table, frontier, params, work, x, histogram, word, best):
    """Replace ``best`` by the node's best split by eight features, if that is better, without
    counting rows."""
    if not can_split(frontier, params, x):
        return
    allowed = work.allowed[thread]
    allow_features(frontier, params, x, work.features[thread], work.hashes[thread], allowed)
    # Rows are not counted: splits that leave a child with too few are found by the partition,
    # which is rare, and sought again then (``recheck``).
    no_counts = work.row_counts[thread, :0]
    limits = (least_h(frontier, params, x), l2_of(frontier, params, x))
    is_plain = frontier.rules.size == 0 and limits[1] <= LARGEST_L2
    total = (frontier.nodes[x].g << i64(32)) + frontier.nodes[x].h
    layout = table.layout
    last = min(8 * word + 8, layout.column_begin.size - 1)
    if has_few_rows(table, frontier, params, x):
        _best_of_rows(thread, table, frontier, params, work, x, 8 * word, last, limits, best)
        return
    for k in range(layout.column_begin[8 * word], layout.column_begin[last]):
        f = layout.column_features[k]
        if allowed[f] == 1:
            bins = _bins_of(thread, table, frontier, work, x, f, histogram)
            if is_plain:
                score, bin_, missing_left, left = best_of_plain(
                    bins, layout.features[f].n_bins, total, limits[0], limits[1], best.score,
                    work.lefts[thread], work.approximate[thread],
                )  # fmt: skip
                _improve(best, score, f, bin_, missing_left, left)
                continue
            found = work.found[thread]
            _best_of_feature(
                thread, table, frontier, params, work, x, limits, bins, f, no_counts, found
            )
            if _is_better(found, best):
                _copy_best(found, best)


@inlined
def _bins_of(thread, table, frontier, work, x, f, histogram):
    """Return the bins of a feature, from those of a byte that it may share."""
    node, feature = frontier.nodes[x], table.layout.features[f]
    o = feature.column * STRIDE
    bins = histogram[o : o + N_SLOTS]
    if feature.stride != 0:
        expand(bins, feature, (node.g << i64(32)) + node.h, work.expanded[thread])
        bins = work.expanded[thread]
    return bins


@inner
def _fill_bounds(thread, table, frontier, params, work, x, limits, histogram, floor):
    """Fill in the score of each allowed feature whose rows are not counted; ``NO_GAIN`` stands for
    those below ``floor``, too."""
    bounds, found, no_counts = work.bounds[thread], work.found[thread], work.row_counts[thread, :0]
    is_plain = frontier.rules.size == 0 and limits[1] <= LARGEST_L2
    total = (frontier.nodes[x].g << i64(32)) + frontier.nodes[x].h
    for f in range(bounds.size):
        bounds[f] = fr.NO_GAIN
        if work.allowed[thread, f] == 0:
            continue
        bins = _bins_of(thread, table, frontier, work, x, f, histogram)
        if is_plain:
            score, bin_, _, _ = best_of_plain(
                bins, table.layout.features[f].n_bins, total, limits[0], limits[1], floor,
                work.lefts[thread], work.approximate[thread],
            )  # fmt: skip
            bounds[f] = score if bin_ >= 0 else fr.NO_GAIN
        else:
            _best_of_feature(
                thread, table, frontier, params, work, x, limits, bins, f, no_counts, found
            )
            bounds[f] = found.score


@inner
def _highest(bounds):
    """Return the number of the highest bound, the first of equal ones."""
    at = i64(0)
    for f in range(1, bounds.size):
        at = i64(f) if bounds[f] > bounds[at] else at
    return at


@inner
def _best_of_rows(thread, table, frontier, params, work, x, first, last, limits, best):
    """Replace ``best`` by the best split of a node of few rows by the features of the columns
    ``first`` to ``last - 1``, if that is better."""
    node = frontier.nodes[x]
    total = (node.g << i64(32)) + node.h
    n_rows = node.end - node.begin
    layout, lines, allowed = table.layout, work.few[thread], work.allowed[thread]
    records, n_words = table.records[node.depth & 1], work.best.shape[1]
    # One load of eight bytes a row serves all features of the word.
    load_rows(layout.words, n_words, first >> 3, records, node.begin, node.end, lines)
    for column in range(first, last):
        f = layout.column_features[column]
        if allowed[f] == 1:
            score, bin_, missing_left, left = best_of_rows(
                lines, n_rows, 8 * (column - first), total, limits[0], params.min_samples_leaf,
                limits[1], best.score, work.lefts[thread], work.approximate[thread],
            )  # fmt: skip
            _improve(best, score, f, bin_, missing_left, left)


@inner
def _improve(best, score, f, bin_, missing_left, left):
    """Replace ``best`` by a split that is better, or as good and of a lower feature; a bin of -1
    stands for none."""
    if bin_ >= 0 and (score > best.score or (score == best.score and f < best.feature)):
        best.score = score
        best.feature = f
        best.bin = bin_
        best.missing_left = missing_left
        best.left = left


@inner
def _is_better(found, best):
    """Compare two splits. Ties go to the lowest feature, whatever the order of the columns."""
    if found.score == best.score:
        return found.score > fr.NO_GAIN and found.feature < best.feature
    return found.score > best.score


@inner
def _best_of_feature(thread, table, frontier, params, work, x, limits, bins, f, row_counts, best):
    """Find the best split of a node by one feature. ``limits`` are the node's least_h and l2;
    ``row_counts`` is empty or has counts by code."""
    node = frontier.nodes[x]
    n_bins = table.layout.features[f].n_bins
    total = (node.g << i64(32)) + node.h
    least_h, l2 = limits
    kind = kind_of(frontier, f)
    lines = work.arranged[thread]
    n_used = n_bins
    # Categories are put into their order first, and cut as if they were bins.
    if kind != NUMERIC:
        least, smoothing = (
            category_least_h(frontier.rules[f].cat_smooth, row_h(frontier, x)),
            mul(frontier.rules[f].cat_smooth, scale_h(frontier, x)),
        )
        n_used = arrange(
            bins, n_bins, total, kind == ALONE, least, smoothing, row_counts,
            work.scores[thread], lines,
        )  # fmt: skip
        bins = lines[SUMS]
        row_counts = lines[COUNTS, : row_counts.size]
        if kind == ORDERED:
            l2 = category_l2(frontier, params, x)
    best.feature = f
    best.score, best.bin, best.missing_left, best.left = best_of_feature(
        bins,
        n_used,
        kind == ALONE,
        total,
        (
            least_h,
            l2,
            node.low,
            node.high,
            direction_of(frontier, f),
        ),
        row_counts,
        node.end - node.begin,
        params.min_samples_leaf,
        work.prefix[thread],
        work.scores[thread],
    )
    if kind != NUMERIC and best.bin >= 0:
        fill_left_codes(
            lines[PLACES], n_bins, best.bin, best.missing_left, kind == ALONE, best.codes
        )
        best.bin = -1


@inner
def _copy_best(source, target):
    target.score = source.score
    target.feature = source.feature
    target.bin = source.bin
    target.missing_left = source.missing_left
    target.left = source.left
    if source.bin < 0:
        for w in range(CODE_WORDS):
            target.codes[w] = source.codes[w]


@inner
def _fill_histogram(table, node, k, known, histogram):
    n_columns = table.layout.column_begin.size - 1
    clear_used(table.layout.column_slots, 0, n_columns, histogram, histogram)
    records = table.records[node.depth & 1]
    add_rows(table.layout.words, n_columns, records, node.begin, node.end, histogram)


@inner
def _count_rows(table, node, k, f, known, row_counts):
    row_counts[:] = 0
    column, records = table.columns[f], table.records[node.depth & 1]
    for i in range(node.begin, node.end):
        row_counts[column[records[i] & u64(0xFFFFFFFF)]] += 1


def rechecking(fill_histogram, count_rows):
    """Compile the search for splits that leave enough rows (see ``Frontier.recheck``).

    ``fill_histogram`` builds the histogram of the k-th rechecked node where none is kept, and
    ``count_rows`` counts the rows by their codes of feature f; both get ``known``.
    """

    @inner
    def recheck(thread, table, frontier, params, work, known):
        n_features = table.layout.features.size
        allowed, row_counts = work.allowed[thread], work.row_counts[thread]
        found, bounds = work.found[thread], work.bounds[thread]
        while True:
            k = atomic_add(work.counts, RECHECK, 1)
            if k >= frontier.state[fr.N_RECHECK]:
                break
            x = frontier.recheck[k]
            node = frontier.nodes[x]
            limits = (least_h(frontier, params, x), l2_of(frontier, params, x))
            histogram = work.spare[thread]
            if node.slot >= 0:
                histogram = work.histograms[node.slot]
            else:
                fill_histogram(table, node, k, known, histogram)
            allow_features(frontier, params, x, work.features[thread], work.hashes[thread], allowed)
            best = work.rechecked[k]
            best.score, best.feature = fr.NO_GAIN, node.feature
            # First the feature that was the best before its rows were counted: most others cannot
            # reach what it scores then. Those that can follow in the order of what they score
            # without counts, until none is left that may be better.
            for turn in range(n_features):
                f = node.feature
                if turn > 0:
                    f = _highest(bounds)
                    if bounds[f] == fr.NO_GAIN or bounds[f] < best.score:
                        break
                bins = _bins_of(thread, table, frontier, work, x, f, histogram)
                count_rows(table, node, k, f, known, row_counts)
                _best_of_feature(
                    thread, table, frontier, params, work, x, limits, bins, f, row_counts, found
                )
                if _is_better(found, best):
                    _copy_best(found, best)
                if turn == 0:
                    _fill_bounds(
                        thread, table, frontier, params, work, x, limits, histogram, best.score
                    )
                bounds[f] = fr.NO_GAIN

    return recheck


recheck = rechecking(_fill_histogram, _count_rows)


@inner
def _read_histogram(table, node, k, known, histogram):
    packed = known[0][k]
    for i in range(packed.size):
        histogram[i] = packed[i]


@inner
def _read_counts(table, node, k, f, known, row_counts):
    for code in range(row_counts.size):
        row_counts[code] = known[1][k, f, code]


recheck_known = rechecking(_read_histogram, _read_counts)
"""The same where histograms and counts of rows, by node to recheck, are ``known`` before."""


@inner
def _settle(frontier, params, x, best):
    node = frontier.nodes[x]
    node.feature = best.feature
    node.bin = best.bin
    node.missing_left = best.missing_left
    node.left_g = best.left >> i64(32)
    node.left_h = best.left & LOW
    if best.bin < 0 and best.score > fr.NO_GAIN:
        for w in range(CODE_WORDS):
            frontier.left_codes[x, w] = best.codes[w]
    settle(frontier, params, x, best.score)


@fused
def settle_nodes(frontier, params, work):
    """Settle the new nodes on the best of their words, which are in the order of features, then
    the rechecked ones."""
    n_words = work.best.shape[1]
    for p in range(frontier.state[fr.N_PAIRS]):
        pair = frontier.pairs[p]
        for child in range(2):
            x = pair.build if child == 0 else pair.sibling
            if x < 0:
                continue
            # Threads have left a split in every word, in any order of time; the comparison does
            # not depend on that.
            word = 0
            for w in range(1, n_words):
                if _is_better(work.best[p, w, child], work.best[p, word, child]):
                    word = w
            _settle(frontier, params, x, work.best[p, word, child])
    for k in range(frontier.state[fr.N_RECHECK]):
        _settle(frontier, params, frontier.recheck[k], work.rechecked[k])
    frontier.state[fr.N_RECHECK] = 0
