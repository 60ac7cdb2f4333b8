"""From the segments of a grown tree to the leaf of every row."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..runtime.dispatch import implementation


def scatter_leaves(
    records: Any,
    begin: np.ndarray,
    end: np.ndarray,
    tree: np.ndarray,
    leaf: np.ndarray,
    shape: tuple[int, int],
) -> Any:
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
