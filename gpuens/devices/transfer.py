"""Copies from host memory to a GPU in pieces, through two buffers of pinned memory.

A GPU fetches data by itself only from pinned memory. ``cupy.asarray`` copies a whole array there
first, into a buffer of the next power of two, which is kept. Here one buffer is filled while the
GPU fetches the other, and both together take ``2 * PIECE_BYTES``, whatever is copied.

Gain over ``cupy.asarray``: not measured on hardware.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Literal

import numpy as np

from ..kernels.runtime.arrays import Array

PIECE_BYTES = 32 * 2**20
"""Bytes of a piece, or one entry of the first axis if that is more. Pinned memory is given out in
powers of two."""


class _Stage:
    """Two buffers of pinned memory, filled in turn, on the current stream."""

    def __init__(self, n_bytes: int, xp: ModuleType) -> None:
        import cupy
        import cupyx

        self._buffers = [cupyx.empty_pinned(n_bytes, np.uint8) for _ in range(2)]
        self._stream = cupy.cuda.get_current_stream()
        self._copied: list[Any] = [None, None]

    def copy(self, values: np.ndarray, target: Array) -> None:
        """Begin to copy values into a contiguous array of their shape and type."""
        self._buffers.reverse()
        self._copied.reverse()
        if self._copied[0] is not None:
            self._copied[0].synchronize()  # the buffer's last values have left it
        buffer = self._buffers[0][: values.nbytes].view(values.dtype).reshape(values.shape)
        np.copyto(buffer, values)
        target.set(buffer, stream=self._stream)  # type: ignore[attr-defined]
        self._copied[0] = self._stream.record()

    def wait(self) -> None:
        """Wait until nothing reads the buffers: others get their memory next."""
        for event in self._copied:
            if event is not None:
                event.synchronize()


@contextmanager
def _stage(n_bytes: int, xp: ModuleType) -> Iterator[_Stage]:
    stage = _Stage(n_bytes, xp)
    try:
        yield stage
    finally:
        stage.wait()


def copied(values: np.ndarray, xp: ModuleType, order: Literal["C"] | None = None) -> Array:
    """Return a copy of an array on the current GPU.

    Parameters
    ----------
    values : NumPy array of numbers, with at least one axis
    xp : module
        CuPy.
    order : "C" or None
        Of the copy; None: that of ``values`` if they are contiguous, else "C".
    """
    if order is None and values.flags.fnc:
        return copied(values.T, xp).T
    made: Array = xp.empty(values.shape, dtype=values.dtype)
    target = made
    if values.flags.c_contiguous:
        values, target = values.reshape(-1), made.reshape(-1)
    step = _entries_of_piece(values)
    with _stage(values[:step].nbytes, xp) as stage:
        for first in range(0, len(values), step):
            stage.copy(values[first : first + step], target[first : first + step])
    return made


def in_pieces(table: Any, xp: ModuleType) -> Iterator[tuple[slice, Array]]:
    """Yield the rows of a table in pieces on the current GPU.

    Parameters
    ----------
    table : NumPy array, shape (n_rows, n_features), any strides
    xp : module
        CuPy.

    Yields
    ------
    rows : slice
    piece : array, shape (n_rows of the piece, n_features)
        With its columns contiguous if those of the table are closer together than its rows.
        Only work on the current stream may read it, and only until the next piece is asked for,
        which takes its memory.
    """
    n_rows, n_features = table.shape
    step = min(n_rows, _entries_of_piece(table))
    by_columns = abs(table.strides[0]) < abs(table.strides[1])
    memory = xp.empty(step * n_features, dtype=table.dtype)
    with _stage(memory.nbytes, xp) as stage:
        for first in range(0, n_rows, step):
            rows = slice(first, min(first + step, n_rows))
            values = table[rows].T if by_columns else table[rows]
            piece = memory[: values.size].reshape(values.shape)
            stage.copy(values, piece)
            yield rows, piece.T if by_columns else piece


def _entries_of_piece(values: np.ndarray) -> int:
    """Return how many entries of the first axis make a piece."""
    return max(1, PIECE_BYTES // max(1, values.nbytes // max(1, len(values))))
