"""Best split of a level by a feature without categories and constraints: the result of the other
search, found with fewer divisions, as in ``quick_split``.

Gains are added up in float32, eight cuts at a time and with one division each; those that come
close to the best get the sum that counts, in float64 and in the order of the nodes.

    16 roundings of 2**-24     are the relative error of an approximate score of a node
    2 roundings a node         those of the difference from the score of the node, and of the sum

so the error of a sum is below ``MARGIN`` for each node and 16 more, times the scores of all nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.compilation import inner
from ....runtime.cpu.lanes import LANES, running_sums
from ....runtime.dtypes import MISSING
from ....scalars.gain import newton_score
from ... import frontier as fr
from ...limits import l2_of, least_h_of_level
from ..quick_split import LARGEST_L2, LOW, G, H, packed_left

i32, i64, f32, f64 = np.int32, np.int64, np.float32, np.float64

MARGIN = 4.0 * 2.0**-24
MOST_NODES = 256
"""Nodes of a level, at most: their sums are kept."""


@inner
def is_plain(frontier, params, t):
    """Return whether a level is searched so."""
    tree = frontier.trees[t]
    l2 = l2_of(frontier, params, frontier.heap[tree.first])
    return frontier.rules.size == 0 and l2 <= LARGEST_L2 and tree.n_open <= MOST_NODES


@inner
def _add_gains(lefts, n, extra, total, least_h, l2, parent, sums):
    """Add the gains of a node with ``extra`` on the left, 0 where a child is too small."""
    lefts_g, lefts_h = lefts[G], lefts[H]
    extra_g, extra_h = i32(extra >> i64(32)), i32(extra & LOW)
    total_g, total_h = i32(total >> i64(32)), i32(total & LOW)
    least, l2, parent = i32(least_h), f32(l2), f32(parent)
    for b in range(n):
        left_g, left_h = i32(lefts_g[b] + extra_g), i32(lefts_h[b] + extra_h)
        right_g, right_h = i32(total_g - left_g), i32(total_h - left_h)
        gl, gr = f32(left_g), f32(right_g)
        hl, hr = f32(left_h) + l2, f32(right_h) + l2
        # gl² / hl + gr² / hr, with one division.
        gain = (gl * gl * hr + gr * gr * hl) / (hl * hr) - parent
        sums[b] += gain if min(left_h, right_h) >= least else f32(0.0)


@inner
def _copy(source, target, n):
    for b in range(n):
        target[b] = source[b]


@inner
def _largest(sums, n):
    best = f32(-np.inf)
    for b in range(n):
        best = max(best, sums[b])
    return best


@inner
def _exact(frontier, params, t, lefts, missing, b, side):
    """Return the sum of the gains of all nodes for one cut."""
    tree, gains = frontier.trees[t], 0.0
    l2 = l2_of(frontier, params, frontier.heap[tree.first])
    for i in range(tree.n_open):
        x = frontier.heap[tree.first + i]
        total = (frontier.nodes[x].g << i64(32)) + frontier.nodes[x].h
        left = packed_left(lefts[i], b) + (missing[i] if side == 1 else i64(0))
        right = total - left
        if min(left & LOW, right & LOW) >= least_h_of_level(frontier, params, x):
            score = newton_score(float(left >> i64(32)), float(left & LOW), l2) + newton_score(
                float(right >> i64(32)), float(right & LOW), l2
            )
            gains += score - newton_score(float(total >> i64(32)), float(total & LOW), l2)
    return gains


@inner
def _is_left_heavier(frontier, t, lefts, b):
    tree = frontier.trees[t]
    left_h, all_h = i64(0), i64(0)
    for i in range(tree.n_open):
        left_h += i64(lefts[i, H, b])
        all_h += frontier.nodes[frontier.heap[tree.first + i]].h
    return 2 * left_h > all_h


def adding_up_quickly(bins_of: Any, n_bins_of: Any) -> Any:
    """Compile the search (see ``search.searching``)."""

    @inner
    def best_of_plain(thread, table, frontier, params, work, t, f, best, floor):
        """Find the best split of the level of tree t by feature f; its bin is -1 where no gain
        reaches ``floor``."""
        own, tree, n_bins = work.levels, frontier.trees[t], n_bins_of(table, f)
        lefts, missing, sums = own.lefts[thread], own.missing[thread], own.sums[thread]
        n = (n_bins + LANES - 1) // LANES * LANES
        for b in range(n):
            sums[0, b] = f32(0.0)
        scores, n_sides = 0.0, 1
        for i in range(tree.n_open):
            x = frontier.heap[tree.first + i]
            node = frontier.nodes[x]
            total = (node.g << i64(32)) + node.h
            least_h, l2 = least_h_of_level(frontier, params, x), l2_of(frontier, params, x)
            parent = newton_score(float(node.g), float(node.h), l2)
            scores += parent
            bins = bins_of(thread, table, frontier, work, x, f)
            running_sums(bins, n, lefts[i, G], lefts[i, H])
            missing[i] = bins[MISSING]
            if missing[i] != 0 and n_sides == 1:
                n_sides = 2  # up to here both sides gain the same
                _copy(sums[0], sums[1], n)
            _add_gains(lefts[i], n, i64(0), total, least_h, l2, parent, sums[0])
            if n_sides == 2:
                _add_gains(lefts[i], n, missing[i], total, least_h, l2, parent, sums[1])
        best.feature, best.gain, best.bin, best.missing_left = f, fr.NO_GAIN, -1, 0
        top = _largest(sums[0], n_bins)
        if n_sides == 2:
            top = max(top, _largest(sums[1], n_bins))
        margin = MARGIN * (16 + tree.n_open) * (scores + max(float(top), 0.0))
        if float(top) + margin < floor:
            return
        # The approximate gain of the best cut is not below the bound.
        bound = float(top) - 2.0 * margin
        for b in range(n_bins):
            for side in range(n_sides):
                if float(sums[side, b]) >= bound:
                    gain = _exact(frontier, params, t, lefts, missing, b, side)
                    # Of equal gains the lower bin counts, then missing values on the right.
                    if gain > best.gain:
                        best.gain, best.bin, best.missing_left = gain, b, side
        if n_sides == 1 and best.bin >= 0 and _is_left_heavier(frontier, t, lefts, best.bin):
            best.missing_left = 1

    return best_of_plain
