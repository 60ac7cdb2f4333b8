"""Prediction by deep trees: many rows walk down a tree together, in a layout of two words a node.

A walk is a chain of loads that wait for each other, and of branches that cannot be predicted. So
the rows of a group take each step together and without branches; their chains overlap.

    word = second word of the node
    node = child in the word + (key of the row in the column of the word > first word of the node)

Keys are unsigned integers in the order of the values, so that a missing value is the largest key
or 0 and needs no test. A leaf compares column 0, where every key is 0, and leads to itself. Rows
that have reached one leave the group every few steps:

    node  7  L  9  L  8   ->   7 9 8
    row   0  1  2  3  4   ->   0 2 4

A large block of rows goes down one tree after the other, so that a tree is brought into the cache
once for all of them.

Each row's next node is fetched while the others of its group take their steps. 1000 rows and 100
trees of 17,000 nodes take 8 ms this way and 15 without it, 40,000 rows and 50 trees of 200,000
nodes 140 ms and 204 (CPU time on an AMD EPYC). The layout costs 5 to 9 ns a node.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...runtime.arrays import LINE_BYTES, Array, derived
from ...runtime.compilation import inlined, inner, kernel_without_allocation
from ...runtime.cpu.table import TableMemory, cell
from ...runtime.cpu.team import CACHE_LINE, atomic_add, prefetch, run, threads_for, wait
from ...scalars.rounding import number_key
from ...scalars.routing import is_left_category, names_category
from ..traverse import Trees

i64, u32, u64 = np.int64, np.uint32, np.uint64

NARROW_BITS = 32
"""Bits of column, flags and child together in nodes of 8 bytes."""
MOST_VALUES = 1024
"""Distinct values of leaves that are worth a table of their own."""
N_SLOTS = 4 * MOST_VALUES
HASH_SHIFT = 64 - (N_SLOTS.bit_length() - 1)
HASH_FACTOR = u64(0x9E3779B97F4A7C15)
CHUNK = u64(256)
"""Nodes that are laid out before the values of their leaves are looked up."""
FLAG_BITS, ONE = u64(2), u64(1)


class WalkNodes(NamedTuple):
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
        Column c + 1 of the keys is this feature; a feature may occur as numbers and as
        categories.
    n_numeric : int
        Columns above hold categories.
    values : float64, shape (n_lines, width)
        The values of leaves (``SharedValues``) if they are few, else those of all nodes.
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


def nodes_of(trees: Trees, dtype: np.dtype) -> WalkNodes:
    """Return the layout for rows of a type, kept as long as the forest: 8 bytes a node for float32
    (16 where a tree or the table is too large for that), 16 for float64.

    100,000 rows, 20 trees of 127,000 nodes: 0.23 s with 8 bytes, 0.49 s with 16 (CPU time on an
    AMD EPYC).
    """
    words, shift, most, infinity, features, n_numeric, lines = derived(
        tuple(trees), ("nodes", dtype.str), lambda: _lay_out(trees, dtype)
    )
    values = (trees.value if lines is None else lines).view()
    values.flags.writeable = False  # of either origin, or they would be of two types
    return WalkNodes(
        words,
        shift,
        most,
        infinity,
        features,
        n_numeric,
        trees.n_categories,
        trees.categories,
        trees.offset,
        trees.output,
        values,
    )


def _lay_out(trees: Trees, dtype: np.dtype) -> tuple[Any, ...]:
    """Build the layout; it refers to none of the forest's arrays, or they would never be freed."""
    column, features, n_numeric = _columns(trees)
    # So many bits hold columns 0, that of leaves, to ``size``. The flag just above them then
    # selects the second set of keys, that of nodes whose missing values go left.
    shift = features.size.bit_length() + int(FLAG_BITS)
    largest = int(np.diff(trees.offset).max(initial=1))
    # Keys of float64 have 64 bits, whatever the size of the forest.
    narrow = dtype == np.float32 and shift + largest.bit_length() <= NARROW_BITS
    words = np.empty(2 * trees.feature.size, u32 if narrow else u64)
    numbers = words.view(f"f{words.itemsize}")
    infinity = u64(np.array(np.inf, numbers.dtype).view(words.dtype))
    bits, most = u64(shift), u64(np.iinfo(words.dtype).max)
    threads = min(threads_for(words.size), max(1, trees.output.size))
    values = SharedValues(
        bits=np.ascontiguousarray(trees.value).view(i64),
        lines=np.empty((MOST_VALUES, threads, trees.value.shape[1]), i64),
        n_lines=np.zeros((threads, CACHE_LINE), i64),
        slots=np.full((threads, N_SLOTS), -1, np.int32),
        leaves=np.empty((threads, int(CHUNK) + CACHE_LINE), u64),
    )
    queue = np.zeros(CACHE_LINE, i64)
    run(_pack_worker, threads, trees, column, words, numbers, bits, most, infinity, values, queue)
    n = values.n_lines[:, 0]
    shared = None if n.min() < 0 else values.lines[: n.max()].reshape(-1, values.lines.shape[2])
    lines = None if shared is None else shared.copy().view(np.float64)
    return words, bits, most, infinity, features, n_numeric, lines


