"""Reference twin of ``kernels.leaves.quantiles``."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from ...runtime.arrays import Array
from ...runtime.reference.arrays import to_host
from ...scalars import rounding
from ...scalars.primitives import vectorise
from ..quantiles import SHARE_MASK, LeafTargets

lower_share = vectorise(rounding.lower_share)
upper_share = vectorise(rounding.upper_share)


def leaf_quantiles(
    leaf: Array, values: Array, weight: Array, quantile: float, n_nodes: int
) -> np.ndarray:
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


def quantile_of_leaves(targets: LeafTargets, leaf: Array, least: Array) -> Array:
    """Bisection over the ranks, of all rows together."""
    xp = array_namespace(leaf)
    node = xp.astype(leaf, xp.int64) + targets.offset[:-1]
    columns = []
    for side in range(2):
        place = xp.take(targets.segment[:, side], xp.reshape(node, (-1,)))
        columns.append(xp.reshape(xp.astype(place, xp.int64), node.shape) + targets.begin[:-1])
    first, last = columns
    results = []
    for j in range(least.shape[0]):
        low = xp.zeros(leaf.shape[0], dtype=xp.int64, device=device(leaf))
        high = xp.zeros_like(low) + xp.max(targets.entries >> 32)
        while bool(xp.any(low < high)):
            middle = (low + high) >> 1
            shares = _shares_up_to(targets.entries, first, last, middle[:, None])
            enough = xp.sum(shares, axis=1) >= least[j]
            high = xp.where(enough, middle, high)
            low = xp.where(enough, low, middle + 1)
        results.append(xp.astype(low, xp.int32))
    return xp.stack(results, axis=1)


def _shares_up_to(entries: Array, first: Array, last: Array, rank: Array) -> Any:
    """Return the summed shares of the ascending entries ``first ... last - 1`` up to a rank."""
    xp = array_namespace(entries)

    def at(place: Any) -> Any:
        return xp.reshape(xp.take(entries, xp.reshape(place, (-1,))), place.shape)

    low, high = first, last  # the first entry beyond the rank is one of low ... high
    while bool(xp.any(low < high)):
        middle = (low + high) >> 1
        inside = low < high
        below = inside & (at(xp.where(inside, middle, first)) >> 32 <= rank)
        low = xp.where(below, middle + 1, low)
        high = xp.where(inside & ~below, middle, high)
    share = at(xp.where(low > first, low - 1, first)) & SHARE_MASK
    return xp.where(low > first, share, 0)
