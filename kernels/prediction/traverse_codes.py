"""Leaves of a freshly grown tree for rows that are binned already."""

from __future__ import annotations

from typing import Any

from ..runtime.dispatch import implementation
from ..runtime.dtypes import NO_SETS, Codes


def traverse_codes(
    codes: Codes,
    feature: Any,
    bin_: Any,
    missing_left: Any,
    left: Any,
    right: Any,
    leaf: Any,
    left_codes: Any = NO_SETS,
) -> None:
    """Fill the negative entries of ``leaf`` with the leaf that each row reaches.

    Parameters
    ----------
    codes : Codes
    feature, bin_, left, right : int32, shape (n_nodes,), NumPy
        One tree; ``feature`` is -1 at a leaf. Node 0 is the root.
    missing_left : uint8, shape (n_nodes,), NumPy
    leaf : int32, shape (n_rows,)
        Entries that are not negative are kept.
    left_codes : uint32, shape (n_nodes, CODE_WORDS) or (0, CODE_WORDS), NumPy
        The codes that go left at splits by categories, whose bin is -1.
    """
    implementation(__name__, leaf).traverse_codes(
        codes, feature, bin_, missing_left, left, right, leaf, left_codes
    )
