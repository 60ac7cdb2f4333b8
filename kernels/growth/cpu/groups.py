"""The rows of a table that is larger than memory, in passes on the CPU: they stay where they are,
but groups of neighbouring rows have an order, in which those of a node lie together.

    order of a group     0 2 5 7 | 1 3 4 6     two nodes, at places 0 and 1
    the second opens     0 2 5 7 | 3 6 | 1 4   its left child keeps place 1, the right one gets 2

So a pass touches the rows of the nodes that are opened, and no others, and adds up the rows of one
histogram after those of another, while the codes of a group stay in the second-level cache. A tree
of 63 leaves on 4M x 28 takes 50 ns a row of one thread. With numbers of nodes by row, which a pass
has to look at, and neighbouring rows in different histograms, it took 86.

If the pass finds that a child has too few rows, its place becomes part of the parent's again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...runtime.arrays import LINE_BYTES
from ...runtime.compilation import inner, kernel_without_allocation
from ...runtime.cpu.lanes import byte_of
from ...runtime.cpu.team import atomic_add, prefetch
from .. import frontier as fr
from .histogram import STRIDE, WORD_ENTRIES, add_eight, add_fewer, unpack_record
from .partition import below_cut, cut_of, in_set
from .passes import QUEUE

u16, u32, u64, i64 = np.uint16, np.uint32, np.uint64, np.int64

BLOCK = 1 << 10
"""Rows that are added up word by word before the next ones."""
AHEAD = 32
"""Rows whose codes are loaded in advance."""
WORTHWHILE = 8
"""All codes of a group are loaded first if a pass routes one of so many rows."""
N_PENDING, N_MERGED, N_FREE = range(3)


class Source(NamedTuple):
    """The statistics of a tree: the records of a sample, or words of all rows.

    records : uint64, ascending by row, or empty
    words : uint32, shape (n_rows,), or empty
        The integers of g and h, of 16 bits each.
    """

    records: np.ndarray
    words: np.ndarray

    @property
    def n(self) -> int:
        """How many rows the tree has."""
        return self.records.size or self.words.size


class Groups(NamedTuple):
    """Groups of rows, their orders, and the places of nodes in these.

    row, begin : int64, shape (groups + 1,)
        The first row of each, and its first row of the sample among these.
    order : uint16, flat
        The rows of the sample of a group, counted from the group's first one, begin at its first
        row times ``stride``.
    stride : int
    first, size : uint16, shape (groups, places)
        The part of a group's order that is a place.
    place_of : int64
        By node.
    pending : int64, shape (expansions, 3)
        Nodes that the last pass opened, and the places of their left and right rows.
    merged : int64, shape (expansions, 2)
        Places of which the next pass makes the second one part of the first.
    free : int64
        Places that no node has.
    counts : int64
        Entries of these three.
    rest : uint16, shape (threads, GROUP_ROWS)
        Rows that go right.
    at : uint64, addends : int64, shape (threads, BLOCK)
        Where the codes of rows are, and what these add.
    """

    row: np.ndarray
    begin: np.ndarray
    order: np.ndarray
    stride: int
    first: np.ndarray
    size: np.ndarray
    place_of: np.ndarray
    pending: np.ndarray
    merged: np.ndarray
    free: np.ndarray
    counts: np.ndarray
    rest: np.ndarray
    at: np.ndarray
    addends: np.ndarray


@kernel_without_allocation
def place_nodes(thread, n_threads, barrier, frontier, groups, is_first):
    """Give the children of the nodes that the last pass opened its places, and the nodes that the
    next one opens places for their right rows."""
    counts = groups.counts
    if is_first:
        n = groups.free.size
        for i in range(n):
            groups.free[i] = n - 1 - i
        counts[N_PENDING] = counts[N_MERGED] = 0
        counts[N_FREE] = n - 1
        groups.place_of[0] = 0
        return
    # Of the nodes that the last pass opened, parents hand their places to their children. The
    # others, with too few rows on a side, stay closed: the next pass joins their places again.
    counts[N_MERGED] = 0
    for i in range(counts[N_PENDING]):
        x, left, right = groups.pending[i, 0], groups.pending[i, 1], groups.pending[i, 2]
        child = frontier.nodes[x].child
        if child >= 0:
            groups.place_of[child], groups.place_of[child + 1] = left, right
            continue
        groups.merged[counts[N_MERGED], 0] = left
        groups.merged[counts[N_MERGED], 1] = right
        counts[N_MERGED] += 1
    # Free at once, although they are not empty yet: a pass joins before it parts.
    for i in range(counts[N_MERGED]):
        groups.free[counts[N_FREE]] = groups.merged[i, 1]
        counts[N_FREE] += 1
    # The left child of a node to open keeps its place, the right one gets a new place.
    counts[N_PENDING] = frontier.state[fr.N_EXPAND]
    for k in range(counts[N_PENDING]):
        x = frontier.expand[k].node
        counts[N_FREE] -= 1
        groups.pending[k, 0], groups.pending[k, 1] = x, groups.place_of[x]
        groups.pending[k, 2] = groups.free[counts[N_FREE]]


@inner
def _merge(groups, group):
    size = groups.size[group]
    for i in range(groups.counts[N_MERGED]):
        left, right = groups.merged[i, 0], groups.merged[i, 1]
        size[left] += size[right]


@inner
def _begin(groups, group):
    """Put all rows of a group into the place of the root."""
    o, n = groups.row[group] * groups.stride, groups.begin[group + 1] - groups.begin[group]
    order = groups.order[o : o + n]
    for i in range(n):
        order[i] = u16(i)
    groups.first[group, 0] = u16(0)
    groups.size[group, 0] = u16(n)


def _part_by(goes_left):
    @inner
    def part(rows, at, row_bytes, records, order, begin, end, routing, rest):
        """Put the rows of a place that go left before the others, and return how many there are.
        ``at`` is where the split feature of the group's first row is; ``records`` are those of the
        group, or none where it has all rows."""
        left, n_rest = u64(begin), u64(0)
        last = u64(end - 1)
        for i in range(u64(begin), u64(end)):
            own = order[i]
            ahead = order[min(i + u64(AHEAD), last)]
            if records.size > 0:
                b = at + u64(u32(records[u64(own)])) * row_bytes
                prefetch(rows, at + u64(u32(records[u64(ahead)])) * row_bytes)
            else:
                b = at + u64(own) * row_bytes
                prefetch(rows, at + u64(ahead) * row_bytes)
            goes = u64(1) if goes_left(np.uint8(byte_of(rows, b)), routing) else u64(0)
            # To both sides without a branch; one of the counters moves on.
            order[left] = own
            rest[n_rest] = own
            left += goes
            n_rest += u64(1) - goes
        for i in range(n_rest):
            order[left + i] = rest[i]
        return i64(left) - begin

    return part


_part = _part_by(below_cut)
_part_by_set = _part_by(in_set)


@inner
def unpack_word(word):
    """Return the statistics of a row as one packed addend."""
    return (i64(np.int32(word) >> np.int32(16)) << i64(32)) + i64(word & u32(0xFFFF))


@inner
def _add(rows, base, row_bytes, n_columns, records, words, order, begin, end, at, addends, sums):
    """Add the rows ``order[begin:end]`` of a group to a histogram. ``base`` is where its first row
    would be among the codes, of a sample row 0 of the table."""
    n_words = (n_columns + 7) >> 3
    # First where the codes of some rows are and what these add, which loads the codes in
    # advance; then word by word, so that eight features of the histogram are written at a time.
    for first in range(begin, end, BLOCK):
        n = u64(min(BLOCK, end - first))
        if records.size > 0:
            for i in range(n):
                record = records[u64(order[u64(first) + i])]
                at[i] = base + u64(u32(record)) * row_bytes
                prefetch(rows, at[i])
                addends[i] = unpack_record(record)
        else:
            for i in range(n):
                own = u64(order[u64(first) + i])
                at[i] = base + own * row_bytes
                prefetch(rows, at[i])
                addends[i] = unpack_word(words[own])
        for word in range(n_words):
            o, b = u64(word * WORD_ENTRIES), u64(8 * word)
            n_codes = n_columns - 8 * word
            if n_codes >= 8:
                for i in range(n):
                    add_eight(sums, o, rows, at[i] + b, addends[i])
            else:
                for i in range(n):
                    add_fewer(sums, o, rows, at[i] + b, addends[i], n_codes)


@inner
def _load(rows, begin, end):
    """Read a byte of every cache line, which loads them in their order: the rows of a node are far
    from each other, so that each would be waited for (63 in place of 50 ns a row and tree;
    prefetching all lines gained nothing, nor did reading several at once, as of a plain sum)."""
    total = u64(0)
    for b in range(begin, end, u64(LINE_BYTES)):
        total = total * u64(3) + byte_of(rows, b)
    return total


@inner
def _load_if_worthwhile(group, groups, rows, slab_row, n_opened, kept):
    """Load the codes of a group if a pass routes many of its rows."""
    n_routed = i64(0)
    for k in range(n_opened):
        n_routed += i64(groups.size[group, groups.pending[k, 1]])
    begin, end = groups.row[group] - slab_row, groups.row[group + 1] - slab_row
    if n_opened > 0 and WORTHWHILE * n_routed >= end - begin:
        row_bytes = u64(rows.shape[1])
        kept[0] = _load(rows, u64(begin) * row_bytes, u64(end) * row_bytes)


@inner
def _walk_group(thread, group, table, source, walk, groups, rows, slab_row, n_opened):
    row_bytes = u64(rows.shape[1])
    n_columns = table.layout.column_begin.size - 1
    o = groups.row[group] * groups.stride
    begin, end = groups.begin[group], groups.begin[group + 1]
    order = groups.order[o : o + end - begin]
    first, size = groups.first[group], groups.size[group]
    records, words = source.records, source.words
    # Records number the rows of the whole table, of which the slab has a part: the base may be
    # before its first byte, and wraps around. Without records, rows count from their group.
    base = u64(0) - u64(slab_row) * row_bytes
    if records.size > 0:
        records = records[begin:end]
    else:
        words = words[begin:end]
        base += u64(groups.row[group]) * row_bytes
    at, addends, rest = groups.at[thread], groups.addends[thread], groups.rest[thread]
    # The first pass opens nothing: it adds all rows to the histogram of the root.
    if n_opened == 0:
        line = walk.routes[0].left_sums
        if line >= 0:
            _add(
                rows, base, row_bytes, n_columns, records, words, order, i64(0), end - begin,
                at, addends, walk.sums[thread, line],
            )  # fmt: skip
        return
    for k in range(n_opened):
        route = walk.routes[k]
        left, right = groups.pending[k, 1], groups.pending[k, 2]
        a, n = i64(first[left]), i64(size[left])
        column = base + u64(route.feature)
        if route.bin >= 0:
            cut = cut_of(route.bin, route.missing_left)
            n_left = _part(rows, column, row_bytes, records, order, a, a + n, cut, rest)
        else:
            own_set = walk.sets[k]
            n_left = _part_by_set(rows, column, row_bytes, records, order, a, a + n, own_set, rest)
        walk.n_left[thread, k] += n_left
        # The rows of the left child stay in front, those of the right one get the place behind.
        size[left] = u16(n_left)
        first[right] = u16(a + n_left)
        size[right] = u16(n - n_left)
        for side in range(2):
            line = route.left_sums if side == 0 else route.right_sums
            if line < 0:
                continue
            one, other = (a, a + n_left) if side == 0 else (a + n_left, a + n)
            _add(
                rows, base, row_bytes, n_columns, records, words, order, one, other,
                at, addends, walk.sums[thread, line],
            )  # fmt: skip


@kernel_without_allocation
def walk_groups(
    thread, n_threads, barrier, table, source, walk, groups, rows, row, first, last, n_opened
):  # fmt: skip
    """Route and add up the groups ``first`` to ``last - 1``, whose codes are in a slab, uint8 of
    shape (n_rows, row bytes), from ``row`` on. In the first pass, which opens nothing, all rows are
    those of the root."""
    while True:
        group = first + atomic_add(walk.state, QUEUE, 1)
        if group >= last:
            break
        if n_opened == 0:
            _begin(groups, group)
        else:
            _merge(groups, group)
        _load_if_worthwhile(group, groups, rows, row, n_opened, groups.at[thread])
        _walk_group(thread, group, table, source, walk, groups, rows, row, n_opened)


@kernel_without_allocation
def count_rows(
    thread, n_threads, barrier, table, frontier, source, groups, k_of, rows, row, first, last,
    packed, counts,
):  # fmt: skip
    """Count rows of the nodes to recheck by feature and code, and add up the histograms that are
    not kept; ``k_of`` has the place of a node among these nodes, or -1. Each thread does this for
    columns of its own."""
    row_bytes = u64(rows.shape[1])
    n_columns = table.layout.column_begin.size - 1
    is_sample = source.records.size > 0
    for group in range(first, last):
        o, begin = groups.row[group] * groups.stride, groups.begin[group]
        # The rows of a node to recheck are in the two places that the last pass made of it.
        for i in range(2 * groups.counts[N_PENDING]):
            x = groups.pending[i >> 1, 0]
            k = k_of[x]
            if k < 0:
                continue
            place = groups.pending[i >> 1, 1 + (i & 1)]
            is_kept = frontier.nodes[x].slot >= 0
            a = o + i64(groups.first[group, place])
            for j in range(a, a + i64(groups.size[group, place])):
                own = begin + i64(groups.order[j])
                if is_sample:
                    record = source.records[own]
                    own_row, v = i64(u32(record)), unpack_record(record)
                else:
                    own_row = groups.row[group] + own - begin
                    v = unpack_word(source.words[own])
                b = u64(own_row - row) * row_bytes
                for f in range(
                    n_columns * thread // n_threads, n_columns * (thread + 1) // n_threads
                ):
                    code = byte_of(rows, b + u64(f))
                    counts[k, f, code] += 1
                    if not is_kept:
                        packed[k, f * STRIDE + i64(code)] += v


@kernel_without_allocation
def write_leaves(thread, n_threads, barrier, frontier, source, groups, leaf):
    """Write the leaf of every row of the sample; ``leaf`` may be the memory of the orders."""
    n_groups = groups.row.size - 1
    rest = groups.rest[thread]
    for group in range(n_groups * thread // n_threads, n_groups * (thread + 1) // n_threads):
        _merge(groups, group)
        row, begin, end = groups.row[group], groups.begin[group], groups.begin[group + 1]
        o = row * groups.stride
        # A copy of the order, whose memory the leaves may overwrite.
        for i in range(end - begin):
            rest[i] = groups.order[o + i]
        if source.records.size > 0:
            for i in range(row, groups.row[group + 1]):
                leaf[i] = -1
        for x in range(frontier.state[fr.N_NODES]):
            if frontier.nodes[x].child >= 0:
                continue
            place, number = groups.place_of[x], frontier.nodes[x].leaf
            a = i64(groups.first[group, place])
            for i in range(a, a + i64(groups.size[group, place])):
                own = begin + i64(rest[i])
                if source.records.size > 0:
                    leaf[u64(u32(source.records[own]))] = number
                else:
                    leaf[row + own - begin] = number
