"""The splits of whole levels (contract: ``kernels.growth.levels``).

The search of a round completes the histograms of the new nodes, then adds up the gains of the nodes
of each level, feature by feature, in the order of the nodes' numbers: the same sums, rounded alike,
whatever the threads.
"""

from __future__ import annotations

import numpy as np

from ...runtime.compilation import inlined, inner
from ...runtime.cpu.team import atomic_add, wait
from ...runtime.dtypes import ALONE, CODE_WORDS, MISSING, N_SLOTS, NUMERIC, ORDERED
from ...scalars.gain import (
    bounded_score,
    bounded_value,
    category_least_h,
    keeps_order,
    newton_score,
)
from ...scalars.primitives import mul
from .. import frontier as fr
from ..control import release, take_level
from ..limits import (
    allow_for_level,
    can_split,
    category_l2,
    direction_of,
    kind_of,
    l2_of,
    least_h_of_level,
    scale_h,
)
from .histogram import STRIDE, add_used, expand, subtract_used
from .search import LOW, _copy_best, _is_better
from .split import PLACES, SUMS, _prefix_sums, arrange, fill_left_codes
from .tables import EVALUATE, RECHECK

u32, i32, i64 = np.uint32, np.int32, np.int64


@inner
def _complete(table, frontier, work):
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


@inner
def find_levels(thread, n_threads, barrier, table, frontier, params, work):
    """Find the best splits of the levels of all trees by each word of features, in tasks of a tree
    and a word."""
    _complete(table, frontier, work)
    wait(barrier, n_threads)  # the histograms of all nodes are complete
    n_words = work.best.shape[1]
    layout = table.layout
    allowed, found = work.allowed[thread], work.found[thread]
    while True:
        task = atomic_add(work.counts, RECHECK, 1)
        if task >= frontier.trees.size * n_words:
            break
        t = task // n_words
        word = task - t * n_words
        best = work.best[t, word, 0]
        best.score = fr.NO_GAIN
        if frontier.trees[t].n_open <= 0:
            continue
        allow_for_level(frontier, params, t, work.features[thread], work.hashes[thread], allowed)
        last = min(8 * word + 8, layout.column_begin.size - 1)
        for k in range(layout.column_begin[8 * word], layout.column_begin[last]):
            f = layout.column_features[k]
            if allowed[f] == 1:
                _best_of_feature(thread, table, frontier, params, work, t, f, found)
                if _is_better(found, best):
                    _copy_best(found, best)


@inlined
def _bins_of(thread, table, frontier, work, x, f):
    """Return the packed sums of a node by the bins of a feature."""
    node, feature = frontier.nodes[x], table.layout.features[f]
    o = feature.column * STRIDE
    bins = work.histograms[node.slot][o : o + N_SLOTS]
    if feature.stride != 0:
        expand(bins, feature, (node.g << i64(32)) + node.h, work.expanded[thread])
        bins = work.expanded[thread]
    return bins


@inner
def _arrange_level(thread, table, frontier, params, work, t, f, n_bins):
    """Put the categories of a feature into the order that the sums of all nodes of a level give,
    and return how many have a place."""
    tree, pooled = frontier.trees[t], work.pooled[thread]
    pooled[:] = 0
    total, n_rows = i64(0), i64(0)
    for i in range(tree.n_open):
        x = frontier.heap[tree.first + i]
        node = frontier.nodes[x]
        total += (node.g << i64(32)) + node.h
        n_rows += node.end - node.begin
        bins = _bins_of(thread, table, frontier, work, x, f)
        for b in range(n_bins):
            pooled[b] += bins[b]
    smooth, root = frontier.rules[f].cat_smooth, frontier.heap[tree.first]
    least = category_least_h(smooth, (total & LOW) / n_rows)
    smoothing = mul(smooth, scale_h(frontier, root))
    is_alone = kind_of(frontier, f) == ALONE
    return arrange(
        pooled, n_bins, total, is_alone, least, smoothing, work.row_counts[thread, :0],
        work.scores[thread], work.arranged[thread],
    )  # fmt: skip


