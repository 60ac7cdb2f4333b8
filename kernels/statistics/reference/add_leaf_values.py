"""Reference twin of ``kernels.statistics.add_leaf_values``."""

from __future__ import annotations

from array_api_compat import array_namespace

from ...runtime.arrays import Array
from ...runtime.dtypes import NodeValues
from ...runtime.reference.arrays import beside


def add_leaf_values(raw: Array, leaf: Array, values: NodeValues, factor: float) -> None:
    """One gather and one sum."""
    raw[...] = raw + array_namespace(raw).take(beside(factor * values.value, raw), leaf)
