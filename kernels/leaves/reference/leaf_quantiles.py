"""Reference twin of ``kernels.leaves.leaf_quantiles``."""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace, device

from ...runtime.reference.arrays import to_host
from ...scalars import quantile as formulas
from ...scalars.primitives import vectorise

lower_share = vectorise(formulas.lower_share)
upper_share = vectorise(formulas.upper_share)


def leaf_quantiles(leaf: Any, values: Any, weight: Any, quantile: float, n_nodes: int) -> Any:
    """Sort the rows by leaf and value; running sums of the weights then ascend throughout."""
    xp = array_namespace(values)
    order = xp.argsort(values)
    order = xp.take(order, xp.argsort(xp.take(leaf, order), stable=True))
    leaf, values = xp.take(leaf, order), xp.take(values, order)
    ones = xp.ones(values.shape[0], dtype=xp.int64, device=device(values))
    ordered = xp.take(weight, order) if weight.shape[0] else ones
    running = xp.cumulative_sum(ordered, include_initial=True)
    nodes = xp.arange(n_nodes, dtype=xp.int32, device=device(values))
    before = xp.take(running, xp.searchsorted(leaf, nodes, side="left"))
    total = xp.take(running, xp.searchsorted(leaf, nodes, side="right")) - before
    used = total > 0
    mean = xp.zeros(n_nodes, dtype=xp.float64, device=device(values))
    for share in (lower_share, upper_share):
        least = share(float(quantile), xp.astype(total, xp.float64))
        place = xp.searchsorted(running[1:], before + xp.astype(least, xp.int64))
        found = xp.take(values, xp.where(used, place, 0))
        mean = mean + xp.where(used, 0.5 * found, 0.0)
    return to_host(mean + 0.0)
