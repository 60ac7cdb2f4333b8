"""Update of the raw predictions (contract: ``kernels.statistics.add_leaf_values``)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.target import block_size, blocks_for_rows, cuda, empty, kernel, launch, upload
from ...runtime.dtypes import NodeValues
from ...scalars.primitives import mul
from .totals import neighbours, values_on_device

i64, u32 = np.int64, np.uint32
BLOCK = block_size(256)


@kernel
def add_values(raw, leaf, values, factor, factors):
    """One row a thread; ``blockIdx.y`` is the tree, or the output of the only tree. Where there are
    ``factors``, each tree has one of its own. Entries without a leaf, behind the rows of a tree
    that has fewer than others, have a mark that is, unsigned, no less than the width of ``values``:
    at most ``NO_LEAF`` nodes have leaves of two bytes."""
    tree = i64(cuda.blockIdx.y)
    if factors.shape[0] > 0:
        factor = factors[tree]
    own_leaf = leaf[min(tree, leaf.shape[0] - 1)]
    own_raw, own_values = raw[tree], values[tree]
    n = u32(raw.shape[1])
    i = u32(cuda.grid(1))
    while i < n:
        node = u32(own_leaf[i])
        if node < u32(values.shape[1]):
            own_raw[i] += mul(factor, own_values[node])
        i = u32(i + cuda.gridsize(1))


def add_leaf_values(raw: Array, leaf: Array, values: NodeValues, factor: float) -> None:
    launch_values(raw[None], leaf[None], values_on_device(values)[None], factor)


def add_values_of_trees(
    raw: Array, leaf: Array, values: Sequence[NodeValues], factors: Sequence[float]
) -> None:
    found = neighbours(values)
    if found is not None:
        launch_values(raw, leaf, found, *factors)
        return
    products = np.zeros((len(values), max(own.value.size for own in values)))
    for line, own, factor in zip(products, values, factors, strict=True):
        line[: own.value.size] = factor * own.value
    launch_values(raw, leaf, upload(products)[0], 1.0)


def launch_values(raw: Array, leaf: Array, values: Array, *factors: float) -> None:
    """Launch the kernel for trees whose values are the lines of an array; the factor is one of all
    trees, or there is one for each."""
    blocks = blocks_for_rows(raw.shape[1], BLOCK), raw.shape[0]
    own = empty(0, np.float64)
    if len(set(factors)) > 1:
        (own,) = upload(np.array(factors, np.float64))
    launch(add_values, blocks, BLOCK, raw, leaf, values, float(factors[0]), own)
