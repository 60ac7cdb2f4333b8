"""Partition (contract: ``kernels.growth.partition``).

Records move to a second buffer, so nothing is counted beforehand: the rows of a tile that go left
are written behind those of other tiles from the front of the segment, the others from its back.

    source  r0 r1 r2 | r3 r4 r5          tile 0: L R R      tile 1: L R L
    target  r3 r5 r0 | r4 r2 r1          left ->   <- right
"""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.blocks import cut, inclusive_scan, upload_tiles
from ...runtime.cuda.target import (
    block_size,
    blocks_for,
    blocks_for_rows,
    cuda,
    download,
    empty,
    kernel,
    launch,
    on_device,
    upload,
    upload_records,
    zeros,
)
from ...runtime.dtypes import NO_SETS, Codes
from ...scalars.routing import code_goes_left, is_left_category
from ..frontier import EXPANSION, NODE

u32, i32, i64 = np.uint32, np.int32, np.int64

BLOCK = block_size(256)
OWN = 8
"""Rows of one thread."""
TILE = BLOCK * OWN
HALF = 0xFFFF


@kernel
def move_apart(columns, records, spare, nodes, left_codes, expand, tiles, n_tiles, filled):
    """One tile a block at a time, into the buffer that it is not in.

    A tile belongs to an entry of ``expand``, and so to a node with a split. The threads count what
    goes left (low half of ``counts``) and right (high half), scan the counts, and gather the tile
    in shared memory with the left side first, so that both sides leave in whole runs. Two entries
    of ``filled`` count the rows placed from the segment's front and from its back; a tile
    reserves its room with one addition to each.
    """
    counts = cuda.shared.array(BLOCK, np.int32)
    gathered = cuda.shared.array(TILE, np.uint64)
    reserved = cuda.shared.array(2, np.int64)
    t = cuda.threadIdx.x
    tile = cuda.blockIdx.x
    while tile < n_tiles[0]:
        k = tiles[tile].of
        x = expand[k].node
        node = nodes[x]
        feature = node.feature
        cut = node.bin
        missing_left = node.missing_left != 0
        source = records if tiles[tile].buffer == 0 else spare
        target = spare if tiles[tile].buffer == 0 else records
        first = tiles[tile].begin
        n = i32(tiles[tile].end - first)
        goes_left = 0
        own = 0
        for j in range(OWN):
            i = j * BLOCK + t
            if i < n:
                row = i64(source[first + i]) & i64(0xFFFFFFFF)
                code = columns[feature, row]
                if cut >= 0:
                    is_left = code_goes_left(code, cut, missing_left)
                else:
                    is_left = is_left_category(left_codes[x, code >> 5], code)
                if is_left:
                    goes_left |= 1 << j
                    own += 1
                else:
                    own += 1 << 16
        counts[t] = own
        inclusive_scan(counts, t)
        n_left = counts[BLOCK - 1] & HALF
        if t < 2:
            room = i64((counts[BLOCK - 1] >> 16 * t) & HALF)
            reserved[t] = cuda.atomic.add(filled, 2 * k + t, room)
        to_left = (counts[t] - own) & HALF
        to_right = n_left + ((counts[t] - own) >> 16)
        for j in range(OWN):
            i = j * BLOCK + t
            if i < n:
                if (goes_left >> j) & 1:
                    gathered[to_left] = source[first + i]
                    to_left += 1
                else:
                    gathered[to_right] = source[first + i]
                    to_right += 1
        cuda.syncthreads()
        front = node.begin + reserved[0]
        back = node.end - reserved[1] - (n - n_left)
        for i in range(t, n, BLOCK):
            if i < n_left:
                target[front + i] = gathered[i]
            else:
                target[back + i - n_left] = gathered[i]
        cuda.syncthreads()
        tile += cuda.gridDim.x


def partition(
    codes: Codes,
    records: Array,
    begin: Array,
    end: Array,
    feature: Array,
    bin_: Array,
    missing_left: Array,
    left_codes: Array = NO_SETS,
) -> Array:
    tiles = cut(begin, end, TILE)
    if tiles.size == 0:
        return np.zeros(len(begin), np.int64)
    nodes = np.zeros(len(begin), NODE)
    columns = (begin, end, feature, bin_, missing_left)
    for name, column in zip(
        ("begin", "end", "feature", "bin", "missing_left"), columns, strict=True
    ):
        nodes[name] = column
    expand = np.zeros(nodes.size, EXPANSION)
    expand["node"] = np.arange(nodes.size)
    filled = zeros(2 * nodes.size, np.int64)
    spare = on_device(records).copy()
    tables = (upload_records(nodes), *upload(left_codes), upload_records(expand))
    work = upload_tiles(tiles, np.array([tiles.size]))
    move_tiles(codes, records, spare, *tables, *work, filled)
    records[...] = spare
    return download(filled)[::2].copy()


def move_tiles(
    codes: Codes,
    records: Array,
    spare: Array,
    nodes: Array,
    left_codes: Array,
    expand: Array,
    tiles: Array,
    n_tiles: Array,
    filled: Array,
) -> None:
    """Partition the rows of tiles; the tables may be written on the device."""
    args = (codes.columns, records, spare, nodes, left_codes, expand, tiles, n_tiles, filled)
    launch(move_apart, blocks_for(-(-records.shape[0] // TILE)), BLOCK, *args)


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
    records: Array,
    begin: np.ndarray,
    end: np.ndarray,
    tree: np.ndarray,
    leaf: np.ndarray,
    shape: tuple[int, int],
) -> Array:
    out = empty(shape, np.int32)
    out[...] = -1
    n = records.shape[0]
    filled = end > begin
    segments = upload(begin[filled], tree[filled], leaf[filled])
    launch(scatter, blocks_for_rows(n, BLOCK), BLOCK, records, *segments, out)
    return out


def scatter_tiles(
    records: Array, spare: Array, nodes: Array, of: Array, tiles: Array, n_tiles: Array, out: Array
) -> None:
    """Do the same from the tiles of grown trees, tables on the device; the leaves of other rows
    stay as they are."""
    blocks = blocks_for_rows(records.shape[0], BLOCK)
    launch(scatter_closed, blocks, BLOCK, records, spare, nodes, of, tiles, n_tiles, out)