def _columns(trees: Trees) -> tuple[np.ndarray, np.ndarray, int]:
    """Return which column of the keys holds feature f - 1 as numbers (first line) and as
    categories, 0 for the feature -1 of leaves, the features of the columns, and how many of these
    hold numbers."""
    used = np.zeros((2, trees.n_categories.size + 1), bool)
    _mark_columns(trees.feature, trees.category_begin, trees.categories.size > 0, used)
    used[0, 0] = False
    kind, feature = np.nonzero(used)
    column = np.zeros(used.shape, u64)
    column[kind, feature] = np.arange(1, feature.size + 1)
    return column, (feature - 1).astype(np.int32), int(np.count_nonzero(kind == 0))


@kernel_without_allocation
def _mark_columns(feature, category_begin, has_categories, used):
    for at in range(feature.size):
        kind = i64(has_categories and category_begin[at] >= 0)
        used[kind, feature[at] + 1] = True


class SharedValues(NamedTuple):
    """Distinct values of leaves: where there are few, they stay in the cache.

    100,000 rows, 20 trees of 58,000 nodes with 7 classes: 0.15 s with this, 0.27 s without (CPU
    time on an AMD EPYC); no difference where leaves have one value.

    bits : int64, shape (n_nodes, width)
        The values of all nodes, compared as bits.
    lines : int64, shape (MOST_VALUES, n_threads, width)
        The distinct values that each thread has found; line k of a thread is number
        ``k * n_threads + thread`` of ``WalkNodes.values``.
    n_lines : int64, shape (n_threads, CACHE_LINE)
        Their numbers, in the first column; -1: there are too many.
    slots : int32, shape (n_threads, N_SLOTS)
        Hash tables of the lines, -1 where free.
    leaves : int64, shape (n_threads, CHUNK + padding)
        The leaves among a chunk of nodes.
    """

    bits: np.ndarray
    lines: np.ndarray
    n_lines: np.ndarray
    slots: np.ndarray
    leaves: np.ndarray


@inlined
def _pack_node(trees, root, node, column, words, numbers, shift, most, infinity):
    at = root + node
    feature, threshold, place = i64(trees.feature[at]), trees.threshold[at], at << ONE
    is_leaf = u64(feature) >> u64(63)
    word = column[0, u64(feature + 1)] | u64(trees.missing_left[at] != 0) << (shift - FLAG_BITS)
    word |= u64(trees.left[at]) << shift
    numbers[place] = threshold
    # The threshold of a narrow node is rounded to float32; where that is above it, the key of the
    # number below is right.
    rounded_up = numbers[place] > threshold
    key = number_key(words[place], most, infinity) - u64(rounded_up)
    # A leaf leads to itself: in column 0 every key is 0, and that is above no first word. Masks
    # choose between both, because no branch could guess which nodes are leaves.
    mask = u64(0) - is_leaf
    words[place] = key ^ ((key ^ at) & mask)
    words[place + ONE] = word ^ ((word ^ (node << shift)) & mask)
    if trees.categories.size > 0 and trees.category_begin[at] >= 0:
        words[place] = trees.category_begin[at]
        word ^= column[0, u64(feature + 1)] ^ column[1, u64(feature + 1)]
        words[place + ONE] = word | ONE << (shift - ONE)
    return is_leaf


