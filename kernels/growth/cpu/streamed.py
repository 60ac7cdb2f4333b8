"""Growth on a table that is larger than memory (contract: ``kernels.growth.grow``): records stay
where they are, and a round is one pass over the table in the order of the rows.

A row has a number in place of a position among the records of its node. Children get their numbers
before the pass, which routes the rows of the nodes that are opened, counts them, and adds up the
histogram of one child of each at the same time::

    row            0   1   2   3   4   5   6   7   8   9  ...
    number before  1   2   2   1   0   2   1   1   2   2       node 2 is opened: children 5 and 6
    number after   1   5   6   1   0   5   1   1   6   5       rows of 5 are added up
                       +               +               +

That child is the one of the smaller hessian, since how many rows it has is not known yet; the other
histogram is the parent's minus this one, and integers give the same sums either way. If the pass
finds that a child has fewer than ``min_samples_leaf`` rows, both numbers stand for the parent from
then on, and another pass counts its rows by their codes.

Passes go forward and backward in turn: what the system has kept of the end of the table is where
the next one begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...runtime.arrays import derived
from ...runtime.compilation import inner, kernel_without_allocation
from ...runtime.cpu.lanes import byte_of
from ...runtime.cpu.team import atomic_add, get_threads, run, wait
from ...runtime.dtypes import CODE_WORDS, N_SLOTS, Codes, TreeRecords
from .. import control
from .. import frontier as fr
from ..frontier import Frontier
from ..grow import GrownTrees, emitted
from ..params import NO_RULES, FeatureRules, GrowthParams
from ..streamed_codes import StreamedCodes
from .histogram import WORD_ENTRIES, add_partial_word, add_used, add_word, clear_used, unpack_record
from .layout import plain_layout
from .partition import below_cut, cut_of, in_set
from .search import evaluate, rechecking, settle_nodes
from .tables import EVALUATE, RECHECK, Table, Work, allocate_work

u8, u32, u64, i64 = np.uint8, np.uint32, np.uint64, np.int64

SLAB_ROWS = 1 << 20
"""Rows of which the system is told in advance that they will be read."""
PIECE_ROWS = 1 << 13
"""Rows that a thread takes at a time."""
SUMS_BYTES = 1 << 26
"""Most memory of the histograms that the threads add up in a pass."""
MIN_ROWS_PER_THREAD = 1 << 12

_I = np.int64
ROUTE = np.dtype(
    [
        ("feature", _I),
        ("bin", _I),  # -1: by the set of codes
        ("missing_left", _I),
        ("number", _I),  # of the left child; the next one is that of the right child
        ("left_sums", _I),  # the line of ``sums`` that a child's rows are added to; -1: none
        ("right_sums", _I),
    ],
    align=True,
)
N_NUMBERS, N_SUMS, QUEUE = range(3)


class Walk(NamedTuple):
    """What a pass over the rows reads and writes.

    routes : ROUTE, one an expansion
    sets : uint32, shape (expansions, CODE_WORDS)
        The codes that go left.
    expansion_of, node_of : int32
        By number: the expansion of its rows, or -1, and their node.
    sums_of : int64
        By node: the line of ``sums`` that its rows were added to, or -1.
    n_left : int64, shape (threads, expansions)
    sums : int64, shape (threads, lines, entries of a histogram)
    state : int64
        Numbers of entries, and the queue of pieces.
    """

    routes: np.ndarray
    sets: np.ndarray
    expansion_of: np.ndarray
    node_of: np.ndarray
    sums_of: np.ndarray
    n_left: np.ndarray
    sums: np.ndarray
    state: np.ndarray


class Growth(NamedTuple):
    """A tree that grows."""

    table: Table
    frontier: Frontier
    params: GrowthParams
    work: Work
    walk: Walk


@inner
def _plant(frontier, params, walk):
    """Begin a tree: every row is given number 0 by the first pass, which adds up all of them."""
    control.start(frontier, params)
    walk.node_of[0] = 0
    walk.expansion_of[0] = 0
    walk.state[N_NUMBERS] = 1
    walk.state[N_SUMS] = frontier.state[fr.N_PAIRS]
    route = walk.routes[0]
    route.feature = 0
    route.bin = N_SLOTS - 1  # every code is left of it
    route.missing_left = 0
    route.number = 0
    route.left_sums = 0 if frontier.state[fr.N_PAIRS] > 0 else -1
    route.right_sums = -1
    walk.sums_of[0] = route.left_sums


@inner
def _plan(frontier, walk):
    """Give the children of the nodes to open their numbers and lines of sums. Nodes for which no
    line is left wait for the next round."""
    state = walk.state
    for number in range(state[N_NUMBERS]):
        walk.expansion_of[number] = -1
    most = walk.sums.shape[1]
    n_sums = i64(0)
    for k in range(frontier.state[fr.N_EXPAND]):
        expansion = frontier.expand[k]
        node = frontier.nodes[expansion.node]
        n_needed = 0 if expansion.closes == 1 else (1 if node.slot >= 0 else 2)
        if k > 0 and n_sums + n_needed > most:
            frontier.state[fr.N_EXPAND] = k
            break
        route = walk.routes[k]
        route.feature = node.feature
        route.bin = node.bin
        route.missing_left = node.missing_left
        if node.bin < 0:
            for w in range(walk.sets.shape[1]):
                walk.sets[k, w] = frontier.left_codes[expansion.node, w]
        is_left = node.left_h <= node.h - node.left_h
        route.left_sums = route.right_sums = -1
        if n_needed == 2 or (n_needed == 1 and is_left):
            route.left_sums = n_sums
            n_sums += 1
        if n_needed == 2 or (n_needed == 1 and not is_left):
            route.right_sums = n_sums
            n_sums += 1
        walk.sums_of[expansion.node] = k  # until the numbers below are known
    for number in range(state[N_NUMBERS]):
        x = walk.node_of[number]
        k = walk.sums_of[x]
        if 0 <= k < frontier.state[fr.N_EXPAND] and frontier.expand[k].node == x:
            walk.expansion_of[number] = k
    for k in range(frontier.state[fr.N_EXPAND]):
        walk.routes[k].number = state[N_NUMBERS]
        state[N_NUMBERS] += 2
    state[N_SUMS] = n_sums


@inner
def _clear(thread, table, frontier, walk):
    """Clear this thread's sums and counts."""
    slots = table.layout.column_slots
    for s in range(walk.state[N_SUMS]):
        line = walk.sums[thread, s]
        clear_used(slots, 0, slots.size, line, line)
    for k in range(max(frontier.state[fr.N_EXPAND], 1)):
        walk.n_left[thread, k] = 0


