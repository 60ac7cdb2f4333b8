"""Quantiles in leaves: of one value a row in the leaves of a tree, and of the training targets in
the leaves that rows reach."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..runtime.arrays import Array
from ..runtime.collective import ONE_WORKER, Workers
from ..runtime.dispatch import implementation


def leaf_quantiles(
    leaf: Array, values: Array, weight: Array, quantile: float, n_nodes: int,
    workers: Workers = ONE_WORKER,
) -> np.ndarray:  # fmt: skip
    """Return the exact quantile of the values in each leaf.

    It is the mean of two values of the leaf: the least one up to which the weights sum to
    ``lower_share(quantile, total)`` and the least one up to which they sum to
    ``upper_share(quantile, total)`` (see ``scalars.rounding``).

    Parameters
    ----------
    leaf : int32, shape (n,)
        The node of each row; rows with a negative entry take no part.
    values : float64, shape (n,), contiguous
        Finite.
    weight : int64, shape (n,) or (0,)
        At least 1 for a row that takes part; their sum is at most 2**53. Empty: all are 1.
    quantile : float
        In (0, 1).
    n_nodes : int
    workers : Workers

    Returns
    -------
    float64, shape (n_nodes,), NumPy
        Of the rows of all workers; 0 for a node without rows. Never a negative zero.
    """
    op = implementation(__name__, values)
    if workers is ONE_WORKER:
        return op.leaf_quantiles(leaf, values, weight, quantile, n_nodes)
    return op.leaf_quantiles(leaf, values, weight, quantile, n_nodes, workers)


SHARE_BITS = 31
"""A leaf's whole weight is ``2**SHARE_BITS``."""
SHARE_MASK = 2**32 - 1


class LeafTargets(NamedTuple):
    """The targets of the training rows in every leaf; arrays on one device.

    offset : int64, shape (n_trees + 1,)
        Tree t owns nodes ``offset[t]:offset[t + 1]``.
    begin : int64, shape (n_trees + 1,)
        And entries ``begin[t]:begin[t + 1]``.
    segment : int32, shape (n_nodes, 2)
        A node's entries are ``segment[node, 0] ... segment[node, 1] - 1``, counted from the
        first one of its tree. A leaf has at least one.
    entries : int64, shape (n_entries,)
        ``rank << 32 | share``, in ascending order in each leaf. The rank of a target is its
        position among all distinct ones; the share is that of the entries of a leaf so far in
        its weight, in units of ``2**-SHARE_BITS``, rounded up.
    """

    offset: Array
    begin: Array
    segment: Array
    entries: Array


def quantile_of_leaves(targets: LeafTargets, leaf: Array, least: Array) -> Array:
    """Return the least rank up to which the shares, summed over the trees, are large enough.

    Parameters
    ----------
    targets : LeafTargets
    leaf : int32, shape (n_rows, n_trees)
        The leaf that each row reaches, counted from the root of the tree.
    least : int64, shape (n_quantiles,)
        Sums to reach, from 1 to ``n_trees << SHARE_BITS`` (see ``least_shares``).

    Returns
    -------
    int32, shape (n_rows, n_quantiles)
    """
    return implementation(__name__, leaf).quantile_of_leaves(targets, leaf, least)


def least_shares(quantiles: np.ndarray, n_trees: int) -> np.ndarray:
    """Return the sums of shares (int64) that quantiles (float64 in [0, 1]) require.

    Rounded down, where shares are rounded up: a sum that equals the quantile exactly reaches
    it, however either was rounded.
    """
    whole = float(n_trees) * 2.0**SHARE_BITS
    return np.maximum(np.floor(quantiles * whole), 1.0).astype(np.int64)
