"""Prediction by deep trees: many rows walk down a tree together.

A walk is a chain of loads that wait for each other, and of branches that nobody can predict. So
the rows of a group take each step together and without branches; their chains overlap.

    word = second word of the node
    node = child in the word + (key of the row in the column of the word > first word of the node)

Keys are unsigned integers in the order of the values, so that a missing value is the largest key
or 0 and needs no test. A leaf compares column 0, where every key is 0, and leads to itself. Rows
that have reached one leave the group every few steps:

    node  7  L  9  L  8   ->   7 9 8
    row   0  1  2  3  4   ->   0 2 4

A large block of rows goes down one tree after the other: a tree is brought into the cache once
for all of them, and in advance.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...runtime.compilation import inlined, kernel_without_allocation
from ...runtime.cpu.team import CACHE_LINE, atomic_add, prefetch, run, threads_for
from ...scalars.routing import is_left_category, names_category
from .nodes import FLAG_BITS, ONE, Nodes, number_key
from .table import Table, cell

i64, u32, u64 = np.int64, np.uint32, np.uint64

GROUP = 128
"""Rows that walk together; their keys stay in the first-level cache."""
STEPS = 5
"""Steps between two looks at who has arrived. The first look is later: no tree brings many rows
to a leaf in fewer steps than a balanced one."""
KEY_BYTES = 2**22
"""Keys of a block of rows: what a thread needs beside the layout of the forest."""
FEWEST_ROWS = 1024
"""Of a block, however many columns there are."""
BLOCKS_PER_THREAD = 4
LINE_BYTES = 64
FIVE = u64(5)


class Scratch(NamedTuple):
    """What the threads write, one line a thread.

    keys : uint32 or uint64; numbers : float32 or float64
        The same memory: the table's values are turned into keys in place.
    node, own, row, leaf : uint32, shape (n_threads, GROUP + padding)
        Where the walkers are, where their keys begin, who they are, and what the rows of the
        group have reached.
    """

    keys: np.ndarray
    numbers: np.ndarray
    node: np.ndarray
    own: np.ndarray
    row: np.ndarray
    leaf: np.ndarray


@inlined
def _read_rows(nodes, table, begin, n, keys, numbers, stride):
    """Keys of some rows; whether any value is missing."""
    any_missing = False
    n_columns = nodes.features.size
    for i in range(n):
        at = i * stride
        keys[at] = 0
        for c in range(n_columns):
            numbers[at + 1 + c] = cell(table, begin + i, nodes.features[c])
        for c in range(nodes.n_numeric):
            key = number_key(keys[at + 1 + c], nodes.most, nodes.infinity)
            keys[at + 1 + c] = key
            any_missing |= key == nodes.most
        for c in range(nodes.n_numeric, n_columns):
            x = numbers[at + 1 + c]
            known = names_category(x, nodes.n_categories[nodes.features[c]])
            keys[at + 1 + c] = u64(x) if known else nodes.most
            any_missing |= not known
    return any_missing


@inlined
def _add_missing_left(nodes, n, keys, stride, second):
    """Write each row's keys once more, for the nodes whose missing values go left."""
    for i in range(n):
        at = i * stride + 1
        for c in range(nodes.features.size):
            key = keys[at + c]
            goes_left = u64(0) if c < nodes.n_numeric else nodes.most - ONE
            keys[at + second + c] = goes_left if key == nodes.most else key


@inlined
def _step(words, categories, shift, most, keys, mask, node, own):
    """The child of a node for the row whose own keys begin there."""
    place = node << ONE
    word = words[place + ONE]
    key = keys[own + (word & mask)]
    goes_right = key > words[place]
    if categories.size > 0 and (word >> (shift - ONE)) & ONE:
        goes_right = key == most
        if key < most - ONE:
            goes_right = not is_left_category(categories[words[place] + (key >> FIVE)], key)
    return (word >> shift) + goes_right


@inlined
def _walk(nodes, words, keys, stride, mask, n, steps, walkers, leaf):
    """Bring a group of rows from the root of a tree, where its words begin, to their leaves:
    ``steps[0]`` steps and then ``steps[1]`` at a time."""
    categories, shift, most = nodes.categories, nodes.shift, nodes.most
    column_bits = (ONE << (shift - FLAG_BITS)) - ONE
    node, own, row = walkers
    for i in range(n):
        node[i], own[i], row[i] = 0, i * stride, i
    n_steps = steps[0]
    while n > 0:
        for _ in range(n_steps):
            for k in range(n):
                node[k] = _step(words, categories, shift, most, keys, mask, node[k], own[k])
        n_steps = steps[1]
        n_left = 0
        for k in range(n):
            reached, who = node[k], row[k]
            node[n_left], own[n_left], row[n_left], leaf[who] = reached, own[k], who, reached
            n_left += (words[(reached << ONE) + ONE] & column_bits) != 0
        n = n_left


