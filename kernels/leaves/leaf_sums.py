"""Exact sums of the unquantised statistics in the leaves."""

from __future__ import annotations

from typing import Any

from ..runtime.dispatch import implementation
from ..runtime.dtypes import Scales


def leaf_sums(leaf: Any, g: Any, h: Any, scales: Scales, n_nodes: int) -> Any:
    """Sum g and h over the rows of each leaf in 64-bit fixed point.

    Parameters
    ----------
    leaf : int32, shape (n,)
        The node of each row; rows with a negative entry take no part.
    g, h : float32, shape (n,)
    scales : Scales
        From ``scaling.fixed_point_scales``; each row adds ``int64(nearest(value * scale))``.
    n_nodes : int

    Returns
    -------
    int64, shape (n_nodes, 2), NumPy
        Independent of the order of addition.
    """
    return implementation(__name__, g).leaf_sums(leaf, g, h, scales, n_nodes)
