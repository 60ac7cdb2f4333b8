"""The best split of every node from its histogram."""

from __future__ import annotations

from ..runtime.arrays import Array
from ..runtime.dispatch import implementation
from ..runtime.dtypes import CategorySplits, NodeBounds, Splits


def split(
    histograms: Array,
    n_bins: Array,
    totals: Array,
    least_h: Array,
    l2: Array,
    allowed: Array,
    counts: Array,
    min_samples_leaf: int,
    bounds: NodeBounds | None = None,
    categories: CategorySplits | None = None,
) -> Splits:
    """Compare all splits ``code <= bin`` of each node and return the best.

    The score of a split is ``newton_score(left) + newton_score(right)`` in float64 on the
    integer sums. The rows with missing values are tried on the right, then, if their g or h
    is not zero, on the left; if both are zero there is nothing to learn, and missing values
    are sent to the child with the larger h (to the right when they tie).
    Ties go to the lowest feature, then the lowest bin, then missing right.

    With ``bounds`` the children take the best values between the bounds of their node, the
    score is ``bounded_score`` of these, and splits whose values break the order that their
    feature demands are excluded.

    With ``categories`` the codes of a feature that is not numeric are arranged for each node:
    those with enough h in ascending order of ``category_key``, ties by code, and the others with
    the missing values. Then they are split as if they were bins in that order. Where the kind is
    ``ALONE``, each code is the whole left side of a candidate instead, in the order of the codes.

    Parameters
    ----------
    histograms : int32, shape (n_nodes, 2, n_features, 256)
    n_bins : int32, shape (n_features,)
        Bins that hold values; candidates are bins 0 … n_bins - 1 (the last one separates the
        values from the missing ones).
    totals : int64, shape (n_nodes, 2)
        g and h of the node.
    least_h : int64, shape (n_nodes,)
        A child needs ``h >= least_h`` (at least 1).
    l2 : float64, shape (n_nodes,)
        Regularisation in quantised units.
    allowed : uint8, shape (n_nodes, n_features)
        Features that the node may use.
    counts : int32, shape (n_nodes, n_features, 256) or (0, 0, 0)
        Exact row counts; where given, a child also needs ``min_samples_leaf`` rows.
    min_samples_leaf : int
    bounds : NodeBounds, optional
    categories : CategorySplits, optional

    Returns
    -------
    Splits
        NumPy arrays on the host.
    """
    return implementation(__name__, histograms).split(
        histograms,
        n_bins,
        totals,
        least_h,
        l2,
        allowed,
        counts,
        min_samples_leaf,
        bounds,
        categories,
    )