@inner
def _add_row(words, n_columns, row, v, line):
    """Add the codes of a row to a histogram."""
    n_words, n_full = u64((n_columns + 7) >> 3), u64(n_columns >> 3)
    first, o = row * n_words, u64(0)
    for k in range(n_full):
        add_word(line, o, words, first + u64(k), v)
        o += u64(WORD_ENTRIES)
    if n_columns & 7 > 0:
        add_partial_word(line, o, words, first + n_full, v, n_columns & 7)


@kernel_without_allocation
def walk_rows(thread, n_threads, barrier, table, records, walk, first, last, is_first, leaf):
    """Route and add up the records ``first`` to ``last - 1``; ``leaf`` has the numbers of rows."""
    words = table.layout.words
    n_columns = table.layout.column_begin.size - 1
    row_bytes = u64((n_columns + 7) >> 3) << u64(3)
    n_left, sums = walk.n_left[thread], walk.sums[thread]
    while True:
        begin = first + PIECE_ROWS * atomic_add(walk.state, QUEUE, 1)
        if begin >= last:
            break
        for i in range(begin, min(begin + PIECE_ROWS, last)):
            record = records[i]
            row = u64(u32(record))
            k = i64(0)
            if not is_first:
                k = i64(walk.expansion_of[leaf[row]])
                if k < 0:
                    continue
            route = walk.routes[k]
            code = u8(byte_of(words, row * row_bytes + u64(route.feature)))
            if route.bin >= 0:
                is_left = below_cut(code, cut_of(route.bin, route.missing_left))
            else:
                is_left = in_set(code, walk.sets[k])
            s = route.left_sums if is_left else route.right_sums
            if is_left:
                n_left[k] += 1
            leaf[row] = np.int32(route.number if is_left else route.number + 1)
            if s >= 0:
                _add_row(words, n_columns, row, unpack_record(record), sums[s])


