"""The codes of a table in the host's memory or in a file that growth reads in the order of the
rows."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

import numpy as np

from ..runtime.dtypes import N_SLOTS, NO_LEAF

SLAB_ROWS = 1 << 19
"""Rows that the CPU walks over while the next ones are read."""
GROUP_ROWS = 1 << 15
"""Rows of a group, in which the CPU orders them: 16 bits number them, and their codes are as large
as a second-level cache (28 features; 3 % slower with half of them, or with twice as many)."""
CHUNK_BYTES = 2**26
"""Bytes of a chunk, the rows that go to a GPU together: as many as a buffer of pinned memory holds.
The more rows a chunk has, the more of each node are added up together."""
SUMS_BYTES = 2**28
"""Most memory of the histograms that a GPU adds up in a pass: nodes that have to wait for another
one read the whole table again."""
MOST_LINES = 2048
"""And most of these histograms, and nodes that a pass opens: a block counts the rows of each in
shared memory."""


class StreamedCodes(NamedTuple):
    """``Codes`` that do not fit into memory, that of a GPU or of the host, beside what training
    takes.

    rows, columns : uint8, NumPy
        As those of ``Codes``.
    will_need : callable
        Called with the first and the last row, exclusive, that a GPU reads next.
    slabs : callable
        Called with the first and the last row, exclusive, of slabs: ``SLAB_ROWS`` from a multiple
        of this number on, or those up to the last row. A generator of the first and the last row of
        a slab, or of several next to each other, and their codes, uint8 of shape (n, row bytes),
        with padding or without, each valid until the next one is asked for; it is to be closed.
    n_resident : int
        Rows that stay in the device's memory: on a GPU those of the first chunks. The others are
        read in each pass.
    """

    rows: np.ndarray
    columns: np.ndarray
    will_need: Callable[[int, int], None]
    slabs: Callable[[Sequence[tuple[int, int]]], Generator[tuple[int, int, np.ndarray], None, None]]
    n_resident: int = 0


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
"""The way of the rows of a node that a pass opens."""


def kept_slabs(n_rows: int, n_resident: int) -> set[int]:
    """Return the first rows of the slabs that stay in memory: so many rows, in whole slabs, which
    lie far apart, so that there is something to walk over while others are read."""
    n_slabs, n_kept = -(-n_rows // SLAB_ROWS), -(-n_resident // SLAB_ROWS)
    counts = [k * n_kept // n_slabs for k in range(n_slabs + 1)]
    return {k * SLAB_ROWS for k in range(n_slabs) if counts[k] < counts[k + 1]}


def rows_of_chunk(row_bytes: int) -> int:
    """Return the number of rows of a chunk of a table."""
    return max(1, CHUNK_BYTES // row_bytes)


def most_sums(n_features: int) -> int:
    """Return how many histograms a GPU adds up in a pass."""
    return max(2, min(MOST_LINES, SUMS_BYTES // (8 * n_features * N_SLOTS)))


def most_numbers(n_nodes: int) -> int:
    """Return how many numbers rows get while a table of nodes is filled: two for each node that is
    opened, once, or twice where a child had too few rows."""
    return 4 * n_nodes + 1


def number_type(n_nodes: int) -> np.dtype:
    """Return the type of these numbers on a GPU, which become the leaves of rows."""
    return np.dtype(np.uint16 if most_numbers(n_nodes) <= NO_LEAF else np.int32)
