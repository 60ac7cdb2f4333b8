"""The histograms of nodes: the oracle of those that growth adds up."""

from __future__ import annotations

from array_api_compat import array_namespace, device

from ...runtime.arrays import Array
from ...runtime.dtypes import N_SLOTS, Codes
from ...runtime.reference.arrays import unpack


def histogram(codes: Codes, records: Array, begin: Array, end: Array) -> Array:
    """Add up g and h of the rows of every node by feature and code.

    Parameters
    ----------
    codes : Codes
    records : uint64, shape (m,)
    begin, end : int64, shape (n_nodes,)
        Node k owns ``records[begin[k]:end[k]]``; the segments may overlap.

    Returns
    -------
    int32, shape (n_nodes, 2, n_features, 256)
        Plane 0 is g, plane 1 is h; entry ``MISSING`` holds the missing values. Exact integer
        sums, so the order of addition does not matter.
    """
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
    """Sort by code; the sum of a bin is then a difference of two running sums."""
    xp = array_namespace(code)
    order = xp.argsort(code)
    running = xp.cumulative_sum(xp.take(values, order), include_initial=True)
    code = xp.take(code, order)
    slots = xp.arange(N_SLOTS, dtype=xp.uint8, device=device(code))
    first = xp.searchsorted(code, slots, side="left")
    last = xp.searchsorted(code, slots, side="right")
    return xp.astype(xp.take(running, last) - xp.take(running, first), xp.int32)