@inner
def _place(bins, n_bins, total, lines):
    """Put the sums of a node into the order of the categories of its level."""
    places, sums = lines[PLACES], lines[SUMS]
    rest = total
    for b in range(n_bins):
        if places[b] >= 0:
            sums[places[b]] = bins[b]
            rest -= bins[b]
    sums[MISSING] = rest


@inner
def _gains(prefix, n_bins, extra, total, least_h, l2, parent, gains):
    """Fill in the gain of every cut with ``extra`` (the missing rows, or 0) on the left, 0 where it
    leaves a child that is too small."""
    least = i32(least_h)
    for b in range(n_bins):
        left = prefix[b] + extra
        right = total - left
        left_g, left_h = i32(left >> i64(32)), i32(left & LOW)
        right_g, right_h = i32(right >> i64(32)), i32(right & LOW)
        gain = (
            newton_score(float(left_g), float(left_h), l2)
            + newton_score(float(right_g), float(right_h), l2)
            - parent
        )
        gains[b] = gain if min(left_h, right_h) >= least else 0.0


@inner
def bounded_gain(left, total, limits, parent):
    """Return the gain of one cut of a node, ``NO_GAIN`` where a child would be too small, or break
    a constraint."""
    least_h, l2, low, high, direction = limits
    right = total - left
    left_g, left_h = float(left >> i64(32)), float(left & LOW)
    right_g, right_h = float(right >> i64(32)), float(right & LOW)
    if min(left & LOW, right & LOW) < least_h:
        return fr.NO_GAIN
    left_value = bounded_value(left_g, left_h, l2, low, high)
    right_value = bounded_value(right_g, right_h, l2, low, high)
    if not keeps_order(left_value, right_value, direction):
        return fr.NO_GAIN
    return (
        bounded_score(left_g, left_h, l2, low, high)
        + bounded_score(right_g, right_h, l2, low, high)
        - parent
    )


@inner
def _gains_of_node(prefix, n_bins, extra, total, limits, parent, gains):
    least_h, l2, low, high, direction = limits
    if direction == 0 and low == fr.NO_GAIN and high == -fr.NO_GAIN:
        _gains(prefix, n_bins, extra, total, least_h, l2, parent, gains)
        return
    for b in range(n_bins):
        gain = bounded_gain(prefix[b] + extra, total, limits, parent)
        gains[b] = gain if gain > fr.NO_GAIN else 0.0


@inner
def _limits_of(frontier, params, x, f):
    """Return the limits of a node's splits by a feature, and the score that they are to beat."""
    node = frontier.nodes[x]
    l2 = l2_of(frontier, params, x)
    parent = bounded_score(float(node.g), float(node.h), l2, node.low, node.high)
    if kind_of(frontier, f) == ORDERED:
        l2 = category_l2(frontier, params, x)
    least_h = least_h_of_level(frontier, params, x)
    return (least_h, l2, node.low, node.high, direction_of(frontier, f)), parent


@inner
def _add(gains, added, n):
    for b in range(n):
        gains[b] += added[b]


