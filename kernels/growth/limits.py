"""What a split of a node must keep to, in quantised units (see ``quantise``).

The functions take the tables of ``frontier``, the settings and the number of a node or feature.
"""

from __future__ import annotations

import math

import numpy as np

from ..runtime.compilation import inner
from ..runtime.dtypes import NUMERIC
from ..scalars.primitives import mul


@inner
def smallest_h(frontier, params, tree):
    """``min_sum_hessian`` of a child in quantised units, at least 1."""
    return max(1, int(math.ceil(params.min_sum_hessian * frontier.trees[tree].scale_h)))


@inner
def least_h(frontier, params, x):
    """Quantised hessian below which a child of the node is too small.

    It says nothing about rows: in a node of nearly certain rows many weigh less than one that
    is not. A child with too few rows is found out when its rows are counted (``recheck``).
    """
    return smallest_h(frontier, params, frontier.nodes[x].tree)


@inner
def l2_of(frontier, params, x):
    """The L2 regularisation in quantised units."""
    return mul(params.l2, frontier.trees[frontier.nodes[x].tree].scale_h)


@inner
def category_least_h(frontier, params, x):
    """Quantised hessian below which a category goes with the missing values; its number of rows
    is estimated from its share of the hessian."""
    node = frontier.nodes[x]
    share = node.h / (node.end - node.begin)
    return max(1, int(math.ceil((params.cat_smooth - 0.5) * share)))


@inner
def category_smoothing(frontier, params, x):
    return mul(params.cat_smooth, frontier.trees[frontier.nodes[x].tree].scale_h)


@inner
def category_l2(frontier, params, x):
    return mul(params.l2 + params.cat_l2, frontier.trees[frontier.nodes[x].tree].scale_h)


@inner
def can_split(frontier, params, x):
    """Whether the node is worth looking at."""
    node = frontier.nodes[x]
    return (
        node.depth < params.max_depth
        and node.end - node.begin >= 2 * params.min_samples_leaf
        and node.h >= 2 * smallest_h(frontier, params, node.tree)
    )


@inner
def kind_of(frontier, feature):
    """How the feature is split."""
    return frontier.rules[feature].kind if frontier.rules.size > 0 else np.int64(NUMERIC)


@inner
def direction_of(frontier, feature):
    """The monotone constraint of a feature."""
    return frontier.rules[feature].monotone if frontier.rules.size > 0 else np.int64(0)
