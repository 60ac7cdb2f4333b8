"""Partition (contract: ``kernels.partition``).

Records move to a second buffer and back, so nothing is counted beforehand: the rows of a
tile that go left are written behind those of other tiles from the front of the segment, the
others from its back.

    records  r0 r1 r2 | r3 r4 r5          tile 0: L R R      tile 1: L R L
    scratch  r3 r5 r0 | r4 r2 r1          left ->   <- right
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import NO_SETS, RECORD, Codes
from ..scalars.routing import code_goes_left, is_left_category
from .blocks import inclusive_scan
from .target import (
    block_size,
    blocks_for,
    cuda,
    download,
    empty,
    kernel,
    launch,
    upload,
    zeros,
)
from .tiles import cut

i32, i64, u32 = np.int32, np.int64, np.uint32

BLOCK = block_size(256)
OWN = 8
"""Rows of one thread."""
TILE = BLOCK * OWN
HALF = 0xFFFF


@kernel
def move_apart(
    columns,
    records,
    node,
    begin,
    end,
    segment_begin,
    segment_end,
    feature,
    bin_,
    missing_left,
    left_codes,
    scratch,
    filled,
):
    """One tile a block at a time.

    The threads count what goes left (low half of ``counts``) and right (high half), scan the
    counts, and gather the tile in shared memory with the left side first, so that both sides
    leave in whole runs. ``filled`` (n_nodes, 2) counts the rows placed from the segment's
    front and from its back; a tile reserves its room with one addition to each.
    """
    counts = cuda.shared.array(BLOCK, np.int32)
    gathered = cuda.shared.array(TILE, np.uint64)
    reserved = cuda.shared.array(2, np.int64)
    t = cuda.threadIdx.x
    tile = cuda.blockIdx.x
    while tile < node.shape[0]:
        k = node[tile]
        first = begin[tile]
        n = i32(end[tile] - first)
        goes_left = 0
        own = 0
        for j in range(OWN):
            i = j * BLOCK + t
            if i < n:
                row = i64(records[first + i]) & i64(0xFFFFFFFF)
                code = columns[feature[k], row]
                if bin_[k] >= 0:
                    is_left = code_goes_left(code, bin_[k], missing_left[k] != 0)
                else:
                    is_left = is_left_category(left_codes[k, code >> 5], code)
                if is_left:
                    goes_left |= 1 << j
                    own += 1
                else:
                    own += 1 << 16
        counts[t] = own
        inclusive_scan(counts, t)
        n_left = counts[BLOCK - 1] & HALF
        if t < 2:
            reserved[t] = cuda.atomic.add(filled, (k, t), i64((counts[BLOCK - 1] >> 16 * t) & HALF))
        to_left = (counts[t] - own) & HALF
        to_right = n_left + ((counts[t] - own) >> 16)
        for j in range(OWN):
            i = j * BLOCK + t
            if i < n:
                if (goes_left >> j) & 1:
                    gathered[to_left] = records[first + i]
                    to_left += 1
                else:
                    gathered[to_right] = records[first + i]
                    to_right += 1
        cuda.syncthreads()
        front = segment_begin[k] + reserved[0]
        back = segment_end[k] - reserved[1] - (n - n_left)
        for i in range(t, n, BLOCK):
            if i < n_left:
                scratch[front + i] = gathered[i]
            else:
                scratch[back + i - n_left] = gathered[i]
        cuda.syncthreads()
        tile += cuda.gridDim.x


@kernel
def copy_back(scratch, begin, end, records):
    """One tile a block at a time."""
    tile = cuda.blockIdx.x
    while tile < begin.shape[0]:
        i = begin[tile] + cuda.threadIdx.x
        while i < end[tile]:
            records[i] = scratch[i]
            i += BLOCK
        tile += cuda.gridDim.x


def partition(
    codes: Codes,
    records: Any,
    begin: Any,
    end: Any,
    feature: Any,
    bin_: Any,
    missing_left: Any,
    left_codes: Any = NO_SETS,
) -> Any:
    tiles = cut(begin, end, TILE)
    if tiles.node.size == 0:
        return np.zeros(len(begin), np.int64)
    filled = zeros((len(begin), 2), np.int64)
    scratch = empty(records.shape[0], RECORD)
    small = upload(*tiles, begin, end, feature, bin_, missing_left, left_codes)
    blocks = blocks_for(tiles.node.size)
    launch(move_apart, blocks, BLOCK, codes.columns, records, *small, scratch, filled)
    launch(copy_back, blocks, BLOCK, scratch, small[1], small[2], records)
    return download(filled)[:, 0].copy()
