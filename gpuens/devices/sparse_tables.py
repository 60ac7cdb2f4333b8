"""Tables whose absent entries are zeros.

They stay in host memory as they are, and come to a device as dense blocks of some rows and columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.sparse import csc_array, vstack

BLOCK_BYTES = 2**24
"""Bytes of the dense rows that are in memory together, or one row if that is more."""


class SparseTable:
    """A table that is kept as the entries of its columns.

    Parameters
    ----------
    entries : csc_array, shape (n_rows, n_features)
        float32 or float64, in the order of the rows, without zeros and duplicates. NaN is missing.
    """

    ndim = 2

    def __init__(self, entries: csc_array) -> None:
        self.entries = entries

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        n_rows, n_features = self.entries.shape
        return n_rows, n_features

    @property
    def dtype(self) -> np.dtype:
        """The type of the values."""
        return self.entries.dtype

    @property
    def itemsize(self) -> int:
        """Bytes of a value."""
        return self.dtype.itemsize

    @property
    def n_entries(self) -> np.ndarray:
        """The number of values other than zero in each column."""
        return np.diff(self.entries.indptr)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: np.ndarray) -> SparseTable:
        """Return some rows, by their numbers or a mask."""
        found = self.entries[rows]
        found.sort_indices()
        return SparseTable(found)

    def astype(self, dtype: np.dtype, copy: bool = True) -> SparseTable:
        """Return the table with values of another type, itself if it has that type already and
        ``copy`` is false."""
        if not copy and dtype == self.dtype:
            return self
        return SparseTable(self.entries.astype(dtype))

    def columns(self, features: np.ndarray | slice) -> SparseTable:
        """Return some columns."""
        return SparseTable(self.entries[:, features])

    def column(self, feature: int) -> np.ndarray:
        """Return a column with its zeros."""
        values = np.zeros(self.shape[0], self.dtype)
        own = slice(*self.entries.indptr[feature : feature + 2])
        values[self.entries.indices[own]] = self.entries.data[own]
        return values

    def dense(self) -> np.ndarray:
        """Return the table with its zeros."""
        return np.asarray(self.entries.toarray())

    @classmethod
    def stacked(cls, parts: Sequence[csc_array]) -> SparseTable:
        """Return the rows of all parts, which have the entries of ``SparseTable``."""
        return cls(csc_array(vstack(parts, format="csc")))

    def blocks(self, features: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield some columns of all rows, dense, a block of rows after the other.

        Yields
        ------
        rows : slice
        block : array, shape (n_rows of the block, n_features)
        """
        part = self.entries[:, features].tocsr()
        step = max(1, BLOCK_BYTES // (self.itemsize * max(1, len(features))))
        for first in range(0, self.shape[0], step):
            rows = slice(first, min(first + step, self.shape[0]))
            yield rows, part[rows].toarray()
