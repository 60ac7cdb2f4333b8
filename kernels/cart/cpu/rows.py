"""Statistics and partition of the rows of one node (contract: ``kernels.cart.grow_cart``)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...runtime.compilation import inlined, inner
from ...runtime.cpu.team import prefetch
from ...scalars.routing import is_left_category
from ..problem import COUNT_SHIFT
from .scores import MASK

u32, u64, i64 = np.uint32, np.uint64, np.int64
LOW_32 = u64(0xFFFFFFFF)
S32 = u64(32)
ONE_ROW = i64(1) << i64(COUNT_SHIFT)
PREFETCH_DISTANCE = u64(16)


class Rows(NamedTuple):
    """What the threads read of the rows (see ``cart``).

    values : int64, (n_outputs, n_rows); value_rank : uint32, the same shape
        The latter only for the absolute error: rank among the ``n_ranks`` distinct values.
    """

    classes: np.ndarray
    values: np.ndarray
    value_rank: np.ndarray
    n_ranks: int
    weight: np.ndarray
    output_begin: np.ndarray
    records: np.ndarray


@inlined
def collect(rows, begin, end, groups, statistics):
    """Gather the weights and classes (or values) of a node's rows and add them up; whether all
    rows are alike."""
    records = rows.records[begin:end]
    total = _collect_weights(rows.weight, records, groups.weights)
    if rows.classes.shape[0] == 0:
        pure = True
        statistics[0] = total
        for o in range(rows.values.shape[0]):
            first = rows.values[o, records[0] & LOW_32]
            alike, statistics[1 + o] = _collect_values(
                rows.values[o], records, first, groups.weights, groups.items[o]
            )
            pure = pure and alike
        return pure
    statistics[:] = 0
    for o in range(rows.classes.shape[0]):
        _collect_classes(rows.classes[o], records, groups.weights, groups.items[o], statistics)
    return _one_class_each(statistics, rows.output_begin)


@inner
def _collect_weights(weight, records, weights):
    n = u64(records.size)
    total = i64(0)
    for i in range(n):
        prefetch(weight, records[min(i + PREFETCH_DISTANCE, n - u64(1))] & LOW_32)
        record = records[i]
        weights[i] = ONE_ROW + weight[record & LOW_32] * i64(record >> S32)
        total += weights[i]
    return total


@inner
def _collect_values(values, records, first, weights, items):
    alike = True
    total = i64(0)
    for i in range(u64(records.size)):
        value = values[records[i] & LOW_32]
        if value != first:
            alike = False
        items[i] = value * (weights[i] & MASK)
        total += items[i]
    return alike, total


@inner
def _collect_classes(classes, records, weights, items, statistics):
    for i in range(u64(records.size)):
        c = classes[records[i] & LOW_32]
        items[i] = c
        statistics[c] += weights[i]


@inlined
def _one_class_each(statistics, output_begin):
    for o in range(output_begin.size - 1):
        n_classes = 0
        for s in range(output_begin[o], output_begin[o + 1]):
            if statistics[s] & MASK != 0:
                n_classes += 1
        if n_classes > 1:
            return False
    return True


@inlined
def part_rows(table, rows, node, bits, room):
    """Move the rows of the left child to the front, in their order; how many they are.

    Settles the side of missing values, and of categories, that the node has no rows of.
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
        n_left = _move_by_code(
            column, records, n_bins, node.last_left, node.missing_left == 1, room.moved
        )
    larger = i64(1 if 2 * n_left > records.size else 0)
    if node.missing_left < 0:
        node.missing_left = larger
    if is_set and larger == 1:
        _send_unseen_left(column, records, n_bins, bits, room.groups.seen)
    return n_left


@inner
def _send_unseen_left(column, records, n_bins, bits, seen):
    for i in range(records.size):
        seen[column[records[i] & LOW_32]] = 1
    for c in range(n_bins):
        if seen[c] == 0:
            bits[c >> 5] |= u32(1) << u32(c & 31)
    seen[: n_bins + 1] = 0


@inner
def _move_by_code(column, records, n_bins, limit, missing_left, moved):
    left, right = u64(0), u64(0)
    n = u64(records.size)
    for i in range(n):
        prefetch(column, records[min(i + PREFETCH_DISTANCE, n - u64(1))] & LOW_32)
        record = records[i]
        code = i64(column[record & LOW_32])
        goes_left = u64(1) if code <= limit or (code == n_bins and missing_left) else u64(0)
        records[left] = record
        moved[right] = record
        left += goes_left
        right += u64(1) - goes_left
    for i in range(right):
        records[left + i] = moved[i]
    return i64(left)


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
    for i in range(right):
        records[left + i] = moved[i]
    return i64(left)
