"""Reference twin of ``kernels.leaves.newton_steps``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from ...runtime.arrays import Array
from ...runtime.collective import ONE_WORKER, Workers, rows_of_all
from ...runtime.dtypes import NodeValues, Scales, Totals
from ...runtime.reference.arrays import to_host
from ...scalars import rounding
from ...scalars.primitives import vectorise
from ...statistics.quantise import fixed_point_scales
from ..newton_steps import leaf_sums as leaf_sums_of
from ..newton_steps import steps_of_sums

nearest = vectorise(rounding.nearest)


def leaf_sums(leaf: Array, g: Array, h: Array, scales: Scales, n_nodes: int) -> np.ndarray:
    """Sort the rows by leaf; a leaf is then a difference of two running sums."""
    xp = array_namespace(g)
    order = xp.argsort(leaf)
    leaf = xp.take(leaf, order)
    nodes = xp.arange(n_nodes, dtype=xp.int32, device=device(g))
    first = xp.searchsorted(leaf, nodes, side="left")
    last = xp.searchsorted(leaf, nodes, side="right")

    def sums(values: Array, scale: float) -> Any:
        fixed = nearest(xp.astype(xp.take(values, order), xp.float64) * scale)
        running = xp.cumulative_sum(xp.astype(fixed, xp.int64), include_initial=True)
        return xp.take(running, last) - xp.take(running, first)

    return to_host(xp.stack([sums(g, scales.g), sums(h, scales.h)], axis=1))


def newton_steps(
    trees: Any,
    g: Array,
    h: Array,
    totals: Sequence[Totals],
    l2: float,
    min_sum_hessian: float,
    largest: float,
    workers: Workers = ONE_WORKER,
) -> list[NodeValues]:
    """The sums of the leaves, which the operation that dispatches on the arrays adds up."""
    found = []
    for i in range(len(totals)):
        tree = min(i, trees.leaf.shape[0] - 1)
        scales = fixed_point_scales(totals[i], rows_of_all(int(g.shape[1]), workers))
        n_nodes = int(trees.offset[tree + 1] - trees.offset[tree])
        leaf = trees.leaf[tree, ...]
        sums = leaf_sums_of(leaf, g[i, ...], h[i, ...], scales, n_nodes, workers)
        found.append(steps_of_sums(trees, tree, sums, scales, l2, min_sum_hessian, largest))
    return found
