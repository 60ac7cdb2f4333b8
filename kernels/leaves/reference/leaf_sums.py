"""Reference twin of ``kernels.leaves.leaf_sums``."""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace, device

from ...runtime.dtypes import Scales
from ...runtime.reference.arrays import to_host
from ...scalars import rounding
from ...scalars.primitives import vectorise

nearest = vectorise(rounding.nearest)


def leaf_sums(leaf: Any, g: Any, h: Any, scales: Scales, n_nodes: int) -> Any:
    """Sort the rows by leaf; a leaf is then a difference of two running sums."""
    xp = array_namespace(g)
    order = xp.argsort(leaf)
    leaf = xp.take(leaf, order)
    nodes = xp.arange(n_nodes, dtype=xp.int32, device=device(g))
    first = xp.searchsorted(leaf, nodes, side="left")
    last = xp.searchsorted(leaf, nodes, side="right")

    def sums(values: Any, scale: float) -> Any:
        fixed = nearest(xp.astype(xp.take(values, order), xp.float64) * scale)
        running = xp.cumulative_sum(xp.astype(fixed, xp.int64), include_initial=True)
        return xp.take(running, last) - xp.take(running, first)

    return to_host(xp.stack([sums(g, scales.g), sums(h, scales.h)], axis=1))
