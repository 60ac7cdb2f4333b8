"""The search for the splits of levels (see ``kernels.growth.levels``), feature by feature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ....runtime.compilation import inner
from ....runtime.cpu.team import wait
from ....runtime.dtypes import ALONE, CODE_WORDS, MISSING, N_SLOTS, NUMERIC, ORDERED
from ....scalars.gain import (
    bounded_score,
    bounded_value,
    category_least_h,
    keeps_order,
    newton_score,
)
from ....scalars.primitives import mul
from ... import frontier as fr
from ...control import release
from ...levels import take_level
from ...limits import (
    allow_for_level,
    can_split,
    category_l2,
    direction_of,
    kind_of,
    l2_of,
    least_h_of_level,
    scale_h,
)
from ..split import N_LINES, PLACES, SUMS, arrange, fill_left_codes, prefix_sums
from .quick import MOST_NODES, adding_up_quickly, is_plain

u32, i32, i64, f64 = np.uint32, np.int32, np.int64, np.float64

LOW = i64(0xFFFFFFFF)

BEST = np.dtype(
    [
        ("gain", np.float64),
        ("feature", np.int64),
        ("bin", np.int64),
        ("missing_left", np.int64),
        ("codes", np.uint32, (CODE_WORDS,)),
    ]
)
"""The best split of a level among some features; see ``tables.BEST``."""


class LevelWork(NamedTuple):
    """Scratch of the search, a line for each thread.

    best : BEST, (threads, trees)
    found : BEST, (threads,)
    gains : float64, (threads, 2, N_SLOTS)
        Of the cuts of a feature, with missing values on the right and on the left.
    """

    best: np.ndarray
    found: np.ndarray
    allowed: np.ndarray
    features: np.ndarray
    hashes: np.ndarray
    gains: np.ndarray
    of_node: np.ndarray
    prefix: np.ndarray
    pooled: np.ndarray
    arranged: np.ndarray
    sums: np.ndarray
    lefts: np.ndarray
    missing: np.ndarray


def allocate_levels(n_features: int, capacity: int, n_threads: int) -> LevelWork:
    """Allocate the scratch; ``capacity`` is that of the table of nodes, which has one a tree at
    least."""
    n_nodes = min(capacity, MOST_NODES)
    return LevelWork(
        best=np.empty((n_threads, capacity), BEST),
        found=np.empty(n_threads, BEST),
        allowed=np.empty((n_threads, n_features), np.uint8),
        features=np.empty((n_threads, n_features), np.int64),
        hashes=np.empty((n_threads, n_features), np.uint64),
        gains=np.empty((n_threads, 2, N_SLOTS), np.float64),
        of_node=np.empty((n_threads, N_SLOTS), np.float64),
        prefix=np.empty((n_threads, N_SLOTS), np.int64),
        pooled=np.empty((n_threads, N_SLOTS), np.int64),
        arranged=np.empty((n_threads, N_LINES, N_SLOTS), np.int64),
        sums=np.empty((n_threads, 2, N_SLOTS), np.float32),
        lefts=np.empty((n_threads, n_nodes, 2, N_SLOTS), np.int32),
        missing=np.empty((n_threads, n_nodes), np.int64),
    )


NO_LEVELS = allocate_levels(0, 0, 0)
"""The scratch where trees are not symmetric."""


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
def _plain_gains(prefix, n_bins, extra, total, least_h, l2, parent, gains):
    """Fill in the gain of every cut with ``extra`` (the missing rows, or 0) on the left, 0 where it
    leaves a child that is too small."""
    least = i32(least_h)
    for b in range(n_bins):
        left = prefix[b] + extra
        right = total - left
        left_g, left_h = i32(left >> i64(32)), i32(left & LOW)
        right_g, right_h = i32(right >> i64(32)), i32(right & LOW)
        score = newton_score(float(left_g), float(left_h), l2) + newton_score(
            float(right_g), float(right_h), l2
        )
        gains[b] = score - parent if min(left_h, right_h) >= least else 0.0


@inner
def _gain_of(left, total, limits, parent):
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
    left_score = bounded_score(left_g, left_h, l2, low, high)
    return left_score + bounded_score(right_g, right_h, l2, low, high) - parent


@inner
def _gains_of_node(prefix, n_bins, extra, total, limits, parent, gains):
    least_h, l2, low, high, direction = limits
    if direction == 0 and low == fr.NO_GAIN and high == -fr.NO_GAIN:
        _plain_gains(prefix, n_bins, extra, total, least_h, l2, parent, gains)
        return
    for b in range(n_bins):
        gain = _gain_of(prefix[b] + extra, total, limits, parent)
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
def _copy(source, target, n):
    for b in range(n):
        target[b] = source[b]


@inner
def _take_best(gains, n_used, has_missing, best):
    """Find the best of the summed gains. Of equal ones the lower bin counts, then missing values on
    the right."""
    best.gain, best.bin, best.missing_left = fr.NO_GAIN, -1, 0
    for b in range(n_used):
        for side in range(2 if has_missing else 1):
            if gains[side, b] > best.gain:
                best.gain, best.bin, best.missing_left = gains[side, b], b, side


@inner
def _is_better(found, best):
    if found.gain == best.gain:
        return found.gain > fr.NO_GAIN and found.feature < best.feature
    return found.gain > best.gain


@inner
def _copy_best(source, target):
    target.gain = source.gain
    target.feature = source.feature
    target.bin = source.bin
    target.missing_left = source.missing_left
    for w in range(CODE_WORDS):
        target.codes[w] = source.codes[w]


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


def pooling(bins_of: Any) -> Any:
    """Compile the order of categories by the sums of all nodes of a level (see ``searching``)."""

    @inner
    def arrange_level(thread, table, frontier, params, work, t, f, n_bins):
        """Return how many categories have a place in the order, which is in ``arranged``."""
        tree, own = frontier.trees[t], work.levels
        pooled = own.pooled[thread]
        pooled[:] = 0
        total, n_rows = i64(0), i64(0)
        for i in range(tree.n_open):
            x = frontier.heap[tree.first + i]
            node = frontier.nodes[x]
            total += (node.g << i64(32)) + node.h
            n_rows += node.end - node.begin
            bins = bins_of(thread, table, frontier, work, x, f)
            _add(pooled, bins, n_bins)
        smooth, root = frontier.rules[f].cat_smooth, frontier.heap[tree.first]
        least = category_least_h(smooth, float(total & LOW) / n_rows)
        smoothing = mul(smooth, scale_h(frontier, root))
        return arrange(
            pooled, n_bins, total, kind_of(frontier, f) == ALONE, least, smoothing, pooled[:0],
            own.of_node[thread], own.arranged[thread],
        )  # fmt: skip

    return arrange_level


def adding_up(bins_of: Any, n_bins_of: Any) -> Any:
    """Compile the search by one feature (see ``searching``)."""
    arrange_level = pooling(bins_of)

    @inner
    def best_of_feature(thread, table, frontier, params, work, t, f, best):
        """Find the best split of the level of tree t by feature f."""
        n_bins, kind = n_bins_of(table, f), kind_of(frontier, f)
        own, tree, n_used = work.levels, frontier.trees[t], n_bins
        lines, prefix, of_node = own.arranged[thread], own.prefix[thread], own.of_node[thread]
        gains, pooled = own.gains[thread], own.pooled[thread]
        if kind != NUMERIC:
            n_used = arrange_level(thread, table, frontier, params, work, t, f, n_bins)
        for b in range(n_used):
            gains[0, b] = 0.0
            pooled[b] = 0
        total, has_missing = i64(0), False
        for i in range(tree.n_open):
            x = frontier.heap[tree.first + i]
            of_all = (frontier.nodes[x].g << i64(32)) + frontier.nodes[x].h
            bins = bins_of(thread, table, frontier, work, x, f)
            if kind != NUMERIC:
                _place(bins, n_bins, of_all, lines)
                bins = lines[SUMS]
            missing = bins[MISSING]
            if missing != 0 and not has_missing:
                # Up to here both sides gain the same.
                has_missing = True
                _copy(gains[0], gains[1], n_used)
            prefix_sums(bins, n_used, kind == ALONE, prefix)
            limits, parent = _limits_of(frontier, params, x, f)
            _gains_of_node(prefix, n_used, i64(0), of_all, limits, parent, of_node)
            _add(gains[0], of_node, n_used)
            if missing != 0:
                _gains_of_node(prefix, n_used, missing, of_all, limits, parent, of_node)
            if has_missing:
                _add(gains[1], of_node, n_used)
            _add(pooled, prefix, n_used)
            total += of_all
        best.feature = f
        _take_best(gains, n_used, has_missing, best)
        # Missing values without sums go to the heavier side.
        if not has_missing and best.bin >= 0 and 2 * (pooled[best.bin] & LOW) > (total & LOW):
            best.missing_left = 1
        if kind != NUMERIC and best.bin >= 0:
            fill_left_codes(
                lines[PLACES], n_bins, best.bin, best.missing_left, kind == ALONE, best.codes
            )
            best.bin = -1

    return best_of_feature


def searching(complete: Any, bins_of: Any, n_bins_of: Any) -> tuple[Any, Any]:
    """Compile the search for the splits of levels, and what settles the nodes on them.

    Parameters
    ----------
    complete : (thread, n_threads, table, frontier, work)
        Completes the histograms of the new nodes.
    bins_of : (thread, table, frontier, work, x, f) -> int64
        Returns the packed sums of node x by the bins of feature f.
    n_bins_of : (table, f) -> int64
    """
    best_of_feature: Callable[..., Any] = adding_up(bins_of, n_bins_of)
    best_of_plain: Callable[..., Any] = adding_up_quickly(bins_of, n_bins_of)

    @inner
    def find_levels(thread, n_threads, barrier, table, frontier, params, work):
        complete(thread, n_threads, table, frontier, work)
        wait(barrier, n_threads)  # the histograms of all nodes are complete
        own = work.levels
        allowed, found = own.allowed[thread], own.found[thread]
        for t in range(frontier.trees.size):
            best = own.best[thread, t]
            best.gain = fr.NO_GAIN
            if thread == 0:  # for threads that there is room for, but that do not run
                for other in range(n_threads, own.best.shape[0]):
                    own.best[other, t].gain = fr.NO_GAIN
            if frontier.trees[t].n_open <= 0:
                continue
            scratch = own.features[thread], own.hashes[thread]
            allow_for_level(frontier, params, t, scratch[0], scratch[1], allowed)
            plain = is_plain(frontier, params, t)
            for f in range(thread, allowed.size, n_threads):
                if allowed[f] == 1:
                    if plain:
                        best_of_plain(
                            thread, table, frontier, params, work, t, i64(f), found, best.gain
                        )
                    else:
                        best_of_feature(thread, table, frontier, params, work, t, i64(f), found)
                    if _is_better(found, best):
                        _copy_best(found, best)

    @inner
    def settle_node(table, frontier, params, work, x, best):
        node, tree = frontier.nodes[x], frontier.trees[frontier.nodes[x].tree]
        bins = bins_of(i64(0), table, frontier, work, x, best.feature)
        left = _left_of(bins, n_bins_of(table, best.feature), best)
        limits, parent = _limits_of(frontier, params, x, best.feature)
        gain = _gain_of(left, (node.g << i64(32)) + node.h, limits, parent)
        node.feature = best.feature
        node.bin = best.bin
        node.missing_left = best.missing_left
        node.left_g = left >> i64(32)
        node.left_h = left & LOW
        node.gain = gain / tree.scale_g / tree.scale_g * tree.scale_h
        if best.bin < 0:
            for w in range(CODE_WORDS):
                frontier.left_codes[x, w] = best.codes[w]

    @inner
    def settle_levels(table, frontier, params, work):
        """Settle the nodes of every level on its best split, those that it leaves whole on none."""
        for x in range(frontier.state[fr.N_NODES]):
            if not can_split(frontier, params, x):
                release(frontier, x)
        found = work.levels.best
        for t in range(frontier.trees.size):
            tree, best = frontier.trees[t], found[0, t]
            if tree.n_open <= 0:
                continue
            for thread in range(1, found.shape[0]):
                if _is_better(found[thread, t], best):
                    best = found[thread, t]
            if take_level(frontier, params, t, best.gain):
                for i in range(tree.n_open):
                    x = frontier.heap[tree.first + i]
                    settle_node(table, frontier, params, work, x, best)

    return find_levels, settle_levels
