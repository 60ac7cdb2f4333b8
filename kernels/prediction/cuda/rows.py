"""Tables as the prediction kernels read them, and tiles of rows in shared memory."""

from __future__ import annotations

import functools
from importlib import import_module
from typing import NamedTuple

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.target import block_size, blocks_for, multiprocessors

TILE_BYTES = 32 * 1024
"""Shared memory for the values of a block's rows. It leaves room for the trees where those are
kept there too, and for several blocks on a multiprocessor."""
BLOCKS = (block_size(256), block_size(64))
"""Threads of a block that keeps its rows in shared memory: the first that the rows fit for."""


class Cells(NamedTuple):
    """The stretch of memory that a table lies in: cell (i, f) is
    ``values[i * row + f * column]``."""

    values: Array
    row: np.int64
    column: np.int64


def cells_of(X: Array) -> Cells:
    """Return a flat view of X, so that one compiled kernel reads tables of any layout; a view of a
    copy where rows or columns run backwards or other data lie between the cells."""
    n_rows, n_features = X.shape
    if X.flags.c_contiguous:
        return Cells(X.reshape(-1), _distance(n_features), ONE)
    row, column = X.strides
    if min(row, column) < 0 or row % X.itemsize or column % X.itemsize:
        return cells_of(X.copy())
    row, column = row // X.itemsize, column // X.itemsize
    size = 0 if X.size == 0 else (n_rows - 1) * row + (n_features - 1) * column + 1
    # CuPy or, in the simulator, NumPy: this module imports neither.
    library = import_module(type(X).__module__.partition(".")[0])
    values = library.lib.stride_tricks.as_strided(X, (size,), (X.itemsize,))
    return Cells(values, np.int64(row), np.int64(column))


_distance = functools.cache(np.int64)
"""Launches do not look at an argument that is the one of the launch before."""
ONE = _distance(1)


def cells_of_tile(itemsize: int) -> int:
    """Values that a tile of rows holds."""
    return TILE_BYTES // itemsize


def rows_of_tile(X: Array) -> int:
    """Threads of a block, one a row, that keeps its rows in shared memory; 0 if they are too
    wide for that."""
    most = cells_of_tile(X.itemsize)
    return next((block for block in BLOCKS if block * X.shape[1] <= most), 0)


FULL = 2
"""Blocks for each multiprocessor below which blocks are made smaller, so that more of the card
works on a batch (estimated, not measured on hardware)."""


def tiles_of(X: Array) -> tuple[int, int]:
    """Return the threads of a block, one a row, and the number of blocks.

    Every block has one tile. Blocks that stride over the tiles would save nothing, as each tile
    needs all trees again, and end together only if the card holds all of them at once.
    """
    n_rows, (most, least) = X.shape[0], BLOCKS
    block = rows_of_tile(X) or most
    if -(-n_rows // block) < FULL * multiprocessors():
        block = least
    return block, blocks_for(-(-n_rows // block), per_multiprocessor=n_rows)
