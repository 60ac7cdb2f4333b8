"""Histograms of nodes, added up from the tiles of their rows.

A block sums ``LANES`` features in shared memory, laid out as ``[plane][bin][lane]``. A thread adds
to the column of its lane in the warp only, and the lane decides the bank, so the additions of a
warp never meet, however few values a feature has. A warp takes as many rows at a time as its
features leave room for::

    28 features   lane 0 … 27: row 0                                    28 … 31: idle
     5 features   lane 0 … 4: row 0    5 … 9: row 1  …  25 … 29: row 5  30 … 31: idle

The two planes fill 64 KB, which a block gets on every architecture. They are apart because a bank
holds 4 bytes: g and h side by side would use every other bank for each. Blocks beside each other
have the same rows, and other features.

There is one layout for all tables. By the instructions and accesses of the compiled kernels
(nothing was measured on hardware) no other one of the same records and codes saves more than 9 % of
a tree on an H100, the most where 20 features leave 12 lanes idle, and none saves anything on a T4,
which waits for its memory although a block takes a multiprocessor's shared memory alone.

The result, ``out``, is int32 of shape (n, 2, n_features, 256), with g and h in planes of their own.
It is allocated by ``grow`` (``histograms``), ``streamed`` (``sums``) and ``by_phases``
(``_histograms``). ``search`` reads that of ``grow``, and ``control`` clears it; ``streamed`` and
``by_phases`` download theirs for the host (``pack_planes`` in ``cpu/histogram``), and read the
numbers of rows from the first plane. Change all of these together.
"""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.target import (
    block_size,
    blocks_at_once,
    blocks_for,
    cuda,
    device_function,
    is_simulated,
    kernel,
    launch,
)
from ...runtime.dtypes import N_SLOTS, Codes

i32, i64, u32, u64 = np.int32, np.int64, np.uint32, np.uint64

LANES = 32
PLANE = N_SLOTS * LANES
N_ENTRIES = 2 * PLANE
SHARED = 4 * N_ENTRIES
"""Bytes of shared memory of a block."""
BLOCK, BLOCK_ALONE = block_size(512), block_size(1024)
"""Threads of a block, and of one that has a multiprocessor's shared memory for itself."""
OWN = 4
"""Neighbouring records of a thread. Those that follow are loaded while it adds these."""
HELD = 8
"""Entries that a thread holds at the same time where it goes through all of them."""
LEAST_TILE = 64 if is_simulated() else 4096
"""Rows of a tile: emptying the shared sums into global memory costs as much as ≈ 1000 rows."""
COUNTED = u32(1 << 16)
"""The statistics of a row that counts: g is 1, h is 0."""


@device_function
def add_row(sums, entry, statistics):
    """Add the statistics of a row, the high word of its record."""
    cuda.atomic.add(sums, entry, i32(statistics) >> i32(16))
    cuda.atomic.add(sums, u32(entry + u32(PLANE)), i32(statistics & u32(0xFFFF)))


@device_function
def clear(sums, t):
    """Set the sums to zero."""
    n_threads = u32(cuda.blockDim.x)
    entry = t
    while entry < u32(N_ENTRIES):
        for _ in range(HELD):
            sums[entry] = 0
            entry = u32(entry + n_threads)
    cuda.syncthreads()  # all sums are zero


@device_function
def turned(bin_, lane):
    """Return the entry of a lane's bin after ``turn_bins``."""
    return u32(u32(bin_ << u32(5)) | (u32(lane + bin_) & u32(LANES - 1)))


@device_function
def turn_bins(sums, t):
    """Turn the lanes of every bin by the bin's number, after which the neighbouring bins of a lane
    are in different banks."""
    held = cuda.local.array(HELD, np.int32)
    n_threads = u32(cuda.blockDim.x)
    first = t
    while first < u32(N_ENTRIES):
        entry = first
        # A turn moves entries within their bin, and a pass takes whole bins: all of them are read
        # before any is written.
        for k in range(HELD):
            held[k] = sums[entry]
            entry = u32(entry + n_threads)
        cuda.syncthreads()  # all have read
        entry = first
        for k in range(HELD):
            sums[turned(entry >> u32(5), entry)] = held[k]
            entry = u32(entry + n_threads)
        first = entry
    cuda.syncthreads()  # every bin is turned


