"""Send the rows of nodes to their children, and from their final segments to leaves."""

from __future__ import annotations

import numpy as np

from ..runtime.arrays import Array
from ..runtime.dispatch import implementation
from ..runtime.dtypes import NO_SETS, Codes


def partition(
    codes: Codes,
    records: Array,
    begin: Array,
    end: Array,
    feature: Array,
    bin_: Array,
    missing_left: Array,
    left_codes: Array = NO_SETS,
) -> Array:
    """Reorder each segment in place so that the rows that go left come first.

    Parameters
    ----------
    codes : Codes
    records : uint64, shape (m,)
        Changed in place. The order within the two sides is not specified.
    begin, end : int64, shape (n_nodes,)
        Disjoint segments.
    feature, bin_ : int32, shape (n_nodes,)
        ``code <= bin_`` goes left. Where the bin is -1, ``left_codes`` decides.
    missing_left : uint8, shape (n_nodes,)
        Whether ``code == MISSING`` goes left.
    left_codes : uint32, shape (n_nodes, CODE_WORDS) or (0, CODE_WORDS)
        The codes that go left at splits by categories, with ``MISSING``.

    Returns
    -------
    int64, shape (n_nodes,), NumPy
        The number of rows that went left.
    """
    return implementation(__name__, records).partition(
        codes, records, begin, end, feature, bin_, missing_left, left_codes
    )


def scatter_leaves(
    records: Array,
    begin: np.ndarray,
    end: np.ndarray,
    tree: np.ndarray,
    leaf: np.ndarray,
    shape: tuple[int, int],
) -> Array:
    """Give the rows of each segment its leaf.

    Parameters
    ----------
    records : uint64, shape (m,)
    begin, end : int64, shape (n_segments,), NumPy
        Disjoint segments of ``records``, ascending, which together cover it.
    tree, leaf : int32, shape (n_segments,), NumPy
        The tree that a segment belongs to, and the leaf its rows are in.
    shape : (n_trees, n_rows)

    Returns
    -------
    int32, shape (n_trees, n_rows)
        -1 for the rows that are in no segment of the tree.
    """
    return implementation(__name__, records).scatter_leaves(records, begin, end, tree, leaf, shape)
