"""Raw predictions, updated by a tree."""

from __future__ import annotations

from collections.abc import Sequence

from ..runtime.arrays import Array
from ..runtime.dispatch import implementation
from ..runtime.dtypes import NodeValues


def add_leaf_values(raw: Array, leaf: Array, values: NodeValues, factor: float) -> None:
    """Add ``factor * values.value[leaf[i]]`` to ``raw[i]`` in place; the product is rounded first.

    Parameters
    ----------
    raw : float64, shape (n,), contiguous
    leaf : int32 or on CUDA uint16, shape (n,)
        All entries in [0, n_nodes).
    values : NodeValues
    factor : float
    """
    implementation(__name__, raw).add_leaf_values(raw, leaf, values, factor)


def add_values_of_trees(
    raw: Array, leaf: Array, values: Sequence[NodeValues], factors: Sequence[float]
) -> None:
    """Add the values of several trees, or of several outputs of one tree, each with its own raw
    predictions; on CUDA they share a launch.

    Parameters
    ----------
    raw : float64, shape (n_lines, n), contiguous
        At most ``MOST_OUTPUTS`` lines.
    leaf : int32 or on CUDA uint16, shape (n_lines, n) or (1, n), contiguous
    values : sequence of NodeValues
    factors : sequence of float
    """
    implementation(__name__, raw).add_values_of_trees(raw, leaf, values, factors)