@kernel_without_allocation
def _pack_worker(
    thread, n_threads, barrier, trees, column, words, numbers, shift, most, infinity, values, queue
):
    leaves, slots, lines = values.leaves[thread], values.slots[thread], values.lines[:, thread]
    n_lines, last = i64(0), i64(0)
    while True:
        tree = atomic_add(queue, 0, 1)
        if tree >= trees.output.size:
            break
        root, n = u64(trees.offset[tree]), u64(trees.offset[tree + 1] - trees.offset[tree])
        for first in range(u64(0), n, CHUNK):
            n_leaves = u64(0)
            for node in range(first, min(first + CHUNK, n)):
                leaves[n_leaves] = root + node
                n_leaves += _pack_node(
                    trees, root, node, column, words, numbers, shift, most, infinity
                )
            if n_lines < 0:
                continue
            last = tree
            for i in range(n_leaves):
                line = _line_of(values.bits, leaves[i], lines, slots, n_lines)
                if line == MOST_VALUES:
                    n_lines = i64(-1)
                    break
                n_lines = max(n_lines, line + 1)
                words[leaves[i] << ONE] = line * n_threads + thread
    values.n_lines[thread, 0], values.n_lines[thread, 1] = n_lines, last
    # All threads know now whether there are few values. If not, every leaf keeps its own, and those
    # that share a line by now get it back: in the first trees, where all threads find it out.
    wait(barrier, n_threads)
    for other in range(n_threads):
        n_lines, last = min(n_lines, values.n_lines[other, 0]), max(last, values.n_lines[other, 1])
    if n_lines >= 0 or thread > 0:
        return
    for at in range(u64(trees.offset[last + 1])):
        if trees.feature[at] < 0:
            words[at << ONE] = at


@inner
def _line_of(value, at, lines, slots, n):
    """Return the line that holds the values of a node. A hash table finds it; if there is none, it
    becomes line n, or is ``MOST_VALUES`` where no line is left."""
    hashed = u64(0)
    for j in range(value.shape[1]):
        hashed = (hashed ^ u64(value[at, j])) * HASH_FACTOR
    slot = hashed >> u64(HASH_SHIFT)
    # Open addressing: the next slot where this one holds other values.
    while slots[slot] >= 0:
        line = i64(slots[slot])
        same = True
        for j in range(value.shape[1]):
            same &= lines[line, j] == value[at, j]
        if same:
            return line
        slot = (slot + ONE) & u64(N_SLOTS - 1)
    if n < MOST_VALUES:
        slots[slot] = n
        for j in range(value.shape[1]):
            lines[n, j] = value[at, j]
    return n


GROUP = 128
"""Rows that walk together; their keys stay in the first-level cache."""
STEPS = 5
"""Steps between two checks for rows that have arrived. The first check is later: no tree brings
many rows to a leaf in fewer steps than a balanced one."""
KEY_BYTES = 2**22
"""Keys of a block of rows: what a thread needs beside the layout of the forest."""
FEWEST_ROWS = 1024
"""Fewest rows of a block, however many columns there are."""
BLOCKS_PER_THREAD = 4
NEAR_TREE = 2**16
"""Bytes of a tree that stays so near that fetching its nodes costs more than it saves: 100 trees of
46 kB took 7 % longer."""
LARGE_TREE = 2**18
"""Bytes of a tree that hardly stays in the cache until the next block: then there is one block for
each thread. 20 trees of 200,000 nodes take 62 ms in place of 72 for 20,000 rows, and 198 in place
of 251 for 100,000 (CPU time of two threads on an AMD EPYC)."""
FIVE = u64(5)


class Scratch(NamedTuple):
    """Memory that the threads write, one line a thread.

    keys : uint32 or uint64; numbers : float32 or float64
        The same memory: the table's values are turned into keys in place.
    node, own, row, leaf : uint32, shape (n_threads, GROUP + padding)
        The walkers' nodes, where their keys begin, their rows, and the leaves that the rows of
        the group have reached.
    """

    keys: np.ndarray
    numbers: np.ndarray
    node: np.ndarray
    own: np.ndarray
    row: np.ndarray
    leaf: np.ndarray


@inlined
def _read_rows(nodes, table, begin, n, keys, numbers, stride):
    """Write the keys of some rows; return whether any value is missing."""
    any_missing = False
    n_columns = nodes.features.size
    for i in range(n):
        at = i * stride
        # Column 0, which leaves compare.
        keys[at] = 0
        for c in range(n_columns):
            numbers[at + 1 + c] = cell(table, begin + i, nodes.features[c])
        for c in range(nodes.n_numeric):
            key = number_key(keys[at + 1 + c], nodes.most, nodes.infinity)
            keys[at + 1 + c] = key
            any_missing |= key == nodes.most
        for c in range(nodes.n_numeric, n_columns):
            # Keys of categories are the categories themselves; all that name none count as missing.
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
            # The lowest key goes left at every threshold; categories have a number of their own for
            # it.
            goes_left = u64(0) if c < nodes.n_numeric else nodes.most - ONE
            keys[at + second + c] = goes_left if key == nodes.most else key


@inlined
def _step(words, categories, shift, most, keys, mask, node, own):
    """Return the child of a node for the row whose keys begin at ``own``."""
    place = node << ONE
    word = words[place + ONE]
    key = keys[own + (word & mask)]
    goes_right = key > words[place]
    # The first half is the same at every node, so that a forest without categories pays next to
    # nothing for it.
    if categories.size > 0 and (word >> (shift - ONE)) & ONE:
        goes_right = key == most
        if key < most - ONE:
            goes_right = not is_left_category(categories[words[place] + (key >> FIVE)], key)
    return (word >> shift) + goes_right


