"""Partition of the rows of nodes, and the leaves of rows.

Records move to a second buffer, so nothing is counted beforehand: the rows of a tile that go left
are written behind those of other tiles from the front of the segment, the others from its back.

    source  r0 r1 r2 | r3 r4 r5          tile 0: L R R      tile 1: L R L
    target  r3 r5 r0 | r4 r2 r1          left ->   <- right
"""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.blocks import inclusive_scan
from ...runtime.cuda.target import block_size, blocks_for, blocks_for_rows, cuda, kernel, launch
from ...runtime.dtypes import Codes
from ...scalars.routing import code_goes_left, is_left_category
from ...statistics.cuda.quantise import FIRST_ROW, one_model

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
        # Find the side of each row: a bit of ``goes_left``, and a count in one half of ``own``. The
        # rows of a thread are BLOCK apart, so that a warp reads neighbouring records.
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
        # Scan both counts at once: neither exceeds TILE, which fits in 16 bits.
        counts[t] = own
        inclusive_scan(counts, t)
        n_left = counts[BLOCK - 1] & HALF
        # Reserve room on either side of the segment; tiles of a node arrive in any order.
        if t < 2:
            room = i64((counts[BLOCK - 1] >> 16 * t) & HALF)
            reserved[t] = cuda.atomic.add(filled, 2 * k + t, room)
        # Gather the tile with its left side first.
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
        cuda.syncthreads()  # the tile is gathered, and its room reserved
        # Write both sides as runs, neighbouring threads to neighbouring places.
        front = node.begin + reserved[0]
        back = node.end - reserved[1] - (n - n_left)
        for i in range(t, n, BLOCK):
            if i < n_left:
                target[front + i] = gathered[i]
            else:
                target[back + i - n_left] = gathered[i]
        cuda.syncthreads()  # all have read what the next tile overwrites
        tile += cuda.gridDim.x


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
    launch(
        move_apart, blocks_for(-(-records.shape[0] // TILE)), BLOCK,
        codes.columns, records, spare, nodes, left_codes, expand, tiles, n_tiles, filled,
    )  # fmt: skip


@kernel
def scatter_closed(records, spare, nodes, of, tiles, n_tiles, own_trees, out):
    """One tile a block at a time; its rows belong to a node ``of[tile.of]`` that was not opened.
    ``own_trees`` are the trees of several models, see ``quantise_models``."""
    tile = cuda.blockIdx.x
    while tile < n_tiles[0]:
        node = nodes[of[tiles[tile].of]]
        source = records if tiles[tile].buffer == 0 else spare
        tree = node.tree
        leaf = node.leaf
        first_row = i64(0)
        if own_trees.shape[0] > 0:
            first_row = own_trees[tree, FIRST_ROW]
        own = out[tree]
        # Rows of a node are anywhere in ``out``: only the records are read in order.
        i = tiles[tile].begin + cuda.threadIdx.x
        end = tiles[tile].end
        while i < end:
            own[u32(u32(source[i]) - u32(first_row))] = leaf
            i += BLOCK
        tile += cuda.gridDim.x


def scatter_tiles(
    records: Array,
    spare: Array,
    nodes: Array,
    of: Array,
    tiles: Array,
    n_tiles: Array,
    out: Array,
    own_trees: Array | None = None,
) -> None:
    """Write the leaves of the rows in the tiles of grown trees; those of other rows stay as they
    are."""
    blocks = blocks_for_rows(records.shape[0], BLOCK)
    own = one_model() if own_trees is None else own_trees
    launch(scatter_closed, blocks, BLOCK, records, spare, nodes, of, tiles, n_tiles, own, out)
