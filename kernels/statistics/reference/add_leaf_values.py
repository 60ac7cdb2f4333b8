"""Reference twin of ``kernels.statistics.add_leaf_values``."""

from __future__ import annotations

from collections.abc import Sequence

from array_api_compat import array_namespace

from ...runtime.arrays import Array
from ...runtime.dtypes import NodeValues
from ...runtime.each import each
from ...runtime.reference.arrays import beside
from ..add_leaf_values import add_leaf_values as add_values


def add_leaf_values(raw: Array, leaf: Array, values: NodeValues, factor: float) -> None:
    """One gather and one sum."""
    raw[...] = raw + array_namespace(raw).take(beside(factor * values.value, raw), leaf)


def add_values_of_trees(
    raw: Array, leaf: Array, values: Sequence[NodeValues], factors: Sequence[float]
) -> None:
    """One line after another, by the operation that dispatches on the arrays."""

    def add(i: int) -> None:
        own = leaf[min(i, leaf.shape[0] - 1), ...]
        add_values(raw[i, ...], own, values[i], factors[i])

    each(add, range(len(values)), raw[0, ...])
