"""Growth of a batch of classification or regression trees (Breiman et al. 1984)."""

from __future__ import annotations

import numpy as np

from ..runtime.arrays import Array
from ..runtime.compilation import kernel
from ..runtime.dispatch import implementation
from .problem import CartParams, CartTable, CartTarget, GrownCart


def grow_cart(
    table: CartTable,
    target: CartTarget,
    records: Array,
    tree_begin: np.ndarray,
    tree_end: np.ndarray,
    keys: np.ndarray,
    params: CartParams,
) -> GrownCart:
    """Grow trees, each on its own sample of the rows.

    **Which nodes are split.** A node stays a leaf at ``max_depth``, with fewer than
    ``min_samples_split`` or ``2 * min_samples_leaf`` rows, with a weight below
    ``2 * min_weight_fraction`` of the tree's, if it is pure (one class holds the whole weight,
    or all values are equal, in every output), and if no candidate is left. A child needs
    ``min_samples_leaf`` rows and a weight of ``min_weight_fraction`` of the tree's. A gain of
    zero does not prevent a split.

    **Keys.** The root's is the tree's; children have ``draw(key, 1)`` and ``draw(key, 2)``.

    **Which features.** Feature ``order[j]`` is tried for j = 0, 1, ... until
    ``max_features`` features have been tried and one of them has a candidate (which may be
    struck out): it has two bins with rows of the node, or one and missing values. ``order``
    starts as 0, 1, 2, ...; with ``shuffle``, step j first swaps entries j and
    ``j + (draw(subkey(key, PURPOSE_FEATURES, 0), j) * (n_features - j) >> 32)``.

    **Candidates of a numeric feature**, in this order: after each bin that holds rows of
    the node, in ascending order; the rows with missing values on the right, then (if there
    are any) on the left. The last bin is a candidate only for missing values on the right.
    Without missing values in the node they go to the child with more rows (left only if it has
    more). The threshold is half-way between ``upper`` of the last bin on the left and ``lower``
    of the first on the right that hold rows of the node (``midpoint``), +inf after the last bin.

    **Candidates of a categorical feature.** The categories that hold rows of the node are put in
    order by ``statistics[s] / weight`` (weights of classes, or sums; ties: lower category
    first), for s in ascending order over the statistics of all classes (of the second class
    alone where there is one output with two) or over the sums of all outputs; each order is cut
    as a numeric feature is. Categories without rows in the node, and missing values where the node
    has none, go to the child with more rows (left only if it has more); this holds for random
    splits too.

    **Random splits.** One cut a feature, from ``bits = draw(subkey(key, PURPOSE_THRESHOLD,
    feature), 0)``. Numeric: ``cut = random_cut(low, high, bits)`` between ``lower`` of the lowest
    and ``upper`` of the highest bin that holds rows of the node; a bin goes left if
    ``lower / 2 + upper / 2 <= cut``, the lowest always, the highest never. The threshold is the
    cut if it lies in the gap ``upper <= cut < lower`` between the two sides, else the midpoint of
    the gap. Categories: category c goes left if the lowest bit of
    ``draw(subkey(key, PURPOSE_THRESHOLD, feature), c + 1)`` is set; if that leaves one side
    without categories, the lowest category of the node changes sides. Rows with missing values,
    if there are any, go left if the lowest bit of ``bits`` is set. A feature with one bin in the
    node has no candidate, unless some rows are missing: then the bin goes left (threshold +inf),
    missing values right.

    **The best candidate** has the largest ``score(left) + score(right)`` in float64 (see
    ``problem`` for scores); the first of those that tie, in the order in which the features are
    tried. Its gain is ``score(left) + score(right) - score(node)``. Candidates that break
    ``min_samples_leaf``, the least weight, POISSON's condition or a monotone constraint are
    struck out. Constraint +1 on the split's feature: ``value(left) <= value(right)``, and both
    values within the node's bounds; splits of free features are not bounded, their children's
    values are clipped in the end (``leaves.inner_nodes.bound_values``). The root's bounds are
    infinite; children have their parent's, and below a split of a constrained feature the mean
    ``value(left) / 2 + value(right) / 2`` as upper bound on the lower side and as lower bound on
    the other. A split is made if ``gain >= min_gain * weight of the tree`` or
    ``min_gain`` is zero.

    Parameters
    ----------
    table : CartTable
    target : CartTarget
    records : uint64, shape (m,)
        The records of all trees, one segment after the other; reordered.
    tree_begin, tree_end : int64, shape (n_trees,), NumPy
        Each tree's segment, with at least one record: no node is without rows.
    keys : uint64, shape (n_trees,), NumPy
        Random keys below 2**32.
    params : CartParams

    Returns
    -------
    GrownCart
        The same whatever the implementation and the number of threads.
    """
    return implementation(__name__, records).grow_cart(
        table, target, records, tree_begin, tree_end, keys, params
    )


@kernel
def add_children_impurity(offset, left, right, gain, impurity):
    """Fill in the weighted impurities of the inner nodes, in place: those of the children plus
    the gain of the split (in the same units)."""
    for tree in range(offset.size - 1):
        root = offset[tree]
        for node in range(offset[tree + 1] - 1, root - 1, -1):  # children come later
            if left[node] >= 0:
                below = impurity[root + left[node]] + impurity[root + right[node]]
                impurity[node] = below + gain[node]
