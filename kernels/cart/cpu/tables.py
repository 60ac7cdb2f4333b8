"""The memory that trees grow in on the CPU: nodes, tables that the threads share, and scratch."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...runtime.arrays import LINE_BYTES
from ...runtime.compilation import inlined
from ...runtime.cpu.lanes import LANES
from ...runtime.cpu.team import CACHE_LINE
from ..problem import ABSOLUTE_ERROR, LEAST_FEATURES, NODE, CartParams, CartTable, CartTarget
from .absolute import Medians
from .bins import WORD
from .bounds import MOST_ROWS
from .cuts import SortedCuts
from .random_cuts.by_row import RowCuts, row_cuts
from .random_cuts.small_subtrees import SubtreeLanes, subtree_lanes
from .rows import N_COUNTERS
from .scan import ScanGroups
from .scores import BLOCK, FOUND, CandidateBlock
from .screen import AT_ONCE, MOST_WEIGHT, N_CODES, Screen
from .small_nodes import FEW_ROWS, Few

# Entries of ``SharedTables.counts``, each on a cache line of its own.
TREES, NODES, IDLE, TICKET, SERVING, SHARED = (k * CACHE_LINE for k in range(6))

MOST_FLAGS = 256
"""Features up to which nodes know which of them are constant."""
LONG_LINE = 2**12
"""Bytes of scratch that may share its first and its last cache line with other scratch."""
TABLE_ENTRIES = 2**15
"""Entries of the table of statistics by code; larger ones leave the caches."""


class Settings(NamedTuple):
    """``CartParams``, and whether any feature has a monotone constraint."""

    criterion: int
    max_depth: int
    max_leaves: int
    min_samples_split: int
    min_samples_leaf: int
    min_weight_fraction: float
    min_gain: float
    max_features: int
    shuffle: int
    random_splits: int
    bounded: bool


class SharedTables(NamedTuple):
    """The tables that the threads share.

    nodes : NODE, (capacity,); statistics : int64, (capacity, n_statistics)
    bits : uint32, (capacity, words) or (0, 0)
        Categories that go left.
    constant : uint64, (capacity, words)
        Features that are known to be constant at the node, a bit for each.
    shared : int64
        Stack of nodes for idle threads, guarded by a ticket lock.
    weight : int64, (n_trees,)
        Weight of each tree's sample.
    """

    nodes: np.ndarray
    statistics: np.ndarray
    bits: np.ndarray
    constant: np.ndarray
    shared: np.ndarray
    weight: np.ndarray
    counts: np.ndarray


class ThreadScratch(NamedTuple):
    """One thread's scratch.

    features : int64, (n_features,)
        0, 1, 2, ...
    swapped : int64, (n_features,)
    found : FOUND, (3,)
        The values of the candidate at hand, the best candidate, and one that was found ahead.
    bits : uint32, (2, words)
        Categories on the left of the best split, and of one at hand.
    moved : uint64, (rows,)
    codes : uint8 or uint32, (2, rows)
        Of the best feature so far and of the one at hand, for random splits.
    numbers : int64, (2, ...)
        The next number of a node of the thread's own, and the end of those that it has.
    most_entries : int
        Entries of the table of statistics by code.
    """

    groups: ScanGroups
    few: Few
    screen: Screen
    cuts: SortedCuts
    block: CandidateBlock
    medians: Medians
    features: np.ndarray
    swapped: np.ndarray
    found: np.ndarray
    bits: np.ndarray
    moved: np.ndarray
    codes: np.ndarray
    numbers: np.ndarray
    row_cuts: RowCuts
    lanes: SubtreeLanes
    most_entries: int


def allocate_work(
    n_nodes: int, weight: np.ndarray, table: CartTable, n_statistics: int, n_words: int
) -> SharedTables:
    """Allocate ``n_nodes`` nodes of trees whose samples weigh ``weight``, the roots first.

    ``n_words`` are those of a set of categories, 0 if no feature is categorical.
    """
    # With very many features, copying the flags to every child would cost more than they save.
    n_flags = -(-table.n_bins.size // 64) if table.n_bins.size <= MOST_FLAGS else 0
    work = SharedTables(
        nodes=np.empty(n_nodes, NODE),
        statistics=np.empty((n_nodes, n_statistics), np.int64),
        bits=np.empty((n_nodes if n_words else 0, n_words), np.uint32),
        constant=np.empty((n_nodes, n_flags), np.uint64),
        shared=np.empty(n_nodes + 1, np.int64),
        weight=weight,
        counts=np.zeros(6 * CACHE_LINE, np.int64),
    )
    work.counts[NODES] = weight.size
    # Of the roots alone: children get a copy of their parent's.
    work.constant[: weight.size] = 0
    return work


def allocate_rooms(
    n_threads: int,
    n: int,
    table: CartTable,
    target: CartTarget,
    params: CartParams,
    *,
    on_lanes: bool,
) -> ThreadScratch:
    """Allocate scratch for nodes of up to n rows, a line for each thread; that of small subtrees if
    they are grown ``on_lanes``."""
    n_outputs, n_statistics = target.n_outputs, target.n_statistics
    n_features = table.n_bins.size
    most_bins = int(table.n_bins.max(initial=1))
    wide = table.codes.dtype != np.uint8
    is_set = table.categorical == 1
    n_words = -(-int(table.n_bins[is_set].max(initial=1)) // 32)
    # Codes of one byte always fit the table; others are sorted where it would leave the caches.
    entries = max(TABLE_ENTRIES, 256 * n_statistics) if wide else (most_bins + 1) * n_statistics
    absolute, is_random = params.criterion == ABSOLUTE_ERROR, params.random_splits == 1
    # All that look at single rows by their keys: of random cuts those of categories.
    sorts = absolute or (bool(is_set.any()) if is_random else wide)
    # Where features are passed over, at nodes of fewer rows than weight.
    screens = not wide and params.max_features >= LEAST_FEATURES and n_statistics == 2
    screens = screens and not absolute and params.random_splits == 0
    n_groups = min(n, most_bins) + 2
    lines = partial(_lines, n_threads)
    return ThreadScratch(
        groups=_groups(
            lines, n, n if sorts else 0, most_bins, entries, n_groups, n_outputs, n_statistics
        ),
        few=_few(lines, table.codes.dtype, n if sorts else 0),
        screen=_screen(lines, n, n_features) if screens else _screen(lines, 0, 0),
        cuts=_cuts(lines, max(n_groups, n if sorts else 0)),
        block=CandidateBlock(
            left=lines((n_statistics, BLOCK)),
            right=lines((n_statistics, BLOCK)),
            packed=lines((2, BLOCK)),
            term=lines(BLOCK, np.float64),
            score=lines((2, BLOCK), np.float64),
        ),
        medians=_medians(lines, n if absolute else 0, n_groups, n_outputs),
        features=lines(n_features) + np.arange(n_features),
        swapped=lines(n_features),
        found=lines(3, FOUND),
        bits=lines((2, n_words), np.uint32),
        moved=lines(n, np.uint64),
        codes=lines((2, n + WORD if params.random_splits == 1 else 0), table.codes.dtype),
        numbers=lines(CACHE_LINE),
        row_cuts=row_cuts(lines, n_features if params.random_splits == 1 else 0),
        lanes=subtree_lanes(lines, n_features if on_lanes else 0),
        most_entries=entries,
    )


_Lines = Callable[..., np.ndarray]


def _lines(n_threads: int, shape: int | tuple[int, ...], dtype: Any = np.int64) -> np.ndarray:
    """Return scratch for each thread, none of it on a cache line of another one: threads that write
    into the same cache line wait for each other, so that there are unused lines between short ones.
    """
    shape = shape if isinstance(shape, tuple) else (shape,)
    size = math.prod(shape) * np.dtype(dtype).itemsize
    apart = 1 + -(-LINE_BYTES // size) if 0 < size < LONG_LINE else 1
    return np.zeros((n_threads * apart, *shape), dtype)


def _groups(
    lines: _Lines,
    n: int,
    keys: int,
    most_bins: int,
    entries: int,
    n_groups: int,
    n_outputs: int,
    n_statistics: int,
) -> ScanGroups:
    # Whole words, which ``scan_bins`` reads 64 flags of at once; one array, seen in two ways.
    n_flags = -(-(max(most_bins, entries // n_statistics) + 9) // WORD) * WORD
    seen_words = lines(n_flags // 8, np.uint64)
    return ScanGroups(
        by_rows=lines(1),
        weights=lines(n + LANES),
        items=lines((n_outputs, n + LANES)),
        ones=lines((n + WORD) // WORD, np.uint64),
        keys=lines(keys, np.uint64),
        buffer=lines(keys, np.uint64),
        counters=lines(N_COUNTERS),
        histogram=lines(entries),
        seen=seen_words.view(np.uint8),
        seen_words=seen_words,
        code=lines(n_groups),
        first=lines(n_groups),
        order=lines(n_groups),
        order_buffer=lines(n_groups),
        ratio=lines(n_groups, np.float64),
        total=lines(n_statistics),
        missing=lines(n_statistics),
        left=lines(n_statistics),
        right=lines(n_statistics),
    )


def _few(lines: _Lines, code: Any, n_sorted: int) -> Few:
    n = max(n_sorted, FEW_ROWS)
    return Few(codes=lines(FEW_ROWS, code), weights=lines(n), items=lines(n))


def _screen(lines: _Lines, n: int, n_features: int) -> Screen:
    return Screen(
        words=lines(min(n, MOST_WEIGHT)),
        table=lines(AT_ONCE * N_CODES),
        drawn=lines(-(-n_features // WORD), np.uint64),
        order=lines(n_features),
        ratio=lines(n_features, np.float32),
    )


def _cuts(lines: _Lines, n: int) -> SortedCuts:
    # ``bounds`` notes partitions in the same lines; whole vectors are read.
    n = -(-max(n, 2 ** (MOST_ROWS - 1)) // LANES) * LANES
    return SortedCuts(
        code=lines(n),
        left=lines(n, np.float64),
        right=lines(n, np.float64),
        packed_left=lines(n),
    )


def _medians(lines: _Lines, n: int, n_groups: int, n_outputs: int) -> Medians:
    return Medians(
        rank=lines((n_outputs, n)),
        distinct=lines((n_outputs, n)),
        n_distinct=lines(n_outputs),
        weights=lines(n + 1),
        sums=lines(n + 1),
        score=lines((2, n_groups), np.float64),
        median=lines((2, n_groups)),
        packed=lines((2, n_groups)),
    )


@inlined
def _own(lines, thread, n_threads):
    # ``_lines`` leaves some unused between those of two threads.
    return lines[thread * (lines.shape[0] // n_threads)]


@inlined
def room_of(thread, n_threads, rooms):
    """Return the lines of a thread."""
    # Views of the thread's own lines, made field by field: compiled code cannot loop over a tuple
    # whose fields have different types.
    f, s, c, b = rooms.few, rooms.screen, rooms.cuts, rooms.block
    return ThreadScratch(
        _groups_of(thread, n_threads, rooms.groups),
        Few(
            _own(f.codes, thread, n_threads),
            _own(f.weights, thread, n_threads),
            _own(f.items, thread, n_threads),
        ),
        Screen(
            _own(s.words, thread, n_threads),
            _own(s.table, thread, n_threads),
            _own(s.drawn, thread, n_threads),
            _own(s.order, thread, n_threads),
            _own(s.ratio, thread, n_threads),
        ),
        SortedCuts(
            _own(c.code, thread, n_threads),
            _own(c.left, thread, n_threads),
            _own(c.right, thread, n_threads),
            _own(c.packed_left, thread, n_threads),
        ),
        CandidateBlock(
            _own(b.left, thread, n_threads),
            _own(b.right, thread, n_threads),
            _own(b.packed, thread, n_threads),
            _own(b.term, thread, n_threads),
            _own(b.score, thread, n_threads),
        ),
        _medians_of(thread, n_threads, rooms.medians),
        _own(rooms.features, thread, n_threads),
        _own(rooms.swapped, thread, n_threads),
        _own(rooms.found, thread, n_threads),
        _own(rooms.bits, thread, n_threads),
        _own(rooms.moved, thread, n_threads),
        _own(rooms.codes, thread, n_threads),
        _own(rooms.numbers, thread, n_threads),
        _row_cuts_of(thread, n_threads, rooms.row_cuts),
        SubtreeLanes(
            _own(rooms.lanes.codes, thread, n_threads),
            _own(rooms.lanes.gathered, thread, n_threads),
            _own(rooms.lanes.number, thread, n_threads),
            _own(rooms.lanes.records, thread, n_threads),
            _own(rooms.lanes.node, thread, n_threads),
            _own(rooms.lanes.inside, thread, n_threads),
        ),
        rooms.most_entries,
    )


@inlined
def _groups_of(thread, n_threads, groups):
    return ScanGroups(
        _own(groups.by_rows, thread, n_threads),
        _own(groups.weights, thread, n_threads),
        _own(groups.items, thread, n_threads),
        _own(groups.ones, thread, n_threads),
        _own(groups.keys, thread, n_threads),
        _own(groups.buffer, thread, n_threads),
        _own(groups.counters, thread, n_threads),
        _own(groups.histogram, thread, n_threads),
        _own(groups.seen, thread, n_threads),
        _own(groups.seen_words, thread, n_threads),
        _own(groups.code, thread, n_threads),
        _own(groups.first, thread, n_threads),
        _own(groups.order, thread, n_threads),
        _own(groups.order_buffer, thread, n_threads),
        _own(groups.ratio, thread, n_threads),
        _own(groups.total, thread, n_threads),
        _own(groups.missing, thread, n_threads),
        _own(groups.left, thread, n_threads),
        _own(groups.right, thread, n_threads),
    )


@inlined
def _medians_of(thread, n_threads, medians):
    return Medians(
        _own(medians.rank, thread, n_threads),
        _own(medians.distinct, thread, n_threads),
        _own(medians.n_distinct, thread, n_threads),
        _own(medians.weights, thread, n_threads),
        _own(medians.sums, thread, n_threads),
        _own(medians.score, thread, n_threads),
        _own(medians.median, thread, n_threads),
        _own(medians.packed, thread, n_threads),
    )


@inlined
def _row_cuts_of(thread, n_threads, cuts):
    return RowCuts(
        _own(cuts.low, thread, n_threads),
        _own(cuts.high, thread, n_threads),
        _own(cuts.limit, thread, n_threads),
        _own(cuts.other, thread, n_threads),
        _own(cuts.counts, thread, n_threads),
        _own(cuts.left, thread, n_threads),
        _own(cuts.chosen, thread, n_threads),
        _own(cuts.bits, thread, n_threads),
        _own(cuts.cut, thread, n_threads),
        _own(cuts.score, thread, n_threads),
        _own(cuts.last_left, thread, n_threads),
        _own(cuts.also_left, thread, n_threads),
        _own(cuts.missing_left, thread, n_threads),
    )
