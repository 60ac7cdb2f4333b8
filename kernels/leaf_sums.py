"""Exact sums of the unquantised statistics in the leaves."""

from __future__ import annotations

import math
from typing import Any

from .compilation import kernel
from .dispatch import implementation
from .dtypes import Scales, Totals


def leaf_sums(leaf: Any, g: Any, h: Any, scales: Scales, n_nodes: int) -> Any:
    """Sum g and h over the rows of each leaf in 64-bit fixed point.

    Parameters
    ----------
    leaf : int32, shape (n,)
        The node of each row; rows with a negative entry take no part.
    g, h : float32, shape (n,)
    scales : Scales
        From ``fixed_point_scales``; each row adds ``int64(nearest(value * scale))``.
    n_nodes : int

    Returns
    -------
    int64, shape (n_nodes, 2), NumPy
        Independent of the order of addition.
    """
    return implementation("leaf_sums", g).leaf_sums(leaf, g, h, scales, n_nodes)


@kernel
def add_children(left, right, sums):
    """Fill in the sums of the inner nodes, in place (``sums`` as from ``leaf_sums``)."""
    for node in range(left.size - 1, -1, -1):  # breadth first: children come later
        if left[node] >= 0:
            sums[node, 0] = sums[left[node], 0] + sums[right[node], 0]
            sums[node, 1] = sums[left[node], 1] + sums[right[node], 1]


def fixed_point_scales(totals: Totals, n: int) -> Scales:
    """Powers of two under which one value stays below 2**50 and n of them below 2**62."""

    def scale(largest: float) -> float:
        if largest == 0.0:
            return 1.0
        bits = 62 - max(12, math.ceil(math.log2(max(n, 1))))
        return 2.0 ** max(-1000, min(1000, bits - 1 - math.floor(math.log2(largest))))

    return Scales(scale(totals.max_g), scale(totals.max_h))
