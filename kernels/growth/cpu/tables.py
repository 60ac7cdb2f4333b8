"""The rows of trees that grow on the CPU, the tasks of a round, and the scratch of the threads."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...runtime.cpu.team import CACHE_LINE
from ...runtime.dtypes import CODE_WORDS, N_SLOTS
from ..frontier import Frontier
from .few_rows import N_LINES as N_LINES_OF_FEW
from .histogram import WORD_ENTRIES
from .layout import Layout
from .levels.search import NO_LEVELS, LevelWork, allocate_levels
from .partition import FEWEST_ROWS
from .quick_split import N_CANDIDATES
from .split import N_LINES

PIECES_PER_THREAD = 4

# Entries of ``Work.counts``, each on a cache line of its own: the queues that tasks are taken
# from (reset while no thread uses them), the numbers of tasks, and of nodes cut into several.
PARTITION, HISTOGRAM, EVALUATE, RECHECK, LEAVES, N_TASKS, N_PIECES, N_CUT = (
    k * CACHE_LINE for k in range(8)
)

_I = np.int64
TASK = np.dtype([("expansion", _I), ("begin", _I), ("end", _I), ("thread", _I), ("n_left", _I)])
"""Rows to partition, all of a node or a piece of it, with the thread that took them, and how many
go left."""
PIECE_OF_ROWS = np.dtype([("pair", _I), ("begin", _I), ("end", _I), ("partial", _I)])
"""Rows to add up: a node's first piece into its slot, the others apart."""
IN_PLACE, FROM_SIBLING = -1, -2
"""Values of ``partial``: the piece goes to the slot of its node, or is subtracted from that of the
sibling."""
BEST = np.dtype(
    [
        ("score", np.float64),
        ("feature", _I),
        ("bin", _I),
        ("missing_left", _I),
        ("left", _I),
        ("codes", np.uint32, (CODE_WORDS,)),
    ]
)
"""The best split among some features; ``left`` is packed, ``codes`` are those on the left of a
split by categories, whose bin is -1."""


class Table(NamedTuple):
    """The rows: codes as columns and in the layout for histograms, and both buffers of records.

    A node's records are in the buffer ``depth & 1``. Nodes of fewer than ``few_rows`` rows may
    do without a histogram (see the module of that name).
    """

    columns: np.ndarray
    layout: Layout
    records: tuple[np.ndarray, np.ndarray]
    few_rows: int


class Work(NamedTuple):
    """Tasks of the round, histograms, and scratch of the threads.

    tasks : TASK; pieces : PIECE_OF_ROWS; counts : see above.
    n_left : int64, (expansions,)
        Rows that go left.
    marks : uint8, (records,)
        Whether records go left, in nodes that are cut; empty for a thread alone.
    partial_range : int64, (pairs, 2)
        Lines of ``partials`` that belong to the pair's first node.
    histograms, partials : packed, a line each.
    best : BEST, (pairs, words, 2)
        For the pair's two nodes, among the features of a word.
    rechecked : BEST, one a rechecked node.
    spare : packed histogram; like all below it has a line for each thread.
    """

    counts: np.ndarray
    tasks: np.ndarray
    n_left: np.ndarray
    marks: np.ndarray
    pieces: np.ndarray
    partial_range: np.ndarray
    histograms: np.ndarray
    partials: np.ndarray
    best: np.ndarray
    rechecked: np.ndarray
    spare: np.ndarray
    found: np.ndarray
    bounds: np.ndarray
    allowed: np.ndarray
    features: np.ndarray
    hashes: np.ndarray
    expanded: np.ndarray
    prefix: np.ndarray
    lefts: np.ndarray
    scores: np.ndarray
    approximate: np.ndarray
    row_counts: np.ndarray
    arranged: np.ndarray
    levels: LevelWork
    few: np.ndarray


def allocate_work(
    layout: Layout, n_records: int, frontier: Frontier, n_threads: int, is_symmetric: int
) -> Work:
    """Allocate the tasks and the scratch of a batch of trees of certain sizes."""
    n_features, levels = layout.features.size, NO_LEVELS
    if is_symmetric:
        levels = allocate_levels(n_features, frontier.nodes.size, n_threads)
    n_words = (layout.column_begin.size + 6) // 8
    capacity = frontier.nodes.size
    n_slots = frontier.free_slots.size
    n_partials = PIECES_PER_THREAD * n_threads + 1
    return Work(
        counts=np.zeros(8 * CACHE_LINE, np.int64),
        tasks=np.empty(capacity + n_records // FEWEST_ROWS + 1, TASK),
        n_left=np.zeros(capacity, np.int64),
        marks=np.empty(n_records if n_threads > 1 else 0, np.uint8),
        pieces=np.empty(capacity + n_partials, PIECE_OF_ROWS),
        partial_range=np.empty((capacity, 2), np.int64),
        histograms=np.empty((n_slots, n_words * WORD_ENTRIES), np.int64),
        partials=np.empty((n_partials, n_words * WORD_ENTRIES), np.int64),
        best=np.empty((capacity, n_words, 2), BEST),
        rechecked=np.empty(capacity, BEST),
        spare=np.empty((n_threads, n_words * WORD_ENTRIES), np.int64),
        found=np.empty(n_threads, BEST),
        bounds=np.empty((n_threads, n_features), np.float64),
        allowed=np.empty((n_threads, n_features), np.uint8),
        features=np.empty((n_threads, n_features), np.int64),
        hashes=np.empty((n_threads, n_features), np.uint64),
        expanded=np.empty((n_threads, N_SLOTS), np.int64),
        prefix=np.empty((n_threads, N_SLOTS), np.int64),
        lefts=np.empty((n_threads, 2, N_CANDIDATES), np.int32),
        scores=np.empty((n_threads, N_SLOTS), np.float64),
        approximate=np.empty((n_threads, N_CANDIDATES), np.float32),
        row_counts=np.empty((n_threads, N_SLOTS), np.int64),
        arranged=np.empty((n_threads, N_LINES, N_SLOTS), np.int64),
        levels=levels,
        few=np.zeros((n_threads, N_LINES_OF_FEW, N_SLOTS), np.int64),
    )
