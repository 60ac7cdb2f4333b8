"""Sums of the integer statistics per node, feature and bin."""

from __future__ import annotations

from ..runtime.arrays import Array
from ..runtime.dispatch import implementation
from ..runtime.dtypes import Codes


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
    return implementation(__name__, records).histogram(codes, records, begin, end)
