"""From the totals of real statistics to the scales that turn them into integers."""

from __future__ import annotations

from ..runtime.dtypes import Scales, Totals
from ..scalars.scales import fixed_point_bits, fixed_point_scale, quantising_scale


def scales_for(totals: Totals, n: int) -> Scales:
    """Of ``quantise``: the ``quantising_scale`` of the g and of the h of n rows."""
    if not isinstance(totals, Totals):  # they are on a GPU, and so are the scales
        return totals.scales_for(n)
    scale = quantising_scale.py_func
    return Scales(scale(totals.max_g, totals.sum_g, n), scale(totals.max_h, totals.sum_h, n))


def fixed_point_scales(totals: Totals, n: int) -> Scales:
    """Of ``leaf_sums``: powers of two under which one value stays below 2**50 and n of them below
    2**62."""
    if not isinstance(totals, Totals):
        return totals.fixed_point_scales(n)
    scale, n_bits = fixed_point_scale.py_func, fixed_point_bits(n)
    return Scales(scale(totals.max_g, n_bits), scale(totals.max_h, n_bits))
