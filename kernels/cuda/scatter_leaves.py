"""The leaf of every row (contract: ``kernels.scatter_leaves``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .target import block_size, blocks_for_rows, cuda, empty, kernel, launch, upload

u32 = np.uint32
BLOCK = block_size(256)


@kernel
def scatter(records, begin, tree, leaf, out):
    """One record a thread; its segment is found by bisection among the segments' begins."""
    n = u32(records.shape[0])
    i = u32(cuda.grid(1))
    while i < n:
        low, high = 0, begin.shape[0] - 1
        while low < high:
            middle = (low + high + 1) >> 1
            if begin[middle] <= i:
                low = middle
            else:
                high = middle - 1
        out[tree[low], u32(records[i])] = leaf[low]
        i = u32(i + cuda.gridsize(1))


def scatter_leaves(
    records: Any,
    begin: np.ndarray,
    end: np.ndarray,
    tree: np.ndarray,
    leaf: np.ndarray,
    shape: tuple[int, int],
) -> Any:
    out = empty(shape, np.int32)
    out[...] = -1
    n = records.shape[0]
    filled = end > begin
    segments = upload(begin[filled], tree[filled], leaf[filled])
    launch(scatter, blocks_for_rows(n, BLOCK), BLOCK, records, *segments, out)
    return out
