"""Reference implementation of ``kernels.growth.histogram``."""

from __future__ import annotations

from array_api_compat import array_namespace, device

from ...runtime.arrays import Array
from ...runtime.dtypes import N_SLOTS, Codes
from ...runtime.reference.arrays import unpack


def histogram(codes: Codes, records: Array, begin: Array, end: Array) -> Array:
    """Sort each column of a node by code; a bin is then a difference of two running sums."""
    xp = array_namespace(records)
    shape = (len(begin), 2, codes.columns.shape[0], N_SLOTS)
    sums = xp.zeros(shape, dtype=xp.int32, device=device(records))
    for node in range(shape[0]):
        g, h, row = unpack(records[int(begin[node]) : int(end[node])])
        for feature in range(shape[2]):
            code = xp.take(codes.columns[feature, :], row)
            sums[node, 0, feature, :] = _sum_by_code(code, g)
            sums[node, 1, feature, :] = _sum_by_code(code, h)
    return sums


def _sum_by_code(code: Array, values: Array) -> Array:
    xp = array_namespace(code)
    order = xp.argsort(code)
    running = xp.cumulative_sum(xp.take(values, order), include_initial=True)
    code = xp.take(code, order)
    slots = xp.arange(N_SLOTS, dtype=xp.uint8, device=device(code))
    first = xp.searchsorted(code, slots, side="left")
    last = xp.searchsorted(code, slots, side="right")
    return xp.astype(xp.take(running, last) - xp.take(running, first), xp.int32)
