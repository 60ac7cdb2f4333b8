"""From the sums of leaves to those of all nodes, and to Newton steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..runtime.compilation import inner, kernel
from ..runtime.dtypes import NodeValues, Scales
from ..scalars.gain import newton_value


@inner
def _add_children(left, right, sums):
    for node in range(left.size - 1, -1, -1):  # breadth first: children come later
        if left[node] >= 0:
            sums[node, 0] = sums[left[node], 0] + sums[right[node], 0]
            sums[node, 1] = sums[left[node], 1] + sums[right[node], 1]


@kernel
def add_children(left, right, sums):
    """Fill in the sums of the inner nodes, in place (``sums`` as from ``leaf_sums``)."""
    _add_children(left, right, sums)


@kernel
def _take_steps(left, right, sums, scale_g, scale_h, l2, min_sum_hessian, value, hessian):
    _add_children(left, right, sums)
    for node in range(left.size):
        hessian[node] = sums[node, 1] / scale_h
        h = max(hessian[node], min_sum_hessian)
        value[node] = newton_value(sums[node, 0] / scale_g, h, l2)


def steps_of_sums(
    trees: Any, i: int, sums: np.ndarray, scales: Scales, l2: float, min_sum_hessian: float
) -> NodeValues:
    """The Newton steps of tree i from the sums of its leaves, to which those of the inner nodes
    are added."""
    nodes = slice(trees.offset[i], trees.offset[i + 1])
    left, right = trees.left[nodes], trees.right[nodes]
    values = NodeValues(np.empty(left.size), np.empty(left.size))
    how = (scales.g, scales.h, float(l2), float(min_sum_hessian))
    _take_steps(left, right, sums[: left.size], *how, *values)
    return values
