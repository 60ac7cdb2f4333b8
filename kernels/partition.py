"""Send the rows of nodes to their children."""

from __future__ import annotations

from typing import Any

from .dispatch import implementation
from .dtypes import Codes


def partition(
    codes: Codes, records: Any, begin: Any, end: Any, feature: Any, bin_: Any, missing_left: Any
) -> Any:
    """Reorder each segment in place so that the rows that go left come first.

    Parameters
    ----------
    codes : Codes
    records : uint64, shape (m,)
        Changed in place. The order within the two sides is not specified.
    begin, end : int64, shape (n_nodes,)
        Disjoint segments.
    feature, bin_ : int32, shape (n_nodes,)
        ``code <= bin_`` goes left.
    missing_left : uint8, shape (n_nodes,)
        Whether ``code == MISSING`` goes left.

    Returns
    -------
    int64, shape (n_nodes,), NumPy
        The number of rows that went left.
    """
    return implementation("partition", records).partition(
        codes, records, begin, end, feature, bin_, missing_left
    )