@inner
def _best_of_feature(thread, table, frontier, params, work, t, f, best):
    """Find the best split of the level of a tree by a feature; ``score`` is its gain, ``left`` is
    not filled in."""
    n_bins, kind = table.layout.features[f].n_bins, kind_of(frontier, f)
    prefix, scores, lines = work.prefix[thread], work.scores[thread], work.arranged[thread]
    gains, pooled = work.gains[thread], work.pooled[thread]
    tree, n_used = frontier.trees[t], n_bins
    if kind != NUMERIC:
        n_used = _arrange_level(thread, table, frontier, params, work, t, f, n_bins)
    for b in range(n_used):
        gains[0, b] = 0.0
        pooled[b] = 0
    all_nodes, has_missing = i64(0), False
    for i in range(tree.n_open):
        x = frontier.heap[tree.first + i]
        total = (frontier.nodes[x].g << i64(32)) + frontier.nodes[x].h
        bins = _bins_of(thread, table, frontier, work, x, f)
        if kind != NUMERIC:
            _place(bins, n_bins, total, lines)
            bins = lines[SUMS]
        missing = bins[MISSING]
        if missing != 0 and not has_missing:
            # Up to here both sides gain the same.
            has_missing = True
            for b in range(n_used):
                gains[1, b] = gains[0, b]
        _prefix_sums(bins, n_used, kind == ALONE, prefix)
        limits, parent = _limits_of(frontier, params, x, f)
        _gains_of_node(prefix, n_used, i64(0), total, limits, parent, scores)
        _add(gains[0], scores, n_used)
        if missing != 0:
            _gains_of_node(prefix, n_used, missing, total, limits, parent, scores)
        if has_missing:
            _add(gains[1], scores, n_used)
        for b in range(n_used):
            pooled[b] += prefix[b]
        all_nodes += total
    best.feature, best.score, best.bin, best.missing_left = f, fr.NO_GAIN, -1, 0
    for b in range(n_used):
        for side in range(2 if has_missing else 1):
            # Of equal gains the lower bin counts, then missing values on the right.
            if gains[side, b] > best.score:
                best.score, best.bin, best.missing_left = gains[side, b], b, side
    if best.bin < 0:
        return
    if not has_missing and 2 * (pooled[best.bin] & LOW) > (all_nodes & LOW):
        best.missing_left = 1  # the heavier side
    if kind != NUMERIC:
        fill_left_codes(
            lines[PLACES], n_bins, best.bin, best.missing_left, kind == ALONE, best.codes
        )
        best.bin = -1


@inner
def _left_of(bins, n_bins, best):
    """Return the packed sums of a node on the left of a split."""
    left = bins[MISSING] if best.missing_left == 1 else i64(0)
    for b in range(n_bins):
        in_left = b <= best.bin
        if best.bin < 0:
            in_left = (best.codes[b >> 5] >> u32(b & 31)) & u32(1) != 0
        if in_left:
            left += bins[b]
    return left


@inner
def settle_levels(table, frontier, params, work):
    """Settle the nodes of every level on its best split, those that it leaves whole on none."""
    for x in range(frontier.state[fr.N_NODES]):
        if not can_split(frontier, params, x):
            release(frontier, x)
    for t in range(frontier.trees.size):
        tree = frontier.trees[t]
        if tree.n_open <= 0:
            continue
        word = 0
        for w in range(1, work.best.shape[1]):
            if _is_better(work.best[t, w, 0], work.best[t, word, 0]):
                word = w
        best = work.best[t, word, 0]
        if take_level(frontier, params, t, best.score):
            for i in range(tree.n_open):
                x = frontier.heap[tree.first + i]
                _settle_node(table, frontier, params, work, x, best)


@inner
def _settle_node(table, frontier, params, work, x, best):
    node, tree = frontier.nodes[x], frontier.trees[frontier.nodes[x].tree]
    bins = _bins_of(0, table, frontier, work, x, best.feature)
    left = _left_of(bins, table.layout.features[best.feature].n_bins, best)
    limits, parent = _limits_of(frontier, params, x, best.feature)
    gain = bounded_gain(left, (node.g << i64(32)) + node.h, limits, parent)
    node.feature = best.feature
    node.bin = best.bin
    node.missing_left = best.missing_left
    node.left_g = left >> i64(32)
    node.left_h = left & LOW
    node.gain = gain / tree.scale_g / tree.scale_g * tree.scale_h
    if best.bin < 0:
        for w in range(CODE_WORDS):
            frontier.left_codes[x, w] = best.codes[w]
