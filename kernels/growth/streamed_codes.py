"""The codes of a table in the host's memory or in a mapped file that growth reads in the order of
the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..runtime.dtypes import N_SLOTS, NO_LEAF

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
        Called with the first and the last row, exclusive, that are read next.
    n_resident : int
        Rows that stay on a GPU: those of the first chunks. The others go there in each pass.
    """

    rows: np.ndarray
    columns: np.ndarray
    will_need: Callable[[int, int], None]
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
