"""Quantiles of the training targets in the leaves that rows reach."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..runtime.dispatch import implementation

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

    offset: Any
    begin: Any
    segment: Any
    entries: Any


def quantile_of_leaves(targets: LeafTargets, leaf: Any, least: Any) -> Any:
    """The least rank up to which the shares, summed over the trees, are large enough.

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
    """The sum of shares that is a quantile's (float64 in [0, 1]), int64.

    Rounded down, where shares are rounded up: a sum that equals the quantile exactly reaches
    it, however either was rounded.
    """
    whole = float(n_trees) * 2.0**SHARE_BITS
    return np.maximum(np.floor(quantiles * whole), 1.0).astype(np.int64)
