"""The layout of a forest for walks (``traverse_deep``)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...runtime.compilation import inner, kernel_without_allocation
from ...runtime.cpu.team import CACHE_LINE, atomic_add, run, threads_for
from ...runtime.derived import derived

i64, u32, u64 = np.int64, np.uint32, np.uint64

NARROW_BITS = 32
"""What column, flags and child may take together for nodes of 8 bytes."""
MOST_VALUES = 1024
"""Distinct values of leaves that are worth a table of their own."""
N_SLOTS = 4 * MOST_VALUES
HASH_SHIFT = 64 - (N_SLOTS.bit_length() - 1)
HASH_FACTOR = u64(0x9E3779B97F4A7C15)
FLAG_BITS, ONE = u64(2), u64(1)


class Nodes(NamedTuple):
    """A forest laid out for walks: two words a node, 8 bytes where they have 32 bits.

    words : uint32 or uint64, shape (2 * n_nodes,)
        First word: the key of the threshold; ``category_begin`` of a split by categories; at a
        leaf its line of ``values``. Second word: child, by categories (1 bit), missing left
        (1 bit), column; at a leaf its own number and zeros.
    shift : uint64
        Bits of the second word below the child.
    most, infinity : uint64
        The largest key, of missing values that go right, and the bits of +inf.
    features : int32, shape (n_columns,)
        Column c + 1 of the keys is this feature; a feature may be there as numbers and as
        categories.
    n_numeric : int
        Columns above hold categories.
    values : float64, shape (n_lines, width)
        The distinct values of leaves if there are few, else the values of all nodes.
    """

    words: np.ndarray
    shift: np.uint64
    most: np.uint64
    infinity: np.uint64
    features: np.ndarray
    n_numeric: int
    n_categories: np.ndarray
    categories: np.ndarray
    offset: np.ndarray
    output: np.ndarray
    values: np.ndarray


@inner
def number_key(bits, most, infinity):
    """The place of a float among the others of its type, from its bits."""
    sign = (most >> ONE) + ONE
    magnitude = u64(bits) & (sign - ONE)
    key = sign - magnitude if u64(bits) >= sign else sign + magnitude
    return most if magnitude > infinity else key


def nodes_of(trees: Any, dtype: np.dtype) -> Nodes:
    """The layout for rows of a type: 8 bytes a node for float32 (16 where a tree or the table is
    too large for that), 16 for float64. It is kept as long as the forest."""
    words, constants, features, n_numeric, lines = derived(
        tuple(trees), ("nodes", dtype.str), lambda: _lay_out(trees, dtype)
    )
    return Nodes(
        words,
        *constants,
        features,
        n_numeric,
        trees.n_categories,
        trees.categories,
        trees.offset,
        trees.output,
        trees.value if lines is None else lines,
    )


def _lay_out(trees: Any, dtype: np.dtype) -> tuple[Any, ...]:
    """What is derived; it refers to none of the forest's arrays, or they would never be freed."""
    column, features, n_numeric = _columns(trees)
    shift = features.size.bit_length() + int(FLAG_BITS)
    largest = int(np.diff(trees.offset).max(initial=1))
    narrow = dtype == np.float32 and shift + largest.bit_length() <= NARROW_BITS
    words = np.empty(2 * trees.feature.size, u32 if narrow else u64)
    numbers = words.view(f"f{words.itemsize}")
    infinity = np.array(np.inf, numbers.dtype).view(words.dtype)
    constants = u64(shift), u64(np.iinfo(words.dtype).max), u64(infinity)
    queue = np.zeros(CACHE_LINE, i64)
    threads = min(threads_for(words.size), max(1, trees.output.size))
    run(_pack_worker, threads, trees, column, words, numbers, *constants, queue)
    return words, constants, features, n_numeric, _shared_values(trees, words)


def _shared_values(trees: Any, words: np.ndarray) -> np.ndarray | None:
    """The distinct values of the leaves, where there are few: they stay in the cache."""
    lines = np.empty((MOST_VALUES, trees.value.shape[1]), i64)
    bits = np.ascontiguousarray(trees.value).view(i64)
    n = _share_values(trees.feature, bits, words, lines, np.full(N_SLOTS, -1, np.int32))
    return None if n < 0 else lines[:n].copy().view(np.float64)


def _columns(trees: Any) -> tuple[np.ndarray, np.ndarray, int]:
    """Which column of the keys holds a feature as numbers (first line) and as categories, the
    features of the columns, and how many hold numbers."""
    n_features = trees.n_categories.size
    used = np.zeros((2, n_features + 1), bool)  # leaves, of feature -1, mark the last entry
    if trees.categories.size:
        by_categories = trees.category_begin >= 0
        used[0, trees.feature[~by_categories]] = True
        used[1, trees.feature[by_categories]] = True
    else:
        used[0, trees.feature] = True
    kind, feature = np.nonzero(used[:, :n_features])
    column = np.zeros((2, n_features), i64)
    column[kind, feature] = np.arange(1, feature.size + 1)
    return column, feature.astype(np.int32), int(np.count_nonzero(kind == 0))


@kernel_without_allocation
def _pack_worker(
    thread, n_threads, barrier, trees, column, words, numbers, shift, most, infinity, queue
):
    while True:
        tree = atomic_add(queue, 0, 1)
        if tree >= trees.output.size:
            break
        root = trees.offset[tree]
        for node in range(trees.offset[tree + 1] - root):
            at = root + node
            if trees.feature[at] < 0:
                words[2 * at], words[2 * at + 1] = at, u64(node) << shift
                continue
            by_categories = trees.category_begin[at] >= 0
            word = u64(trees.left[at]) << shift
            word |= u64(by_categories) << (shift - ONE)
            word |= u64(trees.missing_left[at] != 0) << (shift - FLAG_BITS)
            words[2 * at + 1] = word | u64(column[i64(by_categories), trees.feature[at]])
            if by_categories:
                words[2 * at] = trees.category_begin[at]
                continue
            numbers[2 * at] = trees.threshold[at]
            rounded_up = numbers[2 * at] > trees.threshold[at]
            key = number_key(words[2 * at], most, infinity)
            words[2 * at] = key - u64(rounded_up)  # the number below


@kernel_without_allocation
def _share_values(feature, value, words, lines, slots):
    """Let leaves of the same values (compared as bits) use the same line; the number of lines,
    -1 if they are too many, where every leaf keeps its own."""
    n = 0
    for at in range(feature.size):
        if feature[at] >= 0:
            continue
        line = _line_of(value, at, lines, slots, n)
        if line == lines.shape[0]:
            for before in range(at):
                if feature[before] < 0:
                    words[2 * before] = before
            return -1
        if line == n:
            for j in range(value.shape[1]):
                lines[n, j] = value[at, j]
            n += 1
        words[2 * at] = line
    return n


@inner
def _line_of(value, at, lines, slots, n):
    """The line that holds the values of a node, n if none does: a look into a hash table."""
    hashed = u64(0)
    for j in range(value.shape[1]):
        hashed = (hashed ^ u64(value[at, j])) * HASH_FACTOR
    slot = hashed >> u64(HASH_SHIFT)
    while slots[slot] >= 0:
        line = slots[slot]
        same = True
        for j in range(value.shape[1]):
            same &= lines[line, j] == value[at, j]
        if same:
            return line
        slot = (slot + ONE) & u64(N_SLOTS - 1)
    if n < lines.shape[0]:
        slots[slot] = n
    return n
