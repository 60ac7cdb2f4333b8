"""What the nodes of a grown tree add: one Newton step each."""

from __future__ import annotations

from typing import Any

from ..runtime.dispatch import implementation
from ..runtime.dtypes import NodeValues, Totals


def newton_steps(
    trees: Any,
    i: int,
    g: Any,
    h: Any,
    totals: Totals,
    l2: float,
    min_sum_hessian: float,
) -> NodeValues:
    """The value of each node that minimises the loss's second-order model, -g/(h + l2).

    The hessian of a node counts at least ``min_sum_hessian``: its integer estimate passed that
    test, and a leaf of almost certain rows must not take an endless step.

    Parameters
    ----------
    trees : GrownTrees
        The values are those of tree ``i``; ``trees.leaf[i]`` tells the rows of its sample.
    g, h : float32, shape (n_rows,)
    totals : Totals
        Of these.
    l2, min_sum_hessian : float

    Returns
    -------
    NodeValues
        From sums in 64-bit fixed point (see ``leaf_sums``). On CUDA the values of the leaves stay
        on the device too, for ``add_leaf_values``, and come to the host when somebody asks.
    """
    op = implementation(__name__, g)
    return op.newton_steps(trees, i, g, h, totals, l2, min_sum_hessian)