@device_function
def empty_sums(sums, out, of, first, width, t):
    """Add what the lanes of each feature have summed to a histogram of ``out``."""
    turn_bins(sums, t)
    # Neighbouring threads have neighbouring bins of a feature, so that what they add to global
    # memory lies together.
    n_own = u32(width * u32(N_SLOTS))
    n_lanes = u32(u32(LANES) // width * width)
    k = t
    while k < u32(n_own + n_own):
        plane = u32(1) if k >= n_own else u32(0)
        bin_ = k & u32(N_SLOTS - 1)
        feature = u32(u32(k >> u32(8)) - plane * width)
        total = i32(0)
        lane = feature
        # A warp takes several rows where there are few features: their lanes are ``width`` apart.
        while lane < n_lanes:
            total += sums[u32(turned(bin_, lane) + plane * u32(PLANE))]
            lane = u32(lane + width)
        # Tiles of one node meet in its histogram. Most bins of a small one are empty.
        if total != 0:
            cuda.atomic.add(out, (of, i64(plane), first + i64(feature), i64(bin_)), total)
        k = u32(k + u32(cuda.blockDim.x))
    cuda.syncthreads()  # all have read what the next tile clears


@kernel
def add_tiles(codes, stride, records, spare, tiles, n_tiles, n_features, out):
    """One tile a block at a time; ``blockIdx.x`` is the group of ``LANES`` features.

    ``codes`` is ``Codes.rows`` as one run of bytes, ``records`` and ``spare`` are the two buffers.
    The sums of a tile are added to its entry of ``out``, the result, at its end. A thread takes
    ``OWN`` neighbouring records at a time. Records that do not fill ``OWN`` are taken one at a
    time, and so are all records of a tile that counts rows, into the first plane, for a recheck.
    """
    sums = cuda.shared.array(0, np.int32)
    loaded = cuda.local.array(OWN, np.uint64)
    ahead = cuda.local.array(OWN, np.uint64)
    entries = cuda.local.array(OWN, np.uint32)
    # Who adds what: a lane has a feature, of which a warp takes ``n_rows`` rows at a time, and
    # a unit, the lanes with the same row, takes OWN neighbouring records.
    t = u32(cuda.threadIdx.x)
    lane = t & u32(LANES - 1)
    first = cuda.blockIdx.x * LANES
    width = u32(min(LANES, n_features - first))
    n_rows = u32(u32(LANES) // width)
    of_warp = u32(lane // width)
    # The column of the lane begins at its first row: what is left of an address is one product.
    column = codes[first + i64(lane - of_warp * width) :]
    pitch = u64(u32(stride))
    unit = u32(u32(t >> u32(5)) * n_rows + of_warp)
    n_units = u32(u32(cuda.blockDim.x) // u32(LANES) * n_rows)
    step = u32(n_units * u32(OWN))
    tile = cuda.blockIdx.y
    while tile < n_tiles[0]:
        # Clear the sums of the tile before.
        clear(sums, t)
        source = records if tiles[tile].buffer == 0 else spare
        counts = tiles[tile].counts != 0
        end = u32(tiles[tile].end)
        i = u32(tiles[tile].begin)
        # Rows are added up in groups of OWN, those of the rest, or all that are counted, singly.
        whole = i if counts else u32(end - (end - i) % u32(OWN))
        rest = u32(whole + unit)
        i = u32(i + unit * u32(OWN))
        # Lanes without a feature have no rows, but meet the others at the barriers.
        if of_warp >= n_rows:
            i, rest = end, end
        # Load the first records, and their codes, which wait for the records.
        if i < whole:
            for k in range(OWN):
                loaded[k] = source[u64(i) + u64(k)]
            for k in range(OWN):
                entries[k] = column[u64(u32(loaded[k])) * pitch]
        while i < whole:
            # Add up a group while the records of the next one, then their codes, are on their way.
            # At the end the same records are loaded again, which spares a branch around the loads.
            j = u32(i + step) if u32(i + step) < whole else i
            for k in range(OWN):
                ahead[k] = source[u64(j) + u64(k)]
            for k in range(OWN):
                add_row(sums, u32(entries[k] << u32(5)) | lane, u32(loaded[k] >> u64(32)))
            for k in range(OWN):
                entries[k] = column[u64(u32(ahead[k])) * pitch]
                loaded[k] = ahead[k]
            i = u32(i + step)
        # The rest of the tile, a row at a time.
        while rest < end:
            record = source[rest]
            code = column[u64(u32(record)) * pitch]
            of_row = COUNTED if counts else u32(record >> u64(32))
            add_row(sums, u32(u32(code) << u32(5)) | lane, of_row)
            rest = u32(rest + n_units)
        cuda.syncthreads()  # all rows are added
        # Empty the sums into the histogram of the node.
        empty_sums(sums, out, tiles[tile].of, first, width, t)
        tile += cuda.gridDim.y


def most_blocks() -> int:
    """Return how many blocks share the rows of a launch: as many as run at the same time."""
    return blocks_for(2**31, blocks_at_once(SHARED))


def fair_share() -> float:
    """Return the share of the rows that one of these blocks takes."""
    return 1.0 / most_blocks()


def add_histograms(
    codes: Codes, records: Array, spare: Array, tiles: Array, n_tiles: Array, out: Array
) -> None:
    """Add the rows of tiles to the entries of ``out``, int32 of shape (n, 2, n_features, 256).

    ``tiles`` (TILE) and ``n_tiles`` (int64, one entry) may be written on the device.
    """
    n_features = codes.columns.shape[0]
    stride = codes.rows.shape[1]
    blocks = -(-n_features // LANES), most_blocks()
    threads = BLOCK if blocks_at_once(SHARED) > 1 else BLOCK_ALONE
    launch(
        add_tiles, blocks, threads,
        codes.rows.reshape(-1), stride, records, spare, tiles, n_tiles, n_features, out,
        shared=SHARED,
    )  # fmt: skip
