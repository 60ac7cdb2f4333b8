"""The kernels of growth by passes over chunks of a table that is larger than the memory of a GPU:
those of ``kernels.growth.cpu.passes`` that touch rows.

Records stay where they are, in the order of the rows, and a row has a number in place of a position
among the records of its node. A chunk takes four launches::

    route_rows     rows of opened nodes get the numbers of children, and are counted by the line
                   of sums that they are added to
    plan_lines     one block: where the rows of each line come in a buffer, and tiles of these
    gather_rows    puts them there, with the numbers of their rows in the chunk
    add_tiles      the histogram of ``kernels.growth.cuda.histogram``, whose blocks add up rows of
                   one line at a time
"""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.loops import rolled
from ...runtime.cuda.target import block_size, blocks_for, blocks_for_rows, cuda, kernel, launch
from ...scalars.routing import code_goes_left, is_left_category
from ..streamed_codes import MOST_LINES
from .block import BLOCK as ONE_BLOCK
from .block import before, share_of
from .plan import count_tiles, fair_size, write_tiles

u32, i32, u64, i64 = np.uint32, np.int32, np.uint64, np.int64

BLOCK = block_size(256)
OWN = 8
"""Records that a thread of ``gather_rows`` takes at a time."""
ROW, STATISTICS = u64(0xFFFFFFFF), u64(0xFFFFFFFF00000000)


@kernel
def find_chunks(records, size, begin):
    """Find the first record of each chunk of ``size`` rows, a chunk a thread; records are in the
    order of their rows."""
    k = i64(cuda.grid(1))
    while k < begin.shape[0]:
        first = u64(k * size)
        low, high = i64(0), i64(records.shape[0])
        while low < high:
            middle = (low + high) >> 1
            if records[middle] & ROW < first:
                low = middle + 1
            else:
                high = middle
        begin[k] = low
        k += i64(cuda.gridsize(1))


def find(records: Array, size: int, begin: Array) -> None:
    """Launch ``find_chunks``."""
    launch(find_chunks, blocks_for_rows(begin.shape[0], BLOCK), BLOCK, records, size, begin)


@kernel
def route_rows(
    codes, stride, first_row, records, begin, end, is_first, expansion_of, line_of, routes, sets,
    leaf, n_left, n_rows,
):  # fmt: skip
    """One record a thread, of those from ``begin`` to ``end``; ``codes`` are the rows from
    ``first_row`` on. The first pass gives all rows number 0."""
    to_left = cuda.shared.array(MOST_LINES, np.int32)
    to_lines = cuda.shared.array(MOST_LINES, np.int32)
    t = i64(cuda.threadIdx.x)
    for k in range(t, n_left.shape[0], BLOCK):
        to_left[k] = 0
    for line in range(t, n_rows.shape[0], BLOCK):
        to_lines[line] = 0
    cuda.syncthreads()  # all counts are zero
    # Route the rows; counts are added up in shared memory, once for each block in global.
    i = begin + i64(cuda.grid(1))
    while i < end:
        row = u32(records[i])
        number = i64(0)
        if is_first != 0:
            leaf[row] = 0
        else:
            number = i64(leaf[row])
        k = expansion_of[number]
        if k >= 0:
            route = routes[k]
            code = codes[u64(i64(row) - first_row) * u64(stride) + u64(route.feature)]
            if route.bin >= 0:
                is_left = code_goes_left(code, route.bin, route.missing_left != 0)
            else:
                is_left = is_left_category(sets[k, code >> 5], code)
            number = route.number
            if is_left:
                cuda.atomic.add(to_left, k, i32(1))
            else:
                number += 1
            leaf[row] = number
        line = line_of[number]
        if line >= 0:
            cuda.atomic.add(to_lines, line, i32(1))
        i += i64(cuda.gridsize(1))
    cuda.syncthreads()  # all rows of the block are counted
    for k in range(t, n_left.shape[0], BLOCK):
        if to_left[k] > 0:
            cuda.atomic.add(n_left, k, i64(to_left[k]))
    for line in range(t, n_rows.shape[0], BLOCK):
        if to_lines[line] > 0:
            cuda.atomic.add(n_rows, line, to_lines[line])


Part = tuple[Array, int, int, int]
"""Records of which those of a chunk are taken: all, the first and the one behind the last of these,
and the number of the chunk's first row."""


def route(
    codes: Array,
    part: Part,
    is_first: bool,
    tables: tuple[Array, ...],
    leaf: Array,
    n_left: Array,
    n_rows: Array,
) -> None:
    """Launch ``route_rows``; ``tables`` are expansions and lines by number, routes and sets."""
    records, begin, end, first_row = part
    launch(
        route_rows, blocks_for_rows(end - begin, BLOCK), BLOCK,
        codes.reshape(-1), codes.shape[1], first_row, records, begin, end, int(is_first),
        *tables, leaf, n_left, n_rows,
    )  # fmt: skip