@inlined
def _walk(nodes, words, keys, stride, mask, n, steps, is_far, walkers, leaf):
    """Bring a group of rows from the root of a tree, where its words begin, to their leaves:
    ``steps[0]`` steps and then ``steps[1]`` at a time. Is the tree far, nodes are fetched."""
    categories, shift, most = nodes.categories, nodes.shift, nodes.most
    column_bits = (ONE << (shift - FLAG_BITS)) - ONE
    node, own, row = walkers
    for i in range(n):
        node[i], own[i], row[i] = 0, i * stride, i
    # The first check comes late: few rows are at a leaf after fewer steps than a balanced tree has
    # levels.
    n_steps = steps[0]
    while n > 0:
        for _ in range(n_steps):
            for k in range(n):
                reached = _step(words, categories, shift, most, keys, mask, node[k], own[k])
                node[k] = reached
                # The other rows of the group hide the way from memory.
                if is_far:
                    prefetch(words, u64(reached) << ONE)
        n_steps = steps[1]
        n_left = 0
        for k in range(n):
            reached, who = node[k], row[k]
            # Written for every row, and kept for those that go on: no branch that could be guessed
            # wrongly.
            node[n_left], own[n_left], row[n_left], leaf[who] = reached, own[k], who, reached
            n_left += (words[(reached << ONE) + ONE] & column_bits) != 0
        n = n_left


@inlined
def _add_values(nodes, tree, words, leaf, n, raw, begin):
    for i in range(n):
        # First the lines of all rows, then their values: loads that do not wait for each other.
        leaf[i] = words[u64(leaf[i]) << ONE]
    for j in range(nodes.values.shape[1]):
        for i in range(n):
            raw[nodes.output[tree] + j, begin + i] += nodes.values[leaf[i], j]


@inlined
def _walk_block(nodes, begin, n, keys, stride, mask, steps, walkers, leaf, raw, leaves):
    """Walk down all trees with a block of rows."""
    n_trees = nodes.output.size
    n_groups = (n + GROUP - 1) // GROUP
    # Tree by tree: it stays in the cache for all groups of rows, and sums see the trees in order.
    for tree in range(n_trees):
        words = nodes.words[2 * nodes.offset[tree] :]
        n_nodes = nodes.offset[tree + 1] - nodes.offset[tree]
        is_far = n_nodes * 2 * words.itemsize > NEAR_TREE
        depth = 0
        while n_nodes >> depth:
            depth += 1
        for group in range(n_groups):
            first = group * GROUP
            size = min(GROUP, n - first)
            own_keys = keys[first * stride :]
            _walk(nodes, words, own_keys, stride, mask, size, (depth, steps), is_far, walkers, leaf)
            if raw.size:
                _add_values(nodes, tree, words, leaf, size, raw, begin + first)
            else:
                for i in range(size):
                    leaves[begin + first + i, tree] = leaf[i]


@kernel_without_allocation
def _walk_worker(
    thread, n_threads, barrier, nodes, table, scratch, raw, leaves, block, steps, queue
):
    table = TableMemory(*table)
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
            # Read the rows as if no value was missing. If one is, read them again, fewer at a time,
            # with a second set of keys for nodes whose missing values go left.
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


def walk(nodes: WalkNodes, table: TableMemory, raw: Array, leaves: Array) -> None:
    """Fill one of ``raw`` (n_outputs, n_rows) and ``leaves`` (n_rows, n_trees); the other one
    is empty."""
    n_rows = max(raw.shape[1], leaves.shape[0])
    threads = threads_for(n_rows * nodes.output.size)
    n_columns = nodes.features.size + 1
    block = max(FEWEST_ROWS, KEY_BYTES // (n_columns * nodes.words.itemsize))
    is_large = nodes.words.nbytes > LARGE_TREE * nodes.output.size
    n_blocks = threads if is_large else BLOCKS_PER_THREAD * threads
    block = min(block, max(GROUP, -(-n_rows // n_blocks)))
    numbers = np.empty((threads, max(block, 4) * n_columns), f"f{nodes.words.itemsize}")
    groups = np.empty((4, threads, GROUP + LINE_BYTES // 4), u32)  # no line for two threads
    scratch = Scratch(numbers.view(nodes.words.dtype), numbers, *groups)
    queue = np.zeros(CACHE_LINE, i64)
    run(_walk_worker, threads, nodes, table, scratch, raw, leaves, block, STEPS, queue)
