"""The rows of one node, parted by its split (contract: ``kernels.cart.grow_cart``)."""

from __future__ import annotations

import numpy as np

from ...runtime.compilation import inlined, inner
from ...scalars.routing import is_left_category

u32, u64, i64 = np.uint32, np.uint64, np.int64

LOW_32 = u64(0xFFFFFFFF)


@inlined
def part_rows(table, rows, node, bits, room, has_codes):
    """Move the rows of the left child to the front, in their order, and return how many they are.

    Settles the side of missing values, and of categories, of which the node has no rows.
    ``has_codes`` is whether the codes of the rows are at hand if the split is numeric.
    """
    n_bins = i64(table.n_bins[node.feature])
    column = table.codes[node.feature]
    records = rows.records[node.begin : node.end]
    is_set = table.categorical[node.feature] == 1
    if is_set:
        n_left = _move_by_category(
            column, records, n_bins, bits, node.missing_left == 1, room.moved
        )
    else:
        # -1: no code beside those up to the limit.
        other = n_bins if node.missing_left == 1 else i64(-1)
        codes = room.codes[room.found[1].line if has_codes else 0]
        n_left = _move_by_code(column, codes, has_codes, records, node.last_left, other, room.moved)
    _put_behind(records, n_left, room.moved)
    # At a tie the right child counts as larger, as in the contract.
    larger = i64(1 if 2 * n_left > records.size else 0)
    if node.missing_left < 0:
        node.missing_left = larger
    # Categories without rows are right so far, as their bits are not set.
    if is_set and larger == 1:
        _send_unseen_left(column, records, n_bins, bits, room.groups.seen)
    return n_left


@inner
def _send_unseen_left(column, records, n_bins, bits, seen):
    # The flags belong to the search, which finds them cleared: they are cleared below.
    for i in range(records.size):
        seen[column[records[i] & LOW_32]] = 1
    for c in range(n_bins):
        if seen[c] == 0:
            bits[c >> 5] |= u32(1) << u32(c & 31)
    seen[: n_bins + 1] = 0


@inner
def _move_by_code(column, codes, has_codes, records, limit, other, moved):
    """Move the records whose codes are at most ``limit``, or ``other``, to the front, and the
    others to ``moved``, in their order; return how many go left. ``codes`` has those of the records
    one after the other, if it has them."""
    left, right = u64(0), u64(0)
    for i in range(u64(records.size)):
        record = records[i]
        code = i64(codes[i]) if has_codes else i64(column[record & LOW_32])
        goes_left = u64((code <= limit) | (code == other))
        # Both places are written, and one of the two numbers moves on: sides are hard to predict,
        # and a wrong guess costs more than the second write. ``left`` never overtakes i, so that no
        # record is lost before it is read.
        records[left] = record
        moved[right] = record
        left += goes_left
        right += u64(1) - goes_left
    return i64(left)


@inner
def _put_behind(records, n_left, moved):
    """Put the records on the right behind those on the left, in their order: the partition is
    stable."""
    for i in range(u64(records.size - n_left)):
        records[u64(n_left) + i] = moved[i]


@inner
def _move_by_category(column, records, n_bins, bits, missing_left, moved):
    left, right = u64(0), u64(0)
    for i in range(u64(records.size)):
        record = records[i]
        code = i64(column[record & LOW_32])
        goes_left = missing_left
        if code < n_bins:
            goes_left = is_left_category(i64(bits[code >> 5]), code)
        if goes_left:
            records[left] = record
            left += u64(1)
        else:
            moved[right] = record
            right += u64(1)
    return i64(left)
