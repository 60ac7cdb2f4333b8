"""Pieces of segments, so that blocks share the rows of large and small nodes evenly."""

from __future__ import annotations

from typing import Any

import numpy as np

from .target import records_in, upload

TILE = np.dtype(
    [("of", np.int64), ("buffer", np.int64), ("begin", np.int64), ("end", np.int64)], align=True
)
"""Rows ``begin … end - 1`` of a buffer of records, 0 or 1; ``of`` is the number of what they
belong to."""


def cut(begin: np.ndarray, end: np.ndarray, rows: int) -> np.ndarray:
    """Cut segments of the first buffer into tiles of at most ``rows`` rows; empty segments have
    none.

    Parameters
    ----------
    begin, end : int64, shape (n_nodes,), NumPy
    rows : int

    Returns
    -------
    TILE, shape (n_tiles,), NumPy
    """
    pieces = -(-(end - begin) // rows)
    node = np.repeat(np.arange(begin.size), pieces)
    piece = np.arange(node.size) - (np.cumsum(pieces) - pieces)[node]
    tiles = np.zeros(node.size, TILE)
    tiles["of"] = node
    tiles["begin"] = begin[node] + piece * rows
    tiles["end"] = np.minimum(tiles["begin"] + rows, end[node])
    return tiles


def upload_tiles(tiles: np.ndarray, *arrays: np.ndarray) -> tuple[Any, ...]:
    """Copies of tiles and of small arrays on the device, brought over by one transfer."""
    memory, *copies = upload(tiles.view(np.uint8), *arrays)
    return records_in(memory, 0, TILE, tiles.size), *copies
