"""Values of leaves: exact sums of the statistics, and a Newton step from the sums of each node."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..runtime.arrays import Array
from ..runtime.collective import ONE_WORKER, Workers, sum_of_each
from ..runtime.compilation import callable_from_python, inner, kernel
from ..runtime.dispatch import composed, implementation
from ..runtime.dtypes import NodeValues, Scales, Totals
from ..scalars.gain import limited_value


def leaf_sums(
    leaf: Array, g: Array, h: Array, scales: Scales, n_nodes: int, workers: Workers = ONE_WORKER
) -> np.ndarray:
    """Sum g and h over the rows of each leaf in 64-bit fixed point.

    Parameters
    ----------
    leaf : int32 or on CUDA uint16, shape (n,)
        The node of each row; rows with another entry (-1, ``NO_LEAF``) take no part.
    g, h : float32, shape (n,)
    scales : Scales
        From ``quantise.fixed_point_scales``; each row adds ``int64(nearest(value * scale))``.
    n_nodes : int
    workers : Workers

    Returns
    -------
    int64, shape (n_nodes, 2), NumPy
        Over the rows of all workers, independent of the order of addition.
    """
    own = implementation(__name__, g).leaf_sums(leaf, g, h, scales, n_nodes)
    return sum_of_each(own, workers)


def newton_steps(
    trees: Any,
    g: Array,
    h: Array,
    totals: Sequence[Totals],
    l2: float,
    min_sum_hessian: float,
    largest: float = math.inf,
    workers: Workers = ONE_WORKER,
) -> Sequence[NodeValues]:
    """Return the value of each node that minimises the loss's second-order model, -g/(h + l2), for
    all trees of a batch, or for every output of one tree; on CUDA they share a launch.

    The hessian of a node counts at least ``min_sum_hessian``: its integer estimate passed that
    test, and a leaf of almost certain rows must not take an unbounded step.

    Parameters
    ----------
    trees : GrownTrees
        ``trees.leaf`` holds the nodes of their rows.
    g, h : float32, shape (n_lines, n_rows), contiguous
        A line for each tree, or several lines for the only one; at most ``MOST_OUTPUTS``.
    totals : sequence of Totals
        Of these, by line.
    l2, min_sum_hessian : float
    largest : float
        > 0; values beyond it, on either side of zero, are cut to it.
    workers : Workers

    Returns
    -------
    sequence of NodeValues
        By line, from sums in 64-bit fixed point (see ``leaf_sums``). On CUDA the values of the
        leaves stay on the device too, for ``add_values_of_trees``, and are copied to the host when
        they are read.
    """
    if workers is ONE_WORKER:
        op = implementation(__name__, g)
        return op.newton_steps(trees, g, h, totals, l2, min_sum_hessian, largest)
    op = composed(__name__)
    return op.newton_steps(trees, g, h, totals, l2, min_sum_hessian, largest, workers)


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


@inner
def take_steps(left, right, sums, how, value, hessian):
    """Fill in the sums of the inner nodes, and the values and hessians of all. ``how`` is (scale of
    g, scale of h, l2, min_sum_hessian, largest)."""
    scale_g, scale_h, l2, min_sum_hessian, largest = how
    _add_children(left, right, sums)
    for node in range(left.size):
        hessian[node] = sums[node, 1] / scale_h
        h = max(hessian[node], min_sum_hessian)
        value[node] = limited_value(sums[node, 0] / scale_g, h, l2, largest)


_take_steps = callable_from_python(take_steps)


def steps_of_sums(
    trees: Any,
    i: int,
    sums: np.ndarray,
    scales: Scales,
    l2: float,
    min_sum_hessian: float,
    largest: float,
) -> NodeValues:
    """Return the Newton steps of tree i from the sums of its leaves; the sums of the inner nodes
    are filled in."""
    nodes = slice(trees.offset[i], trees.offset[i + 1])
    left, right = trees.left[nodes], trees.right[nodes]
    values = NodeValues(np.empty(left.size), np.empty(left.size))
    how = (scales.g, scales.h, float(l2), float(min_sum_hessian), float(largest))
    _take_steps(left, right, sums[: left.size], how, *values)
    return values
