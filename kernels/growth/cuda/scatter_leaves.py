"""The leaf of every row (contract: ``kernels.growth.scatter_leaves``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime.cuda.target import block_size, blocks_for_rows, cuda, empty, kernel, launch, upload

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


@kernel
def forget_leaves(out):
    """Set the leaf of every row to -1."""
    n_rows = out.shape[1]
    i = cuda.grid(1)
    while i < n_rows:
        for tree in range(out.shape[0]):
            out[tree, i] = -1
        i += cuda.gridsize(1)


@kernel
def scatter_closed(records, spare, nodes, of, tiles, n_tiles, out):
    """One tile a block at a time; its rows belong to a node ``of[tile.of]`` that was not opened."""
    tile = cuda.blockIdx.x
    while tile < n_tiles[0]:
        node = nodes[of[tiles[tile].of]]
        source = records if tiles[tile].buffer == 0 else spare
        tree = node.tree
        leaf = node.leaf
        i = tiles[tile].begin + cuda.threadIdx.x
        end = tiles[tile].end
        while i < end:
            out[tree, u32(source[i])] = leaf
            i += BLOCK
        tile += cuda.gridDim.x


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


def scatter_tiles(
    records: Any, spare: Any, nodes: Any, of: Any, tiles: Any, n_tiles: Any, out: Any
) -> None:
    """The same from the tiles of grown trees, tables on the device; rows without a tile get -1."""
    launch(forget_leaves, blocks_for_rows(out.shape[1], BLOCK), BLOCK, out)
    blocks = blocks_for_rows(records.shape[0], BLOCK)
    launch(scatter_closed, blocks, BLOCK, records, spare, nodes, of, tiles, n_tiles, out)
