"""The limits of a node's splits, in quantised units (see ``quantise``), and the features that they
may use.

The functions take the tables of ``frontier``, the settings and the number of a node or feature.
"""

from __future__ import annotations

import math

import numpy as np

from ..runtime.compilation import inner
from ..runtime.dtypes import NUMERIC
from ..scalars.primitives import mul
from ..scalars.rng import PURPOSE_FEATURES, draw, subkey
from .params import UNLIMITED

LARGEST_H = 2.0**31 - 1.0
"""No node has a larger quantised hessian."""


@inner
def smallest_h(frontier, params, tree):
    """Return ``min_sum_hessian`` of a child in quantised units, at least 1."""
    return max(1, int(math.ceil(params.min_sum_hessian * frontier.trees[tree].scale_h)))


@inner
def least_h(frontier, params, x):
    """Return the quantised hessian below which a child of the node is too small.

    It implies nothing about rows: in a node of nearly certain rows many of them weigh less than one
    that is not. A child with too few rows is found when its rows are counted (``recheck``).
    """
    return smallest_h(frontier, params, frontier.nodes[x].tree)


@inner
def l2_of(frontier, params, x):
    """Return the L2 regularisation in quantised units."""
    return mul(params.l2, frontier.trees[frontier.nodes[x].tree].scale_h)


@inner
def least_h_of_level(frontier, params, x):
    """Return the quantised hessian below which a child of the node is too small where the nodes of
    a level are split alike. It stands for ``min_samples_leaf`` rows of the node's mean hessian,
    less half a row since hessians are rounded: a split that is common to many nodes cannot be
    replaced when rows are counted."""
    rows = mul(float(params.min_samples_leaf) - 0.5, row_h(frontier, x))
    return max(least_h(frontier, params, x), int(math.ceil(min(rows, LARGEST_H))))


@inner
def row_h(frontier, x):
    """Return the mean hessian of the node's rows, by which rows of categories are estimated from
    their hessians."""
    node = frontier.nodes[x]
    return node.h / (node.end - node.begin)


@inner
def scale_h(frontier, x):
    """Return the quantised hessian of a hessian of one."""
    return frontier.trees[frontier.nodes[x].tree].scale_h


@inner
def category_l2(frontier, params, x):
    return mul(params.l2 + params.cat_l2, frontier.trees[frontier.nodes[x].tree].scale_h)


@inner
def can_split(frontier, params, x):
    """Return whether a split of the node is sought."""
    # Both children need rows and hessian, so that a smaller node is not worth a search.
    node = frontier.nodes[x]
    return (
        node.depth < params.max_depth
        and node.end - node.begin >= max(2 * params.min_samples_leaf, params.min_samples_split)
        and node.h >= 2 * smallest_h(frontier, params, node.tree)
    )


@inner
def kind_of(frontier, feature):
    """Return how the feature is split."""
    return frontier.rules[feature].kind if frontier.rules.size > 0 else np.int64(NUMERIC)


@inner
def direction_of(frontier, feature):
    """Return the monotone constraint of a feature."""
    return frontier.rules[feature].monotone if frontier.rules.size > 0 else np.int64(0)


@inner
def allow_features(frontier, params, x, features, scratch, allowed):
    """Mark the features that a node may use: a draw by tree, of those one by level, of those
    that may interact with the features of the node's path one by node. ``features`` (int64) and
    ``scratch`` (uint64) have an entry a feature."""
    n = allowed.size
    all_drawn = params.colsample_bytree * params.colsample_bylevel * params.colsample_bynode == 1.0
    all_interact = frontier.members.size == 0 and params.max_path_features == UNLIMITED
    if all_drawn and all_interact:
        allowed[:] = 1
        return
    # Each draw is among the features that the one before has left, in ascending order: which
    # features a node gets depends on keys alone, not on the order in which nodes are opened.
    for f in range(n):
        features[f] = f
    node = frontier.nodes[x]
    tree_key = frontier.trees[node.tree].key
    n = draw_features(tree_key, params.colsample_bytree, features, n, scratch)
    level_key = subkey(tree_key, PURPOSE_FEATURES, np.uint64(node.depth))
    n = draw_features(level_key, params.colsample_bylevel, features, n, scratch)
    if not all_interact:
        _allow_interactions(frontier, params, x, scratch, allowed)
        n = _keep_allowed(allowed, features, n)
    node_key = subkey(node.key, PURPOSE_FEATURES, np.uint64(0))
    n = draw_features(node_key, params.colsample_bynode, features, n, scratch)
    allowed[:] = 0
    for i in range(n):
        allowed[features[i]] = 1


