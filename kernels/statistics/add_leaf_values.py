"""Raw predictions, updated by a tree."""

from __future__ import annotations

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
