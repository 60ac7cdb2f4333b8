"""Histogram (contract: ``kernels.growth.histogram``)."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.blocks import cut, upload_tiles
from ...runtime.cuda.target import (
    block_size,
    blocks_for,
    cuda,
    is_simulated,
    kernel,
    launch,
    zeros,
)
from ...runtime.dtypes import N_SLOTS, Codes

i32, i64, u32 = np.int32, np.int64, np.uint32

BLOCK = block_size(512)
BLOCKS_PER_MULTIPROCESSOR = 4
WORD = 4
"""Features whose codes share one 32-bit word."""
MAX_WORDS = 4
"""Words of one feature group: 16 features take 32 KB of shared memory."""
LEAST_TILE = 64 if is_simulated() else 4096
"""Rows of a tile: emptying the shared sums into global memory costs as much as ≈ 1000 rows."""


@functools.cache
def histogram_kernel(n_words: int) -> Any:
    """Return the kernel for feature groups of ``n_words`` words."""
    n_group = n_words * WORD
    plane = n_group * N_SLOTS
    n_entries = 2 * plane

    @kernel
    def add_tiles(words, records, spare, tiles, n_tiles, n_features, out):
        """One tile a block at a time; ``blockIdx.y`` is the feature group.

        ``words`` is ``Codes.rows`` as uint32; ``records`` and ``spare`` are the two buffers.
        The sums of a tile are kept in shared memory as ``[plane][feature of the group][bin]``
        and added to its entry of ``out``, the result, at its end. A tile that counts puts the
        numbers of rows into the first plane.
        The planes are apart because a bank holds 4 bytes: g and h side by side would use
        every other bank for each. All words of a row are loaded before the first addition,
        which the compiler would not let them overtake.
        """
        sums = cuda.shared.array(n_entries, np.int32)
        loaded = cuda.local.array(n_words, np.uint32)
        t = cuda.threadIdx.x
        first_word = cuda.blockIdx.y * n_words
        last_word = words.shape[1] - 1
        first = first_word * WORD
        n_own = min(n_group, n_features - first)
        tile = cuda.blockIdx.x
        while tile < n_tiles[0]:
            for entry in range(t, n_entries, BLOCK):
                sums[u32(entry)] = 0
            cuda.syncthreads()
            source = records if tiles[tile].buffer == 0 else spare
            one = i32(tiles[tile].counts)  # as a constant it would change the kind of additions
            i = tiles[tile].begin + t
            end = tiles[tile].end
            while i < end:
                record = i64(source[i])
                row = record & i64(0xFFFFFFFF)
                g = one if one != 0 else i32(record >> i64(48))
                h = i32(0) if one != 0 else i32((record >> i64(32)) & i64(0xFFFF))
                for w in range(n_words):
                    loaded[w] = words[row, min(first_word + w, last_word)]
                for k in range(n_group):
                    if k < n_own:
                        code = u32(loaded[k // WORD] >> u32(8 * (k % WORD))) & u32(255)
                        entry = u32(u32(k * N_SLOTS) + code)
                        cuda.atomic.add(sums, entry, g)
                        cuda.atomic.add(sums, u32(entry + u32(plane)), h)
                i += BLOCK
            cuda.syncthreads()
            for entry in range(t, n_entries, BLOCK):
                total = sums[u32(entry)]
                if total != 0:
                    of_plane = entry // plane
                    rest = entry - of_plane * plane
                    feature = first + rest // N_SLOTS
                    at = (tiles[tile].of, of_plane, feature, rest % N_SLOTS)
                    cuda.atomic.add(out, at, total)
            cuda.syncthreads()
            tile += cuda.gridDim.x

    return add_tiles


def histogram(codes: Codes, records: Array, begin: Array, end: Array) -> Array:
    n_features = codes.columns.shape[0]
    out = zeros((len(begin), 2, n_features, N_SLOTS), np.int32)
    work = int((end - begin).sum())
    if work == 0:
        return out
    tiles = cut(begin, end, max(LEAST_TILE, -(-work // most_blocks())))
    tables = upload_tiles(tiles, np.array([tiles.size]))
    add_histograms(codes, records, records, *tables, out)
    return out


def most_blocks() -> int:
    """Return how many blocks share the rows of a launch."""
    return blocks_for(2**31, BLOCKS_PER_MULTIPROCESSOR)


def add_histograms(
    codes: Codes, records: Array, spare: Array, tiles: Array, n_tiles: Array, out: Array
) -> None:
    """Add the rows of tiles to the entries of ``out``, int32 of shape (n, 2, n_features, 256).

    ``tiles`` (TILE) and ``n_tiles`` (int64, one entry) may be written on the device.
    """
    n_features = codes.columns.shape[0]
    total_words = -(-n_features // WORD)
    n_groups = -(-total_words // MAX_WORDS)
    n_words = -(-total_words // n_groups)
    args = (codes.rows.view(np.uint32), records, spare, tiles, n_tiles, n_features, out)
    launch(histogram_kernel(n_words), (most_blocks(), n_groups), BLOCK, *args)
