"""Partition of the rows of nodes: those of the left child come first.

Records move from one buffer to the other, so nothing is counted beforehand: rows that go left
fill the segment from its front, the others from its back.

    source   r0 r1 r2 r3 r4 r5            L R R L R L
    target   r0 r3 r5 | r4 r2 r1          left ->   <- right

The ends of the two sides are as far apart as there are rows to come, so one counter moves both.
Every record is written to both, without a branch; the next one on that side overwrites it.

A large segment is cut into pieces that several threads take, in two passes: the first notes for
every record whether it goes left, and counts; then each thread places its own pieces, whose places
are known. The order of the rows is kept, so that what reads their codes goes forwards in memory.

1M x 28, 100 trees of 63 leaves, two threads: 0.38 s this way, and 0.95 where pieces reserved room
by atomic additions for runs of 1,024 rows, which shuffled them; 0.60 by one thread (AMD EPYC).
"""

from __future__ import annotations

import numpy as np

from ...runtime.compilation import inner
from ...scalars.routing import is_left_category

u8, u32, u64, i64 = np.uint8, np.uint32, np.uint64, np.int64

FEWEST_ROWS, MOST_ROWS = 8192, 32_768
"""The rows of a piece. The same trees took 0.46 s with pieces of 8,192 rows, 0.49 s with 4,096."""


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
            # To the next place on both sides, which are n_after apart. The counter of one side
            # moves on, and the next record of the other overwrites this one there. The last record
            # is written to one place twice.
            target[left] = record
            target[left + n_after] = record
            left += u64(1) if goes_left(column[u64(u32(record))], routing) else u64(0)
        return i64(left) - begin

    return partition_alone


def _count_left(goes_left):
    @inner
    def count_left(column, source, begin, end, routing, marks):
        """Mark the records of a piece that go left, and return how many there are."""
        n_left = i64(0)
        for i in range(u64(begin), u64(end)):
            mark = goes_left(column[u64(u32(source[i]))], routing)
            # The second pass reads the mark: the code is somewhere in a column, which would be
            # loaded from memory again.
            marks[i] = mark
            n_left += mark
        return n_left

    return count_left


@inner
def place_marked(source, target, begin, end, marks, left, right):
    """Write the records of a piece to their sides, from ``left`` and ``right`` on."""
    to_left, to_right = u64(left), u64(right)
    for i in range(u64(begin), u64(end)):
        mark = u64(marks[i])
        # The address is selected without a branch, which would be guessed wrongly half the time.
        target[to_left if mark else to_right] = source[i]
        to_left += mark
        to_right += u64(1) - mark


partition_alone = _partition_alone(below_cut)
partition_alone_by_set = _partition_alone(in_set)
count_left = _count_left(below_cut)
count_left_by_set = _count_left(in_set)
