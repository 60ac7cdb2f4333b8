"""Reference twin of ``kernels.binning.rank_values``."""

from __future__ import annotations

from array_api_compat import array_namespace, device

from ...runtime.arrays import Array


def rank_values(column: Array) -> tuple[Array, Array]:
    xp = array_namespace(column)
    is_known = column == column
    ordered = xp.sort(column)[: int(xp.count_nonzero(is_known))]  # NaN comes last
    is_first = xp.arange(ordered.shape[0], device=device(column)) == 0
    values = ordered[is_first | (ordered != xp.roll(ordered, 1))]
    ranks = xp.where(is_known, xp.searchsorted(values, column), values.shape[0])
    return xp.astype(ranks, xp.uint32), values
