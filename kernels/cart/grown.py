"""The nodes of growing trees, and how many there are."""

from __future__ import annotations

import numpy as np

from .problem import CartParams

_I, _F = np.int64, np.float64
NODE = np.dtype(
    [
        ("tree", _I),
        ("depth", _I),
        ("begin", _I),  # its records are begin … end - 1
        ("end", _I),
        ("key", np.uint64),
        ("low", _F),  # bounds of its value
        ("high", _F),
        ("feature", _I),  # its best split; -1: none
        ("last_left", _I),
        ("threshold", _F),
        ("missing_left", _I),  # -1: no values are missing here
        ("value_left", _F),
        ("value_right", _F),
        ("gain", _F),
        ("child", _I),  # the left one, the right one follows; -1: a leaf
    ],
    align=True,  # else compiled code reads fields byte by byte
)


LIKELY_NODES = 0.3
"""Share of the most nodes that trees can have for which a GPU has room at first."""


def most_nodes(sizes: np.ndarray, params: CartParams) -> int:
    """Return the most nodes that trees on samples of these sizes can have."""
    leaves = np.maximum(1, sizes // params.min_samples_leaf)
    leaves = np.minimum(leaves, params.max_leaves)
    if params.max_depth < 31:
        leaves = np.minimum(leaves, 2**params.max_depth)
    return int((2 * leaves - 1).sum())