@kernel
def plan_lines(n_rows, segments, of, counts, filled, first_tile, tiles, n_tiles, least, share):
    """Place the rows of each line behind those of the line before, and cut them into tiles; the
    numbers of rows become 0 again.

    ``segments`` (NODE) get the begin and the end of each line, ``filled`` its begin. Entry k of
    ``of`` is the line whose rows are added to histogram k, or -1. Where ``counts`` is 1, histograms
    of odd numbers are of numbers of rows.
    """
    if cuda.blockIdx.x > 0:
        return
    t = i64(cuda.threadIdx.x)
    sums = cuda.shared.array(ONE_BLOCK, np.int64)
    begin, end = share_of(i64(n_rows.shape[0]), t)
    own = i64(0)
    for line in rolled(range(begin, end)):
        own += i64(n_rows[line])
    at, _ = before(sums, own, t)
    for line in rolled(range(begin, end)):
        segments[line].begin = at
        # The buffer that rows are gathered in is the first one.
        segments[line].depth = 0
        filled[line] = at
        at += i64(n_rows[line])
        segments[line].end = at
        n_rows[line] = 0
    cuda.syncthreads()  # the segments are complete
    n = i64(of.shape[0])
    size = fair_size(segments, of, n, least, share, sums, t)
    total = count_tiles(segments, of, n, size, first_tile, sums, t)
    write_tiles(segments, of, n, first_tile, total, size, tiles, t)
    cuda.syncthreads()  # other threads have written the tiles
    for tile in rolled(range(t, total, ONE_BLOCK)):
        tiles[tile].counts = tiles[tile].of & counts
    if t == 0:
        n_tiles[0] = total


def plan(n_rows: Array, tables: tuple[Array, ...], counts: bool, least: int, share: float) -> None:
    """Launch ``plan_lines``; ``tables`` are ``segments`` and ``of``, then ``filled`` to
    ``n_tiles``."""
    segments, of, *others = tables
    launch(
        plan_lines, blocks_for(1), ONE_BLOCK,
        n_rows, segments, of, int(counts), *others, least, share,
    )  # fmt: skip


@kernel
def gather_rows(records, begin, end, first_row, line_of, leaf, filled, out):
    """Put the records that are added up into the segments of their lines; a block takes
    ``BLOCK * OWN`` of them at a time, and reserves their room with one addition for each line."""
    counts = cuda.shared.array(MOST_LINES, np.int32)
    reserved = cuda.shared.array(MOST_LINES, np.int64)
    lines = cuda.local.array(OWN, np.int32)
    places = cuda.local.array(OWN, np.int32)
    t = i64(cuda.threadIdx.x)
    n_lines = i64(filled.shape[0])
    first = begin + i64(cuda.blockIdx.x) * (BLOCK * OWN)
    while first < end:
        for line in range(t, n_lines, BLOCK):
            counts[line] = 0
        cuda.syncthreads()  # all counts are zero
        # Count the rows of each line; what the counter was before is the place of the row.
        for j in range(OWN):
            i = first + j * BLOCK + t
            line = i32(-1)
            if i < end:
                line = line_of[leaf[u32(records[i])]]
            lines[j] = line
            places[j] = 0
            if line >= 0:
                places[j] = cuda.atomic.add(counts, line, i32(1))
        cuda.syncthreads()  # the rows of each line are counted
        for line in range(t, n_lines, BLOCK):
            # Reserve the room of the block, of each line at once.
            if counts[line] > 0:
                reserved[line] = cuda.atomic.add(filled, line, i64(counts[line]))
        cuda.syncthreads()  # their room is reserved
        for j in range(OWN):
            i = first + j * BLOCK + t
            if lines[j] >= 0:
                record = records[i]
                row = u64(i64(record & ROW) - first_row)
                out[reserved[lines[j]] + places[j]] = (record & STATISTICS) | row
        cuda.syncthreads()  # all have read what the next turn clears
        first += i64(cuda.gridDim.x) * (BLOCK * OWN)


def gather(part: Part, line_of: Array, leaf: Array, filled: Array, out: Array) -> None:
    """Launch ``gather_rows``."""
    _, begin, end, _ = part
    blocks = blocks_for(-(-(end - begin) // (BLOCK * OWN)))
    launch(gather_rows, blocks, BLOCK, *part, line_of, leaf, filled, out)


@kernel
def name_leaves(leaf, leaf_of):
    """Replace the number of every row by its leaf; ``leaf_of`` has that of each number. A row
    outside of the sample has no number that it knows."""
    n = u32(leaf.shape[0])
    i = u32(cuda.grid(1))
    while i < n:
        number = u32(leaf[i])
        if number < u32(leaf_of.shape[0]):
            leaf[i] = leaf_of[number]
        i = u32(i + u32(cuda.gridsize(1)))


def name(leaf: Array, leaf_of: Array) -> None:
    """Launch ``name_leaves``."""
    launch(name_leaves, blocks_for_rows(leaf.shape[0], BLOCK), BLOCK, leaf, leaf_of)
