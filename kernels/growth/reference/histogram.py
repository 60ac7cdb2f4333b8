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
        at_once = max(1, CELLS // max(1, row.shape[0]))
        for first in range(0, shape[2], at_once):
            some = slice(first, min(first + at_once, shape[2]))
            code = xp.take(codes.columns[some, :], row, axis=1)
            sums[node, :, some, :] = _sums_by_code(code, g, h)
    return sums


CELLS = 2**22
"""Codes that are sorted at once."""


def _sums_by_code(code: Array, g: Array, h: Array) -> Array:
    """Sort each feature's codes; the sum of a bin is then a difference of two running sums, of all
    features one behind the other: (2, n_features, 256).

    The upper half of a word is h and the lower one g, which can borrow from h.
    """
    xp = array_namespace(code)
    n_features, n_rows = code.shape
    order = xp.argsort(code, axis=1)
    words = xp.take((h << 32) + g, xp.reshape(order, (-1,)))
    running = xp.cumulative_sum(words, include_initial=True)
    first = xp.arange(n_features, dtype=xp.int32, device=device(code)) * N_SLOTS
    code = xp.astype(xp.sort(code, axis=1), xp.int32) + first[:, None]
    slots = xp.arange(n_features * N_SLOTS, dtype=xp.int32, device=device(code))
    end = xp.searchsorted(xp.reshape(code, (-1,)), slots, side="right")
    up_to = xp.take(running, end)
    before = xp.concat([running[:1], up_to[:-1]])
    word = up_to - before
    sum_g = ((word & 0xFFFFFFFF) ^ 2**31) - 2**31
    sums = xp.stack([sum_g, (word - sum_g) >> 32])
    return xp.astype(xp.reshape(sums, (2, n_features, N_SLOTS)), xp.int32)
