"""Reading the codes of a mapped file in the order of the rows."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

from ..kernels.growth.streamed_codes import StreamedCodes


def streamed(codes: Any) -> StreamedCodes:
    """Return ``Codes`` whose rows the system reads from their file before they are needed."""
    return StreamedCodes(codes.rows, codes.columns, _Announcer(codes.rows))


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
