"""Update of the raw predictions (contract: ``kernels.statistics.add_leaf_values``)."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.target import block_size, blocks_for_rows, cuda, kernel, launch
from ...runtime.dtypes import NodeValues
from ...scalars.primitives import mul
from .totals import values_on_device

u32 = np.uint32
BLOCK = block_size(256)


@kernel
def add_values(raw, leaf, values, factor):
    """One row a thread."""
    n = u32(raw.shape[0])
    i = u32(cuda.grid(1))
    while i < n:
        raw[i] += mul(factor, values[u32(leaf[i])])
        i = u32(i + cuda.gridsize(1))


def add_leaf_values(raw: Array, leaf: Array, values: NodeValues, factor: float) -> None:
    args = (raw, leaf, values_on_device(values), float(factor))
    launch(add_values, blocks_for_rows(raw.shape[0], BLOCK), BLOCK, *args)
