"""Tables of any strides, for code that should be compiled once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..arrays import Array
from ..compilation import inner


class TableMemory(NamedTuple):
    """The stretch of memory that a table lies in: cell (i, f) is
    ``values[start + i * row + f * column]``. ``values`` is read-only, whatever the table is."""

    values: np.ndarray
    start: int
    row: int
    column: int


@inner
def cell(table, i, f):
    """Return the value of row i and column f."""
    return table.values[table.start + i * table.row + f * table.column]


def table_of(X: Array) -> TableMemory:
    """Return a view of X; of a copy where the cells of X do not lie in one array."""
    n_rows, n_columns = X.shape
    # The commonest layouts first: they need no view by strides.
    if X.flags.c_contiguous:
        return (_read_only(X.reshape(-1)), 0, n_columns, 1)
    if X.flags.f_contiguous:
        return (_read_only(X.T.reshape(-1)), 0, 1, n_rows)
    # Cells at other distances, as in an array of records, have no place in an array of values.
    if X.strides[0] % X.itemsize or X.strides[1] % X.itemsize:
        return table_of(np.ascontiguousarray(X))
    row, column = X.strides[0] // X.itemsize, X.strides[1] // X.itemsize
    # Memory is described upward; negative strides then start from its end.
    upward = X[:: -1 if row < 0 else 1, :: -1 if column < 0 else 1]
    last_row, last_column = (n_rows - 1) * abs(row), (n_columns - 1) * abs(column)
    values = as_strided(upward, (last_row + last_column + 1,), (X.itemsize,))
    start = (last_row if row < 0 else 0) + (last_column if column < 0 else 0)
    return (_read_only(values), start, row, column)


def _read_only(values: np.ndarray) -> np.ndarray:
    values.flags.writeable = False
    return values
