"""Reading the codes of a table in the order of the rows: from a mapped file, or for a GPU from any
memory of the host."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

from ..kernels.growth.streamed_codes import StreamedCodes


def streamed(codes: Any, n_resident: int = 0) -> StreamedCodes:
    """Return ``Codes`` whose rows the system reads from their file before they are needed, and of
    which so many stay on a GPU.

    What growth keeps with them, it keeps with a view that is theirs alone, not with the table.
    """
    return StreamedCodes(codes.rows.view(), codes.columns, _Announcer(codes.rows), n_resident)


class _Announcer:
    """Tells the system which rows of a mapped array are read next."""

    def __init__(self, rows: np.ndarray) -> None:
        self._row_bytes = rows.strides[0]
        self._file = _mapped_file(rows)
        if self._file is not None:
            self._first = rows.ctypes.data - np.frombuffer(self._file, np.uint8).ctypes.data

    def __call__(self, begin: int, end: int) -> None:
        if self._file is None:
            return
        first = self._first + begin * self._row_bytes
        first -= first % mmap.PAGESIZE
        last = self._first + end * self._row_bytes
        self._file.madvise(mmap.MADV_WILLNEED, first, last - first)


def _mapped_file(array: np.ndarray) -> mmap.mmap | None:
    """Return the mapping that holds an array; None if there is none, or without ``madvise``."""
    if not hasattr(mmap, "MADV_WILLNEED"):
        return None
    base = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    return base if isinstance(base, mmap.mmap) else None
