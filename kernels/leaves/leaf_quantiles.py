"""Weighted quantiles of one value a row in the leaves of a tree."""

from __future__ import annotations

from typing import Any

from ..runtime.dispatch import implementation


def leaf_quantiles(leaf: Any, values: Any, weight: Any, quantile: float, n_nodes: int) -> Any:
    """The quantile of the values in each leaf, exactly.

    It is the mean of two values of the leaf: the least one up to which the weights sum to
    ``lower_share(quantile, total)`` and the least one up to which they sum to
    ``upper_share(quantile, total)`` (see ``scalars.quantile``).

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

    Returns
    -------
    float64, shape (n_nodes,), NumPy
        0 for a node without rows. Never a negative zero.
    """
    module = implementation(__name__, values)
    return module.leaf_quantiles(leaf, values, weight, quantile, n_nodes)