@kernel_without_allocation
def begin(thread, n_threads, barrier, table, frontier, params, work, walk):
    """Plant the root."""
    if thread == 0:
        _plant(frontier, params, walk)
    wait(barrier, n_threads)
    _clear(thread, table, frontier, walk)


@inner
def _commit(frontier, params, walk):
    """Turn the opened nodes into parents, or, where a child has too few rows, their numbers into
    those of the parent. The first node of each pair becomes the one that was added up."""
    nodes = frontier.nodes
    for k in range(frontier.state[fr.N_EXPAND]):
        total = i64(0)
        for t in range(walk.n_left.shape[0]):
            total += walk.n_left[t, k]
        frontier.expand[k].n_left = total
    control.commit(frontier, params)
    for k in range(frontier.state[fr.N_EXPAND]):
        x, route = frontier.expand[k].node, walk.routes[k]
        child = nodes[x].child
        if child < 0:
            walk.node_of[route.number] = walk.node_of[route.number + 1] = x
            continue
        walk.node_of[route.number], walk.node_of[route.number + 1] = child, child + 1
        walk.sums_of[child], walk.sums_of[child + 1] = route.left_sums, route.right_sums
    for p in range(frontier.state[fr.N_PAIRS]):
        build, sibling = frontier.pairs[p].build, frontier.pairs[p].sibling
        if sibling >= 0 and walk.sums_of[build] < 0:
            frontier.pairs[p].build, frontier.pairs[p].sibling = sibling, build
            slot = nodes[build].slot
            nodes[build].slot = nodes[sibling].slot
            nodes[sibling].slot = slot


@kernel_without_allocation
def close(thread, n_threads, barrier, table, frontier, params, work, walk, is_first):
    """End a pass: turn the opened nodes into parents, and join the sums of the threads."""
    slots = table.layout.column_slots
    if thread == 0:
        if not is_first:
            _commit(frontier, params, walk)
        work.counts[EVALUATE] = work.counts[RECHECK] = 0
    wait(barrier, n_threads)
    for p in range(thread, frontier.state[fr.N_PAIRS], n_threads):
        x = frontier.pairs[p].build
        built = work.histograms[frontier.nodes[x].slot]
        clear_used(slots, 0, slots.size, built, built)
        for t in range(n_threads):
            add_used(slots, 0, slots.size, built, walk.sums[t, walk.sums_of[x]])
        work.partial_range[p, 0] = work.partial_range[p, 1] = 0


@kernel_without_allocation
def count_rechecked(
    thread, n_threads, barrier, table, frontier, records, k_of, first, last, leaf, packed, counts
):  # fmt: skip
    """Count rows of the nodes to recheck by feature and code, and add up the histograms that are
    not kept; ``k_of`` has the place of a number's node among these nodes, or -1. Each thread does
    this for words of its own."""
    words = table.layout.words
    n_columns = table.layout.column_begin.size - 1
    n_words = (n_columns + 7) >> 3
    for i in range(first, last):
        record = records[i]
        row = u64(u32(record))
        k = k_of[leaf[row]]
        if k < 0:
            continue
        is_kept = frontier.nodes[frontier.recheck[k]].slot >= 0
        for word in range(thread, n_words, n_threads):
            at, n = row * u64(n_words) + u64(word), min(n_columns - 8 * word, 8)
            for f in range(n):
                counts[k, 8 * word + f, byte_of(words, (at << u64(3)) + u64(f))] += 1
            if is_kept:
                continue
            v, o = unpack_record(record), u64(word * WORD_ENTRIES)
            if n == 8:
                add_word(packed[k], o, words, at, v)
            else:
                add_partial_word(packed[k], o, words, at, v, n)


