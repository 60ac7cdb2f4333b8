"""Pieces of segments, so that blocks share the rows of large and small nodes evenly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

TILE = np.dtype(
    [("of", np.int64), ("buffer", np.int64), ("begin", np.int64), ("end", np.int64)], align=True
)
"""Rows ``begin … end - 1`` of a buffer of records, 0 or 1; ``of`` is the number of what they
belong to."""


class Tiles(NamedTuple):
    """Work of a launch: rows ``begin:end`` (int64) belong to segment ``node`` (int32)."""

    node: np.ndarray
    begin: np.ndarray
    end: np.ndarray


def cut(begin: np.ndarray, end: np.ndarray, rows: int) -> Tiles:
    """Cut segments into tiles of at most ``rows`` rows; empty segments have none.

    Parameters
    ----------
    begin, end : int64, shape (n_nodes,), NumPy
    rows : int
    """
    pieces = -(-(end - begin) // rows)
    node = np.repeat(np.arange(begin.size, dtype=np.int32), pieces)
    piece = np.arange(node.size) - (np.cumsum(pieces) - pieces)[node]
    first = begin[node] + piece * rows
    return Tiles(node, first, np.minimum(first + rows, end[node]))


def as_records(tiles: Tiles) -> np.ndarray:
    """The same as TILE, of the first buffer."""
    made = np.zeros(tiles.node.size, TILE)
    made["of"], made["begin"], made["end"] = tiles
    return made
