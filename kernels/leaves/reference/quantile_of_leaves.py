"""Reference twin of ``kernels.leaves.quantile_of_leaves``."""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace, device

from ..quantile_of_leaves import SHARE_MASK


def quantile_of_leaves(targets: Any, leaf: Any, least: Any) -> Any:
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


def _shares_up_to(entries: Any, first: Any, last: Any, rank: Any) -> Any:
    """Of the entries ``first ... last - 1`` with at most some rank; these are ascending."""
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