@inner
def allow_for_level(frontier, params, t, features, scratch, allowed):
    """Mark the features that the next level of tree t may use: those that may interact with the
    paths of all its nodes, of which a draw is made as for a single node."""
    n = allowed.size
    for f in range(n):
        features[f] = f
    tree = frontier.trees[t]
    n = draw_features(tree.key, params.colsample_bytree, features, n, scratch)
    level_key = subkey(tree.key, PURPOSE_FEATURES, np.uint64(tree.n_levels))
    n = draw_features(level_key, params.colsample_bylevel, features, n, scratch)
    if frontier.members.size > 0 or params.max_path_features != UNLIMITED:
        for i in range(tree.n_open):
            _allow_interactions(frontier, params, frontier.heap[tree.first + i], scratch, allowed)
            n = _keep_allowed(allowed, features, n)
    node_key = subkey(level_key, PURPOSE_FEATURES, np.uint64(0))
    n = draw_features(node_key, params.colsample_bynode, features, n, scratch)
    allowed[:] = 0
    for i in range(n):
        allowed[features[i]] = 1


@inner
def _allow_interactions(frontier, params, x, on_path, allowed):
    """Mark the features that may interact with all those of the node's path: the members of
    every group that holds them all, or all features while the path has fewer than it may have."""
    # The features of the path, each counted once.
    on_path[:] = 0
    n_used = 0
    x = frontier.nodes[x].parent
    while x >= 0:
        node = frontier.nodes[x]
        if on_path[node.feature] == 0:
            on_path[node.feature] = 1
            n_used += 1
        x = node.parent
    if frontier.members.size == 0:
        for f in range(allowed.size):
            allowed[f] = 1 if n_used < params.max_path_features else on_path[f]
        return
    allowed[:] = 0
    # Members of a group are adjacent. A group allows its features if it holds the whole path.
    first = 0
    while first < frontier.members.size:
        group = frontier.members[first].group
        end = first
        n_held = np.uint64(0)
        while end < frontier.members.size and frontier.members[end].group == group:
            n_held += on_path[frontier.members[end].feature]
            end += 1
        if n_held == np.uint64(n_used):
            for i in range(first, end):
                allowed[frontier.members[i].feature] = 1
        first = end


@inner
def _keep_allowed(allowed, features, n):
    """Keep the allowed ones of the first n ``features``, in place, and return how many are left."""
    kept = 0
    for i in range(n):
        if allowed[features[i]] == 1:
            features[kept] = features[i]
            kept += 1
    return kept


@inner
def draw_features(key, fraction, features, n, scratch):
    """Keep a random share of the first n ``features``, in place, and return how many are left.

    Every feature gets a hash under the key; the smallest hashes stay, in their order.
    """
    keep = share_of(fraction, n)
    if keep >= n:
        return n
    for i in range(n):
        feature = np.uint64(features[i])
        scratch[i] = (draw(key, feature) << np.uint64(32)) | feature
    # The k-th smallest hash is a threshold: the features keep their order, which quickselect
    # would destroy. The feature in the lower half makes all hashes different.
    last = _smallest(scratch, n, keep)
    kept = 0
    for i in range(n):
        feature = np.uint64(features[i])
        if (draw(key, feature) << np.uint64(32)) | feature <= last:
            features[kept] = features[i]
            kept += 1
    return kept


@inner
def share_of(fraction, n):
    """Return how many of n features a fraction is, at least one."""
    return max(1, min(n, int(math.floor(mul(fraction, float(n)) + 0.5))))


@inner
def _smallest(values, n, k):
    """Return the k-th smallest (from 1) of n distinct values, which are reordered (quickselect)."""
    low, high = 0, n - 1
    while low < high:
        pivot = values[(low + high) >> 1]
        i, j = low, high
        # Partition by the pivot; only the side with the k-th value is searched on.
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            break
    return values[k - 1]