@inlined
def _prefetch_share(nodes, tree, share, n_shares):
    """Ask for a part of the nodes of a tree."""
    first = u64(nodes.offset[tree]) << ONE
    size = (u64(nodes.offset[tree + 1]) << ONE) - first
    a = first + size * u64(share) // u64(n_shares)
    end = first + size * u64(share + 1) // u64(n_shares)
    while a < end:
        prefetch(nodes.words, a)
        a += u64(LINE_BYTES // nodes.words.itemsize)


@inlined
def _add_values(nodes, tree, words, leaf, n, raw, begin):
    for i in range(n):
        leaf[i] = words[u64(leaf[i]) << ONE]
    for j in range(nodes.values.shape[1]):
        for i in range(n):
            raw[nodes.output[tree] + j, begin + i] += nodes.values[leaf[i], j]


@inlined
def _walk_block(nodes, begin, n, keys, stride, mask, steps, walkers, leaf, raw, leaves):
    """All trees for a block of rows."""
    n_trees = nodes.output.size
    n_groups = (n + GROUP - 1) // GROUP
    for tree in range(n_trees):
        words = nodes.words[2 * nodes.offset[tree] :]
        depth = 0
        while nodes.offset[tree + 1] - nodes.offset[tree] >> depth:
            depth += 1
        n_next = nodes.offset[tree + 2] - nodes.offset[tree + 1] if tree + 1 < n_trees else 0
        worth_prefetching = 0 < n_next * 2 * nodes.words.itemsize <= n * LINE_BYTES
        for group in range(n_groups):
            if worth_prefetching:
                _prefetch_share(nodes, tree + 1, group, n_groups)
            first = group * GROUP
            size = min(GROUP, n - first)
            own_keys = keys[first * stride :]
            _walk(nodes, words, own_keys, stride, mask, size, (depth, steps), walkers, leaf)
            if raw.size:
                _add_values(nodes, tree, words, leaf, size, raw, begin + first)
            else:
                for i in range(size):
                    leaves[begin + first + i, tree] = leaf[i]


@kernel_without_allocation
def _walk_worker(
    thread, n_threads, barrier, nodes, table, scratch, raw, leaves, block, steps, queue
):
    table = Table(*table)
    n_rows = max(raw.shape[1], leaves.shape[0])
    keys, numbers = scratch.keys[thread], scratch.numbers[thread]
    walkers = scratch.node[thread], scratch.own[thread], scratch.row[thread]
    leaf = scratch.leaf[thread]
    n_columns = nodes.features.size
    column_bits = nodes.shift - FLAG_BITS
    second = i64(ONE << column_bits)
    while True:
        begin = atomic_add(queue, 0, block)
        if begin >= n_rows:
            break
        end = min(begin + block, n_rows)
        while begin < end:
            stride = 1 + n_columns
            n = min(end - begin, keys.size // stride)
            mask = u64(second - 1)
            while _read_rows(nodes, table, begin, n, keys, numbers, stride):
                if stride > n_columns + 1:
                    _add_missing_left(nodes, n, keys, stride, second)
                    mask = u64(2 * second - 1)
                    break
                stride += second
                n = min(n, keys.size // stride)
            _walk_block(nodes, begin, n, keys, stride, mask, steps, walkers, leaf, raw, leaves)
            begin += n


def walk(nodes: Nodes, table: Any, raw: Any, leaves: Any) -> None:
    """Fill one of ``raw`` (n_outputs, n_rows) and ``leaves`` (n_rows, n_trees); the other one
    is empty."""
    n_rows = max(raw.shape[1], leaves.shape[0])
    threads = threads_for(n_rows * nodes.output.size)
    n_columns = nodes.features.size + 1
    block = max(FEWEST_ROWS, KEY_BYTES // (n_columns * nodes.words.itemsize))
    block = min(block, max(GROUP, -(-n_rows // (BLOCKS_PER_THREAD * threads))))
    numbers = np.empty((threads, max(block, 4) * n_columns), f"f{nodes.words.itemsize}")
    groups = np.empty((4, threads, GROUP + LINE_BYTES // 4), u32)  # no line for two threads
    scratch = Scratch(numbers.view(nodes.words.dtype), numbers, *groups)
    queue = np.zeros(CACHE_LINE, i64)
    run(_walk_worker, threads, nodes, table, scratch, raw, leaves, block, STEPS, queue)
