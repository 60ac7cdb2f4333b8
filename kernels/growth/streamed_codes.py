"""The codes of a table in the host's memory or in a mapped file that growth reads in the order of
the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

CHUNK_BYTES = 2**26
"""Bytes of the rows that go to a GPU together, of which one buffer of pinned memory has room for as
many. More rows make longer segments of the nodes that they are added up for."""


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
