"""Partition (contract: ``kernels.growth.partition``).

Records move from one buffer to the other, so nothing is counted beforehand: rows that go left
fill the segment from its front, the others from its back.

    source   r0 r1 r2 r3 r4 r5            L R R L R L
    target   r0 r3 r5 | r4 r2 r1          left ->   <- right

The ends of the two sides are as far apart as there are rows to come, so one counter moves both.
Every record is written to both, without a branch; the next one on that side overwrites it.

A large segment is cut into pieces that several threads take. A piece collects each side in a
small buffer and reserves room for the whole run with one atomic addition.
"""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.compilation import inner, kernel
from ...runtime.cpu.team import CACHE_LINE, atomic_add, run, threads_for
from ...runtime.dtypes import NO_SETS, Codes
from ...scalars.routing import is_left_category

u8, u32, u64, i64 = np.uint8, np.uint32, np.uint64, np.int64

PIECE = 8192
"""Rows that one thread takes at a time from a shared segment."""
RUN = 1024
"""Rows collected before they are written to a shared segment."""


@inner
def cut_of(bin_, missing_left):
    """Return the operands of ``below_cut``. Adding ``missing_left`` to the code in 8 bits turns
    the missing code 255 into 0, so one comparison routes all rows."""
    return u8(missing_left), u8(bin_ + missing_left)


@inner
def below_cut(code, cut):
    return u8(code + cut[0]) <= cut[1]


@inner
def in_set(code, words):
    return is_left_category(words[code >> u8(5)], code)


def _partition_alone(goes_left):
    """Compile the loop for one way to route rows; ``routing`` is a cut or a set."""

    @inner
    def partition_alone(column, source, target, begin, end, routing):
        """Partition a segment by one thread and return the number of rows on the left."""
        left = u64(begin)
        n_after = u64(end - begin)
        for i in range(begin, end):
            record = source[i]
            n_after -= u64(1)
            target[left] = record
            target[left + n_after] = record
            left += u64(1) if goes_left(column[u64(u32(record))], routing) else u64(0)
        return i64(left) - begin

    return partition_alone


def _partition_piece(goes_left):
    @inner
    def partition_piece(column, source, target, rows, segment, routing, filled, at, side):
        """Partition a part of a segment that other threads work on too.

        ``rows`` and ``segment`` are the (begin, end) of the part and the whole; ``filled[at]``
        and ``filled[at + 1]`` count the rows placed so far from its front and from its back;
        ``side`` is this thread's buffer, (2, RUN).
        """
        for start in range(rows[0], rows[1], RUN):
            stop = min(start + RUN, rows[1])
            n_left = u64(0)
            for i in range(start, stop):
                record = source[i]
                side[0, n_left] = record
                side[1, u64(i - start) - n_left] = record
                n_left += u64(1) if goes_left(column[u64(u32(record))], routing) else u64(0)
            n_right = u64(stop - start) - n_left
            front = segment[0] + atomic_add(filled, at, i64(n_left))
            for i in range(n_left):
                target[front + i] = side[0, i]
            back = segment[1] - atomic_add(filled, at + 1, i64(n_right)) - i64(n_right)
            for i in range(n_right):
                target[back + i] = side[1, i]

    return partition_piece


partition_alone = _partition_alone(below_cut)
partition_alone_by_set = _partition_alone(in_set)
partition_piece = _partition_piece(below_cut)
partition_piece_by_set = _partition_piece(in_set)


@kernel
def _worker(
    thread,
    n_threads,
    barrier,
    columns,
    source,
    target,
    begin,
    end,
    feature,
    bin_,
    left,
    left_codes,
    n_left,
    queue,
):
    while True:
        k = atomic_add(queue, 0, 1)
        if k >= begin.size:
            break
        column = columns[feature[k]]
        if bin_[k] >= 0:
            cut = cut_of(i64(bin_[k]), i64(left[k]))
            n_left[k] = partition_alone(column, source, target, begin[k], end[k], cut)
        else:
            codes = left_codes[k]
            n_left[k] = partition_alone_by_set(column, source, target, begin[k], end[k], codes)
        for i in range(begin[k], end[k]):
            source[i] = target[i]


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
    n_left = np.empty(len(begin), np.int64)
    threads = min(threads_for(records.size), max(1, len(begin)))
    routing = (feature, bin_, missing_left, left_codes)
    args = (begin, end, *routing, n_left, np.zeros(CACHE_LINE, np.int64))
    run(_worker, threads, codes.columns, records, np.empty_like(records), *args)
    return n_left


@kernel
def _scatter_worker(thread, n_threads, barrier, records, begin, end, tree, leaf, out):
    for k in range(begin.size):
        for i in range(begin[k], end[k]):
            out[tree[k], records[i] & np.uint64(0xFFFFFFFF)] = leaf[k]


def scatter_leaves(
    records: Array,
    begin: np.ndarray,
    end: np.ndarray,
    tree: np.ndarray,
    leaf: np.ndarray,
    shape: tuple[int, int],
) -> Array:
    out = np.full(shape, -1, np.int32)
    run(_scatter_worker, 1, records, begin, end, tree, leaf, out)
    return out
