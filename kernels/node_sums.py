"""From the sums of leaves to those of all nodes, and to Newton steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from .compilation import kernel
from .dtypes import NodeValues, Scales
from .scalars.gain import newton_value
from .scalars.primitives import vectorise

_newton_value = vectorise(newton_value)


@kernel
def add_children(left, right, sums):
    """Fill in the sums of the inner nodes, in place (``sums`` as from ``leaf_sums``)."""
    for node in range(left.size - 1, -1, -1):  # breadth first: children come later
        if left[node] >= 0:
            sums[node, 0] = sums[left[node], 0] + sums[right[node], 0]
            sums[node, 1] = sums[left[node], 1] + sums[right[node], 1]


def steps_of_sums(
    trees: Any, i: int, sums: np.ndarray, scales: Scales, l2: float, min_sum_hessian: float
) -> NodeValues:
    """The Newton steps of tree i from the sums of its leaves, to which those of the inner nodes
    are added."""
    nodes = slice(trees.offset[i], trees.offset[i + 1])
    sums = sums[: nodes.stop - nodes.start]
    add_children(trees.left[nodes], trees.right[nodes], sums)
    g, h = sums[:, 0] / scales.g, sums[:, 1] / scales.h
    return NodeValues(_newton_value(g, np.maximum(h, min_sum_hessian), l2), h)