@inner
def _read_histogram(table, node, k, known, histogram):
    packed = known[0][k]
    for i in range(packed.size):
        histogram[i] = packed[i]


@inner
def _read_counts(table, node, k, f, known, row_counts):
    for code in range(row_counts.size):
        row_counts[code] = known[1][k, f, code]


_recheck = rechecking(_read_histogram, _read_counts)


@kernel_without_allocation
def decide(thread, n_threads, barrier, table, frontier, params, work, walk, packed, counts):
    """Find the splits of the new nodes and of those to recheck, and choose the nodes to open."""
    evaluate(thread, n_threads, table, frontier, params, work)
    _recheck(thread, table, frontier, params, work, (packed, counts))
    wait(barrier, n_threads)
    if thread == 0:
        settle_nodes(frontier, params, work)
        control.choose(frontier, params)
        _plan(frontier, walk)
    wait(barrier, n_threads)
    _clear(thread, table, frontier, walk)


@kernel_without_allocation
def name_leaves(thread, n_threads, barrier, frontier, walk, leaf):
    """Replace the number of every row by its leaf."""
    n = leaf.size
    for i in range(n * thread // n_threads, n * (thread + 1) // n_threads):
        if leaf[i] >= 0:
            leaf[i] = np.int32(frontier.nodes[walk.node_of[leaf[i]]].leaf)


@kernel_without_allocation
def number_leaves(thread, n_threads, barrier, frontier, params, order, tree_offset):
    """Number the nodes of the final tree."""
    if thread == 0:
        control.finish(frontier, params, order, tree_offset)


class Passes:
    """The passes over the records of a tree, in slabs of rows, forward and backward in turn."""

    def __init__(self, codes: StreamedCodes, records: np.ndarray, n_threads: int) -> None:
        self._codes, self._records, self._n_threads = codes, records, n_threads
        self._is_forward = True

    def _slabs(self) -> Iterator[tuple[int, int]]:
        """Yield the begin and the end of slabs; while one is walked through, the next is read."""
        n = self._records.size
        slabs = [(first, min(first + SLAB_ROWS, n)) for first in range(0, n, SLAB_ROWS)]
        if not self._is_forward:
            slabs.reverse()
        self._is_forward = not self._is_forward
        self._announce(*slabs[0])
        for slab, following in zip(slabs, [*slabs[1:], None], strict=True):
            if following is not None:
                self._announce(*following)
            yield slab

    def _announce(self, first: int, last: int) -> None:
        rows = self._records[[first, last - 1]] & np.uint64(0xFFFFFFFF)
        begin, end = sorted(rows.tolist())
        self._codes.will_need(begin, end + 1)

    def walk(self, growth: Growth, is_first: bool, leaf: np.ndarray) -> None:
        """Route the rows of the nodes to open, and add up rows."""
        for slab in self._slabs():
            growth.walk.state[QUEUE] = 0
            own = growth.table, self._records, growth.walk, *slab, is_first, leaf
            run(walk_rows, self._n_threads, *own)

    def count(self, growth: Growth, leaf: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the histograms and counts of rows of the nodes to recheck."""
        frontier, walk = growth.frontier, growth.walk
        n = int(frontier.state[fr.N_RECHECK])
        counts = np.zeros((n, len(growth.table.columns), N_SLOTS), np.int64)
        packed = np.zeros((n, growth.work.spare.shape[1]), np.int64)
        k_of_node = np.full(frontier.nodes.size, -1, np.int64)
        k_of_node[frontier.recheck[:n]] = np.arange(n)
        k_of = k_of_node[walk.node_of[: walk.state[N_NUMBERS]]]
        for slab in self._slabs():
            own = growth.table, frontier, self._records, k_of, *slab, leaf, packed, counts
            run(count_rechecked, self._n_threads, *own)
        return packed, counts


NOTHING_KNOWN = np.zeros((0, 0), np.int64), np.zeros((0, 0, 0), np.int64)


def grow(
    codes: StreamedCodes,
    n_bins: np.ndarray,
    records: TreeRecords,
    keys: np.ndarray,
    params: GrowthParams,
    rules: FeatureRules = NO_RULES,
) -> GrownTrees:
    """Grow the trees one after the other."""
    leaf = np.full((len(keys), codes.columns.shape[1]), -1, np.int32)
    grown = []
    for t, words in enumerate(records.words):
        frontier = fr.allocate([words.size], keys[t : t + 1], params, n_bins, rules)
        fr.set_statistics(frontier, records.sums[t : t + 1], records.scales[t : t + 1])
        grown.append(_grow_tree(codes, n_bins, words, frontier, params, leaf[t]))
    return _joined(grown, leaf)


def _grow_tree(
    codes: StreamedCodes,
    n_bins: np.ndarray,
    records: np.ndarray,
    frontier: Frontier,
    params: GrowthParams,
    leaf: np.ndarray,
) -> GrownTrees:
    n_threads = max(1, min(get_threads(), records.size // MIN_ROWS_PER_THREAD))
    growth = _workspace(codes, n_bins, records, frontier, params, n_threads)
    passes = Passes(codes, records, n_threads)
    state, is_first = frontier.state, True
    run(begin, n_threads, *growth)
    while is_first or state[fr.N_EXPAND] > 0:
        passes.walk(growth, is_first, leaf)
        run(close, n_threads, *growth, is_first)
        known = passes.count(growth, leaf) if state[fr.N_RECHECK] else NOTHING_KNOWN
        run(decide, n_threads, *growth, *known)
        is_first = False
    order, offset = np.empty(frontier.nodes.size, np.int64), np.empty(2, np.int64)
    run(number_leaves, 1, frontier, params, order, offset)
    run(name_leaves, n_threads, frontier, growth.walk, leaf)
    return emitted(frontier, order, offset, None)


def _workspace(
    codes: StreamedCodes,
    n_bins: np.ndarray,
    records: np.ndarray,
    frontier: Frontier,
    params: GrowthParams,
    n_threads: int,
) -> Growth:
    """Return the tables of a growth; large ones are kept from tree to tree as long as their sizes
    last."""
    kept = derived(codes.rows, "streamed workspace", dict)
    sizes = (frontier.nodes.size, frontier.free_slots.size, n_threads)
    if kept.get("sizes") != sizes:
        kept.clear()
        own = plain_layout(Codes(codes.rows, codes.columns), n_bins)
        kept["table"] = Table(codes.columns, own, (records[:0], records[:0]), few_rows=0)
        kept["work"] = allocate_work(own, 0, frontier, n_threads)
        kept["walk"] = _allocate_walk(kept["work"], frontier.nodes.size, n_threads)
        kept["sizes"] = sizes
    return Growth(kept["table"], frontier, params, kept["work"], kept["walk"])


def _allocate_walk(work: Work, capacity: int, n_threads: int) -> Walk:
    entries = work.spare.shape[1]
    n_sums = max(2, min(capacity, SUMS_BYTES // (8 * entries * n_threads)))
    # A node is opened once, or twice where a child had too few rows.
    n_numbers = 4 * capacity + 1
    return Walk(
        routes=np.zeros(capacity, ROUTE),
        sets=np.zeros((capacity, CODE_WORDS), np.uint32),
        expansion_of=np.zeros(n_numbers, np.int32),
        node_of=np.zeros(n_numbers, np.int32),
        sums_of=np.zeros(capacity, np.int64),
        n_left=np.zeros((n_threads, capacity), np.int64),
        sums=np.empty((n_threads, n_sums, entries), np.int64),
        state=np.zeros(QUEUE + 1, np.int64),
    )


def _joined(grown: list[GrownTrees], leaf: np.ndarray) -> GrownTrees:
    """Return trees that were grown one after the other as a batch."""
    if len(grown) == 1:
        return grown[0]._replace(leaf=leaf)
    offset = np.cumsum([0, *(int(tree.offset[-1]) for tree in grown)])
    names = GrownTrees._fields[1:-1]
    arrays = {name: np.concatenate([getattr(tree, name) for tree in grown]) for name in names}
    return GrownTrees(offset=offset, **arrays, leaf=leaf)
