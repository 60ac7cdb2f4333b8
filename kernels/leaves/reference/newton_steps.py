"""Reference twin of ``kernels.leaves.newton_steps``."""

from __future__ import annotations

from typing import Any

from ...runtime.dtypes import NodeValues, Totals
from ...statistics.scaling import fixed_point_scales
from ..leaf_sums import leaf_sums
from ..node_sums import steps_of_sums


def newton_steps(
    trees: Any,
    i: int,
    g: Any,
    h: Any,
    totals: Totals,
    l2: float,
    min_sum_hessian: float,
) -> NodeValues:
    """The sums of the leaves, which the operation that dispatches on the arrays adds up."""
    scales = fixed_point_scales(totals, int(g.shape[0]))
    n_nodes = int(trees.offset[i + 1] - trees.offset[i])
    sums = leaf_sums(trees.leaf[i, ...], g, h, scales, n_nodes)
    return steps_of_sums(trees, i, sums, scales, l2, min_sum_hessian)
